"""What a set-up knows of a model, and how it learns more: design, emulator, chains on it."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..._typing import (
    FloatArray,
)
from ...approximations import (
    Approximation,
    InterpolatedSites,
)
from ...approximations.importance import (
    Quadratic,
)
from ...model import (
    LatentGP,
)
from ...numerics.linalg import (
    cholesky,
)
from ...transitions import (
    CheapDensity,
    CheapPoint,
    Leapfrog,
)
from ..work import (
    Request,
    Task,
    has_factor,
)
from .design import (
    Design,
    DesignPoint,
    examine,
    explore,
    search,
    spread_out,
)
from .fit import (
    EmulatedPosterior,
    Emulator,
)

#: Points whose log density is lower than the best by more than this plus 2 p only mark the edge.
_MARGIN = 15.0
#: Points with a log p(theta) so much below that of the best are of no use.
_PRIOR_MARGIN = 50.0
#: Most values and derivatives that the emulator is conditioned on.
_MOST_OBSERVATIONS = 5000
#: Log evidences are compressed below the largest by more than about this plus p.
_SPAN = 10.0
#: A second mode counts if its log density is at most so much lower, and it is so far away (times
#: the root of p, in standard deviations).
_MODE_MARGIN, _MODE_GAP = 8.0, 2.0
#: With more hyper-parameters than this, trajectories with exact gradients come before the emulator.
_FEW = 4
#: c of pi* is so much below the emulated evidence, in logs.
_FLOOR = 12.0
#: Chains of a pool: at least so many, and one for every chain of the run.
_N_CHAINS = 64
#: Most batches of points of a later refinement of the emulator.
LATER_ROUNDS = 6
#: Points on exploring trajectories, and those of one trajectory.
_N_EXPLORED, _N_LEAPFROG = 60, 4
#: Scaled mean squared difference of two rows below which a length-scale hardly matters.
_FLAT = 0.005
#: Held-out error of the log evidence at which the design is complete.
_ENOUGH = 0.05
#: Error of the emulator above which its posterior does not set the scale, nor lead chains far.
TRUSTED = 1.0


Work = Generator[Sequence[Task], Sequence[Any], None]


class Learner:
    """State of one set-up: the design so far, and the scale on which theta moves."""

    def __init__(
        self,
        model: LatentGP,
        approximation: Approximation,
        rng: np.random.Generator,
        paths: Sequence[Sequence[DesignPoint]],
    ) -> None:
        self.model = model
        self.approximation = approximation
        self.rng = rng
        self.ends = [path[-1] for path in paths]
        self.dim = len(self.ends[0].theta)
        self.pool_size = max(_N_CHAINS, len(self.ends))
        visited = Design(tuple(point for path in paths for point in path))
        self.n_evaluations = len(visited)
        # With many hyper-parameters improbable points are many, and are learned only where the
        # emulator leads to them.
        self.design = visited if self.few else visited.plausible(_MARGIN + 2.0 * self.dim)
        self.root = np.eye(self.dim)
        self.held_out_error = 0.0 if self.few else np.inf
        self.explored = np.empty((0, self.dim))
        self.flat = _flattening(model)
        self._fitted: tuple[int, Emulator] | None = None

    @property
    def few(self) -> bool:
        """Whether there are few hyper-parameters."""
        return self.dim <= _FEW

    @property
    def coupled(self) -> bool:
        """Whether sites are coupled, so that densities made of them are not bent."""
        return self.design.best.shape is None

    @property
    def scale(self) -> FloatArray:
        """Standard deviations of the emulated posterior; (p,)."""
        return np.asarray(np.sqrt((self.root**2).sum(axis=1)))

    @property
    def temperature(self) -> float:
        """Design points come from the posterior to the power of one over this."""
        return 1.0 + 1.5 / self.dim

    def seeds(self, n: int) -> list[np.random.SeedSequence]:
        """Return a seed for each of n tasks."""
        return self.rng.bit_generator.seed_seq.spawn(n)  # type: ignore[attr-defined]

    def add(self, points: Sequence[DesignPoint | None]) -> list[DesignPoint]:
        """Let points join the design; returns those that there are."""
        found = [point for point in points if point is not None]
        self.design = self.design.joined(found)
        self.n_evaluations += len(points)
        return found

    def tasks(self, thetas: FloatArray) -> list[Task]:
        """Return the work of examining points, each from the sites of its nearest neighbor."""
        return [
            Task(
                examine,
                (self.model, self.approximation, t, self.design.nearest(t, self.scale).sites),
            )
            for t in thetas
        ]

    def factor_tasks(self, thetas: FloatArray) -> list[Task]:
        """Return the work of factoring K at points, which the evidence alone does not need."""
        return [Task(has_factor, (self.model, theta)) for theta in thetas]

    def measure_scale(self) -> Work:
        """Curvature at the best mode, from gradients a step away along every axis.

        Yields
        ------
        sequence of Task
            Work whose results are to be sent back.
        """
        best = self.design.best
        signs = (1.0, -1.0) if self.dim <= 4 else (1.0,)
        steps = [sign * 0.25 * e for e in np.eye(self.dim) for sign in signs]
        found = yield self.tasks(best.theta + np.array(steps))
        gradient = self.model.hyperprior.gradient
        curvature = np.zeros((self.dim, self.dim))
        at_mode = best.gradient + gradient(best.theta)
        for step, point in zip(steps, found, strict=True):
            if point is not None:
                difference = point.gradient + gradient(point.theta) - at_mode
                axis = int(np.argmax(np.abs(step)))
                curvature[axis] -= difference / step[axis] / len(signs)
        self.add(found)
        curvature = 0.5 * (curvature + curvature.T)
        values, vectors = np.linalg.eigh(curvature)
        # A prior on the log scale has standard deviations of a few at most.
        deviations = 1.0 / np.sqrt(np.clip(values, 0.1, 1e6))
        self.root = cholesky(np.asfortranarray((vectors * deviations**2) @ vectors.T))

    def explore(self) -> Work:
        """Follow trajectories from the ends of the searches, if there are many hyper-parameters.

        Yields
        ------
        sequence of Task
            Work whose results are to be sent back.
        """
        if self.few:
            return
        seeds = self.seeds(len(self.ends))
        n_trajectories = _N_EXPLORED // (_N_LEAPFROG * len(self.ends)) + self.dim // 2
        found = yield [
            Task(
                explore,
                (self.model, self.approximation, end, self.root, n_trajectories, _N_LEAPFROG, seed),
            )
            for end, seed in zip(self.ends, seeds, strict=True)
        ]
        for points in found:
            self.add(points)
        self.explored = np.array([p.theta for points in found for p in points[len(points) // 3 :]])

    @property
    def batch_size(self) -> int:
        """Design points that are added at once."""
        return int(np.clip(self.dim, 8, 32))

    @property
    def max_rounds(self) -> int:
        """Most batches of points that the first refinement asks for."""
        return 8 + 2 * self.dim if self.few else LATER_ROUNDS

    def refine(self, max_rounds: int, known_error: float | None = None) -> Work:
        """Add points from the tempered emulated posterior until they are predicted well.

        Parameters
        ----------
        max_rounds : int
            Most batches of points.
        known_error : float, optional
            Error at draws from pi*, where it is known to be large, whatever the last batch showed.
            Then pi* is large where the posterior is not, and points there count as well.

        Yields
        ------
        sequence of Task
            Work whose results are to be sent back.
        """
        everywhere = known_error is not None
        if known_error is not None:
            self.held_out_error = max(self.held_out_error, known_error)
        for n_more in range(max_rounds, -1, -1):
            target = self.emulate()
            pool = run_pool(
                Tempered(target, 1.0 / self.temperature),
                self.pool_starts(),
                self.root,
                20 if self.few else 6,
                self.rng,
            )
            if self.held_out_error < TRUSTED:
                self.root = root_of(pool.theta, shrink=1.0 / self.temperature)
            enough = 0.0 < self.held_out_error < _ENOUGH
            if enough or n_more == 0:
                return
            # A random part, so that the design follows the density and not its outermost points.
            candidates = self.rng.permutation(pool.theta[-1])[: 2 * self.batch_size]
            where = spread_out(
                candidates / self.scale, self.used().theta / self.scale, self.batch_size
            )
            found = self.add((yield self.tasks(candidates[where])))
            self.held_out_error = self._error(target, found, everywhere=everywhere)

    def _error(
        self, target: EmulatedPosterior, points: Sequence[DesignPoint], *, everywhere: bool
    ) -> float:
        """Root mean square error of prediction, over points that the posterior could visit.

        Or over all that it or pi* could.
        """
        limit = self.design.best.log_density - self.dim - 5.0
        gaps = []
        for point in points:
            emulated = float(target.emulator.value_and_gradient(point.theta)[0])
            gap = emulated - point.log_evidence
            if point.log_density + (max(gap, 0.0) if everywhere else 0.0) > limit:
                gaps.append(gap)
        return float(np.sqrt(np.mean(np.square(gaps)))) if gaps else np.inf

    def used(self) -> Design:
        """Return the points that the emulator is conditioned on.

        Those that the data make improbable tell it where not to go; where the prior does, it need
        not know.
        """
        most = _MOST_OBSERVATIONS // (self.dim + 1)
        return self.design.believable(_PRIOR_MARGIN).thinned(self.scale, most)

    def modes(self) -> FloatArray:
        """Distinct modes that the searches ended at, the best first; (k, p)."""
        ends = sorted(self.ends, key=lambda point: -point.log_density)
        modes, gap = [ends[0].theta], _MODE_GAP * np.sqrt(self.dim)
        for end in ends[1:]:
            far = np.linalg.norm((np.array(modes) - end.theta) / self.scale, axis=1) > gap
            if end.log_density > ends[0].log_density - _MODE_MARGIN and far.all():
                modes.append(end.theta)
        return np.array(modes)

    def pool_starts(self) -> FloatArray:
        """Where the chains of a pool begin: explored points, else around the modes in turn."""
        if len(self.explored):
            return self.explored[self.rng.integers(len(self.explored), size=self.pool_size)]
        modes = self.modes()
        noise = self.rng.standard_normal((self.pool_size, self.dim)) @ self.root.T
        return modes[np.arange(self.pool_size) % len(modes)] + noise

    def _fit_emulator(self) -> Emulator:
        """Emulator of the design so far; the last one if the design has not grown."""
        if self._fitted is None or self._fitted[0] != len(self.design):
            used = self.used()
            noise = self.rng.standard_normal((200, self.dim))
            emulator = Emulator.fit(
                used.theta,
                used.values,
                used.gradients,
                draws=self.design.best.theta + noise @ self.root.T,
                flat=self.flat,
                span=_SPAN + self.dim,
            )
            self._fitted = len(self.design), emulator
        return self._fitted[1]

    def emulate(self, correction: Quadratic | None = None) -> EmulatedPosterior:
        """pi* from the design so far."""
        used, emulator = self.used(), self._fit_emulator()
        if correction is None:
            correction = Quadratic.flat(self.design.best.theta, self.scale)
        volume = 0.5 * self.dim * np.log(2.0 * np.pi) + np.log(self.root.diagonal()).sum()
        shift = correction.constant
        return EmulatedPosterior(
            self.model.hyperprior,
            emulator,
            correction,
            used.theta.min(axis=0),
            used.theta.max(axis=0),
            float(used.values.max()) + 2.0 + shift,
            self.design.best.log_density + volume - _FLOOR + shift,
        )

    def posterior_pool(self) -> Pool:
        """Draw from pi*, and learn the metric of its moves."""
        target = self.emulate()
        pool = run_pool(target, self.pool_starts(), self.root, 40, self.rng)
        if self.held_out_error < TRUSTED:
            self.root = root_of(pool.theta)
        return run_pool(target, pool.theta[-1], self.root, 20, self.rng)

    def reference(self, n_sweeps: int, strength: float) -> InterpolatedSites:
        """Interpolated sites of the design so far."""
        most = _MOST_OBSERVATIONS // (self.dim + 1)
        used = self.design.plausible(_MARGIN + 2.0 * self.dim).thinned(self.scale, most)
        return InterpolatedSites.fit(
            self.approximation,
            used.theta,
            [point.sites for point in used.points],
            [point.shape for point in used.points],
            self.design.best.theta,
            self.scale,
            n_sweeps=n_sweeps,
            strength=strength,
        )


def begun(request: Request) -> Generator[Sequence[Task], Sequence[Any], Learner]:
    """Search for modes from every start, and learn from there until the emulator predicts well.

    Yields
    ------
    sequence of Task
        Work whose results are to be sent back.
    """
    paths: Sequence[list[DesignPoint]] = yield [
        Task(search, (request.model, request.approximation, start)) for start in request.starts
    ]
    learner = Learner(request.model, request.approximation, request.rng, paths)
    yield from learner.measure_scale()
    yield from learner.explore()
    yield from learner.refine(learner.max_rounds)
    return learner


def _flattening(model: LatentGP) -> FloatArray:
    """Inverse squares of length-scales that hardly matter any more; 0 for other components."""
    X, hyperparameters = model.covariance.X, model.covariance.kernel.hyperparameters
    spread = 2.0 * X.var(axis=0)  # mean squared difference of two rows
    parts = []
    for h in hyperparameters:
        if h.fixed:
            continue
        if not h.name.endswith("length_scale"):
            parts.append(np.zeros(h.n_elements))
            continue
        squares = spread if h.n_elements == len(spread) else np.array([spread.sum()])
        parts.append(_FLAT / np.maximum(squares, 1e-12))
    n_kernels = len(model.kernel_thetas(model.start))
    return np.concatenate([*parts * n_kernels, np.zeros(len(model.likelihood.parameters))])


def root_of(draws: FloatArray, shrink: float = 1.0, correlated: float = 0.98) -> FloatArray:
    """Cholesky factor of the covariance of draws (..., p), the correlations shrunk a little."""
    flat = draws.reshape(-1, draws.shape[-1])
    covariance = np.atleast_2d(np.cov(flat, rowvar=False)) * shrink
    diagonal = np.maximum(covariance.diagonal(), 1e-6)
    covariance = correlated * covariance + (1.0 - correlated) * np.diag(diagonal)
    covariance.flat[:: len(covariance) + 1] += 1e-8
    return cholesky(np.asfortranarray(covariance))


_TARGET_ACCEPTANCE = 0.9
#: A trajectory goes about a quarter of a period, after which a Gaussian is forgotten.
_TRAVEL = 0.5 * np.pi
_MAX_LEAPFROG = 20


@dataclass(frozen=True, eq=False)
class Tempered:
    """A density to a power below one: wider tails."""

    target: CheapDensity
    power: float

    def value_and_gradient(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Log density (...) and its gradient (..., p)."""
        value, gradient = self.target.value_and_gradient(theta)
        return self.power * value, self.power * gradient


class Pool(NamedTuple):
    """Where the chains of a pool were in its second half."""

    theta: FloatArray  # (n_kept, m, p)
    leapfrog: Leapfrog  # as tuned in the first half


def run_pool(
    target: CheapDensity,
    theta: FloatArray,
    root: FloatArray,
    n_moves: int,
    rng: np.random.Generator,
) -> Pool:
    """Move chains from theta (m, p) by trajectories in the metric `root`, tuning their step."""
    point = CheapPoint.at(target, theta)
    log_step = np.log(0.5)
    kept = []
    for i in range(n_moves):
        leapfrog = _leapfrog(root, float(np.exp(log_step)))
        point, probability = leapfrog.move(target, point, rng)
        if i < n_moves // 2:
            gain = 1.5 / (i + 2.0) ** 0.6
            log_step += gain * (float(probability.mean()) - _TARGET_ACCEPTANCE)
        else:
            kept.append(point.position)
    return Pool(np.array(kept), leapfrog)


def _leapfrog(root: FloatArray, step: float) -> Leapfrog:
    step = min(step, 1.0)
    return Leapfrog(root, step, int(np.clip(np.ceil(_TRAVEL / step), 1, _MAX_LEAPFROG)))
