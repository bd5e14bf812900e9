"""What a set-up knows of a model, and the steps by which it learns more."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from ..._typing import FloatArray
from ...approximations import Approximation, InterpolatedSites, Quadratic, rows_in_turn
from ...model import LatentGP, period_positions
from ...transitions import MOST_ROTATED, GridDensity, Pool, RandomWalk, root_of, run_pool
from ...transitions.surrogate import N_KEPT
from ..time_limit import require_time, time_is_over
from ..work import ITERATIONS_PER_EVALUATION, Request, Task
from .design import (
    FEW,
    Design,
    DesignPoint,
    corners_of,
    distinct_modes,
    examine,
    highest,
    paths_between,
    root_at_mode,
    search,
    spread_out,
)
from .fit import EmulatedPosterior, Emulator, flattening
from .periods import step_sizes
from .trajectories import explore

#: Points whose log density is lower than the best by more than this plus 2 p only mark the edge;
#: those with a log p(theta) so much below that of the best are of no use.
_MARGIN, _PRIOR_MARGIN = 15.0, 50.0
#: Most values and derivatives that the emulator is conditioned on.
_MOST_VALUES = 5000
#: Log evidences are compressed below the largest by more than about this plus p; c of pi* is so
#: much below the emulated evidence, in logs.
_SPAN, _FLOOR = (4.0, 10.0), 12.0
#: A second mode counts if its log density is at most so much lower: as a mode, and as a start.
_MODE_MARGINS = (8.0, 16.0)
#: Chains of a pool, or one for each of the run; most batches of points of a later refinement.
_N_CHAINS, LATER_ROUNDS = 64, (6, 3)
#: Points on exploring trajectories, and those of one trajectory.
_N_EXPLORED, _N_LEAPFROG = 60, 4
#: Held-out error of the log evidence at which the design is complete, with few hyper-parameters and
#: with many; and where it is that of some of the rows.
_ENOUGH, _ROUGHLY = (0.1, 0.05), 0.5
#: One row of so many is learned first, if these are so many at least.
_SHARE, _FEWEST_ROWS = 4, 100
#: Acceptance rate of draws from pi* above which it may lead chains: that of Gaussian errors with
#: standard deviation 1.
LEAST_ACCEPTANCE = 0.48
#: Share of the probability that a new emulator promises and that an examined one has to, too.
_CONFIRMED = 0.7
#: Error of the emulator above which its posterior does not set the scale, nor lead chains far.
TRUSTED = 1.0

T = TypeVar("T")
#: A step of a set-up: it yields batches of tasks, is sent their results, and returns what it found.
Step = Generator[Sequence[Task], Sequence[Any], T]


@dataclass(frozen=True, eq=False)
class Knowledge:
    """What a set-up has found out so far; every step takes it and returns more.

    It is a record of arrays and numbers. Only the random stream moves.

    Attributes
    ----------
    model : LatentGP
    approximation : Approximation
    rng : numpy.random.Generator
        Of the set-up.
    design : Design
        Where log evidence, its gradient and the sites are known.
    n_chains : int
        Chains of the run.
    ends : tuple of DesignPoint
        Where the searches for modes ended.
    root : ndarray of shape (p, p)
        Cholesky factor of a covariance: the scale on which theta moves.
    n_evaluations : float
        Of the evidence; those of some rows count by their share of the operations.
    held_out_error : float
        Of the emulator, at the last points before they joined the design; infinite where that says
        nothing yet.
    explored : ndarray of shape (m, p)
        Where trajectories with the exact gradient went, with many hyper-parameters.
    base : Emulator or None
        Of the evidence of some of the rows, on which the emulator builds.
    box : ndarray of shape (b, p)
        Corners of where that is known.
    emulator : Emulator or None
        Of the design; None if that has grown since.
    """

    model: LatentGP
    approximation: Approximation
    rng: np.random.Generator
    design: Design
    n_chains: int
    ends: tuple[DesignPoint, ...]
    root: FloatArray
    n_evaluations: float
    held_out_error: float
    explored: FloatArray
    box: FloatArray
    base: Emulator | None = None
    emulator: Emulator | None = None

    @property
    def dim(self) -> int:
        """Number of hyper-parameters, p."""
        return len(self.root)

    @property
    def few(self) -> bool:
        """Whether there are few hyper-parameters."""
        return self.dim <= FEW

    @property
    def periods(self) -> list[tuple[int, int | None]]:
        """Where theta has periods, see `period_positions`."""
        return period_positions(self.model)

    @property
    def scale(self) -> FloatArray:
        """Standard deviations of the emulated posterior; (p,)."""
        return np.asarray(np.sqrt((self.root**2).sum(axis=1)))

    @property
    def walk(self) -> RandomWalk:
        """A random walk on that scale."""
        return RandomWalk().with_covariance(self.root @ self.root.T)

    @property
    def temperature(self) -> float:
        """Design points come from the posterior to the power of one over this: wider tails."""
        return 1.0 + 1.5 / self.dim

    @property
    def batch_size(self) -> int:
        """Design points that are added at once."""
        return max(self.dim, 8) if self.few else min(2 * self.dim, 64)

    @cached_property
    def used(self) -> Design:
        """Return the points that the emulator is conditioned on.

        Those that the data make improbable tell it where not to go; where the prior does, it need
        not know.
        """
        return self.design.believable(_PRIOR_MARGIN).thinned(self.scale, _MOST_VALUES)

    @property
    def corners(self) -> FloatArray:
        """Ends of the box in which the evidence is known; (2, p)."""
        return corners_of(self.used.theta, self.box)

    @property
    def modes(self) -> FloatArray:
        """Distinct modes that the searches ended at, the best first; (k, p)."""
        return self.modes_within(_MODE_MARGINS[0])

    def modes_within(self, margin: float) -> FloatArray:
        """Those whose log density is at most `margin` below the largest; (k, p)."""
        ends, log_prob = highest(self.ends, self.scale, margin), None
        if self.few and self.emulator is not None:
            between = paths_between(ends)
            log_prob = self.emulator.value(between) + self.model.hyperprior.log_prob(between)
        return distinct_modes(ends, self.scale, log_prob)

    @property
    def no_correction(self) -> Quadratic:
        """The correction of the evidence where nothing is known of one."""
        return Quadratic.flat(self.design.best.theta, self.scale)

    def seeds(self, n: int) -> list[np.random.SeedSequence]:
        """Return a seed for each of n tasks."""
        return self.rng.bit_generator.seed_seq.spawn(n)  # type: ignore[attr-defined]

    def tasks(
        self, thetas: FloatArray, stage: str = "learning", *, needed: bool = False
    ) -> list[Task]:
        """Return the work of examining points, each from sites that the design lets expect."""
        near, scale = self.design.nearest, self.scale
        sites_at = self.reference().sites_at if self.few else lambda t: near(t, scale).sites
        parts = self.model, self.approximation
        return [
            Task(examine, (*parts, t, sites_at(t)), stage, needed, ITERATIONS_PER_EVALUATION)
            for t in thetas
        ]

    def progress(self, most: int, enough: float) -> str:
        """Say how far learning is, for whoever waits for it."""
        known = 0.0 < self.held_out_error < np.inf
        error = f", error {self.held_out_error:.2g} ({enough:g} is enough)" if known else ""
        return f"learning: {len(self.design)} of at most {most} evaluations{error}"

    def joined(self, points: Sequence[DesignPoint | None]) -> Knowledge:
        """Let examined points join the design, None being one that there is not."""
        found = [point for point in points if point is not None]
        known = replace(self, n_evaluations=self.n_evaluations + len(points))
        return replace(known, design=self.design.joined(found), emulator=None) if found else known

    def emulated(self) -> Knowledge:
        """Condition the emulator on the design, if that has grown."""
        if self.emulator is not None:
            return self
        used, noise = self.used, self.rng.standard_normal((200, self.dim))
        emulator = Emulator.fit(
            used.theta,
            used.values,
            used.gradients,
            draws=self.design.best.theta + noise @ self.root.T,
            flat=flattening(self.model),
            span=_SPAN[not self.few] + self.dim,
            base=self.base,
        )
        return replace(self, emulator=emulator)

    def target(self, correction: Quadratic | None = None) -> EmulatedPosterior:
        """pi* by the emulator."""
        assert self.emulator is not None
        used, correction = self.used, correction or self.no_correction
        volume = 0.5 * self.dim * np.log(2.0 * np.pi) + np.log(self.root.diagonal()).sum()
        shift, (low, high) = correction.constant, corners_of(used.theta, self.box)
        return EmulatedPosterior(
            self.model.hyperprior,
            self.emulator,
            correction,
            low,
            high,
            float(used.values.max()) + 2.0 + shift,
            self.design.best.log_density + volume - _FLOOR + shift,
        )

    def pool_starts(self) -> FloatArray:
        """Where the chains of a pool begin: explored points, else around the modes in turn."""
        size = max(_N_CHAINS, self.n_chains)
        if len(self.explored):
            return self.explored[self.rng.integers(len(self.explored), size=size)]
        noise = self.rng.standard_normal((size, self.dim)) @ self.root.T
        return self.modes[np.arange(size) % len(self.modes)] + noise

    def posterior_pool(self) -> tuple[Knowledge, Pool]:
        """Draw from pi*, and learn the scale of its moves."""
        known = self.emulated()
        target = known.target()
        pool = known.pool(target, 40)
        if known.held_out_error < TRUSTED:
            known = replace(known, root=root_of(pool.theta))
        if known.dim <= MOST_ROTATED:
            return known, pool
        return known, run_pool(target, pool.theta[-1], known.root, 20, known.rng)

    def confirmed(self, examined: Emulator) -> Knowledge:
        """Go back to an emulator that was examined at its own draws if this one promises too much.

        This one knows the points of the examination too, but between far points it can rise where
        nobody has been. So that has to have most of the probability that this one promises.
        """
        assert self.emulator is not None
        on_grid = self.dim <= MOST_ROTATED  # where there is no more to a pool
        pool = self.pool(self.target(), 40) if on_grid else self.posterior_pool()[1]
        draws = pool.theta.reshape(-1, self.dim)
        gap = examined.value(draws) - self.emulator.value(draws)
        shared = np.exp(np.minimum(gap, 0.0)).mean()
        return self if shared > _CONFIRMED else replace(self, emulator=examined)

    def pool(self, target: EmulatedPosterior, n_moves: int, temperature: float = 1.0) -> Pool:
        """Draw from pi* to the power of one over a temperature.

        Off a grid, where pi* is not negligible; or by chains that make so many moves.
        """
        if self.dim <= MOST_ROTATED:
            size = max(_N_CHAINS, self.n_chains)
            # A poor emulator is believed near the modes only.
            grows = 0.0 < self.held_out_error < TRUSTED
            grid = GridDensity.of(target, self.modes, self.root, grows=grows)
            draws = grid.tempered(temperature).sample(self.rng, N_KEPT * size)
            return Pool.of_draws(draws, self.root)
        tempered = target.tempered(1.0 / temperature)
        pool = run_pool(tempered, self.pool_starts(), self.root, n_moves, self.rng)
        return pool.jumped(tempered, self.modes, self.scale, self.rng)

    def tails(self, target: EmulatedPosterior, n: int) -> FloatArray:
        """Return tempered draws far from the design; none with many hyper-parameters; (m, p)."""
        if not self.few:
            return np.empty((0, self.dim))
        draws = self.pool(target, 20, self.temperature).theta[-1]
        return draws[spread_out(draws / self.scale, self.used.theta / self.scale, n)]

    def reference(self, noise: float = np.inf) -> InterpolatedSites:
        """Interpolated sites of the design so far, and rows in turn for estimates of this noise."""
        used = self.design.plausible(_MARGIN + 2.0 * self.dim).thinned(self.scale, _MOST_VALUES)
        sites = [point.sites for point in used.points]
        known = [point.skewness for point in used.points if point.skewness is not None]
        turns = rows_in_turn(np.array(known), noise) if known else None
        center, scale = self.design.best.theta, self.scale
        return InterpolatedSites.fit(self.approximation, used.theta, sites, center, scale, turns)


def quarter(request: Request) -> Step[Knowledge | None]:
    """Learn a quarter of the rows, where they are many, which costs next to nothing.

    Searches then begin at their modes, and what is left to be learned is a difference. Not so with
    many hyper-parameters: what few rows do not know of would be missed.

    Yields
    ------
    sequence of Task
        Work whose results are to be sent back.
    """
    n = request.model.n_inputs
    if n < _SHARE * _FEWEST_ROWS or len(request.starts[0]) > FEW:
        return None
    rows = np.sort(request.rng.choice(n, n // _SHARE, replace=False))
    some = request._replace(model=request.model.of_inputs(rows))
    known = yield from searched(some, (yield from quarter(some)), afresh=True)
    known = yield from measured(known)
    known = yield from refined(known, enough=_ROUGHLY)
    return known.posterior_pool()[0]


def searched(
    request: Request, base: Knowledge | None = None, *, afresh: bool = False
) -> Step[Knowledge]:
    """Climb to modes from every start; or from those of some of the rows, if `afresh` from both.

    If the time is over, not from all of them, but from the first.

    Yields
    ------
    sequence of Task
        Work whose results are to be sent back.
    """
    model, approximation = request.model, request.approximation
    modes = [] if base is None else [*base.modes_within(_MODE_MARGINS[1])]
    starts = [*modes, *(request.starts if afresh or base is None else [])]
    plural = "s" * (len(starts) > 1)
    stage = f"search for modes: from {len(starts)} start{plural} with {model.n_inputs} inputs"
    found: Sequence[list[DesignPoint] | None] = yield [
        Task(search, (model, approximation, start), stage, needed=i == 0)
        for i, start in enumerate(starts)
    ]
    paths = [path for path in found if path is not None]
    dim, design = len(request.starts[0]), Design(tuple(point for path in paths for point in path))
    require_time(len(design), model)
    few = dim <= FEW
    return Knowledge(
        model,
        approximation,
        request.rng,
        # With many hyper-parameters improbable points are many, and are learned only where the
        # emulator leads to them.
        design if few else design.plausible(_MARGIN + 2.0 * dim),
        len(request.starts),
        tuple(path[-1] for path in paths),
        root=np.eye(dim),
        n_evaluations=len(design) + (0.0 if base is None else base.n_evaluations / _SHARE**3),
        held_out_error=0.0 if few else np.inf,
        explored=np.empty((0, dim)),
        box=np.empty((0, dim)) if base is None else base.corners,
        base=None if base is None else base.emulator,
    )


def measured(known: Knowledge) -> Step[Knowledge]:
    """Take a first scale from the curvature at the best mode, by gradients a step away from it.

    Yields
    ------
    sequence of Task
        Work whose results are to be sent back.
    """
    best, gradient = known.design.best, known.model.hyperprior.gradient
    signs = (1.0, -1.0) if known.few else (1.0,)
    sizes = step_sizes(known.model, best.theta)
    steps = [sign * step for step in np.diag(sizes) for sign in signs]
    where = best.theta + np.array(steps)
    # Without a scale no move is any good, and these evaluations are few.
    found = yield known.tasks(where, "scale of the posterior at a mode", needed=True)
    return replace(known.joined(found), root=root_at_mode(best, steps, found, gradient))


def explored(known: Knowledge) -> Step[Knowledge]:
    """Follow trajectories with the exact gradient from the ends of the searches.

    With few hyper-parameters there is no need.

    Yields
    ------
    sequence of Task
        Work whose results are to be sent back.
    """
    if known.few:
        return known
    n_trajectories = _N_EXPLORED // (_N_LEAPFROG * len(known.ends)) + known.dim // 2
    found = yield [
        Task(
            explore,
            (known.model, known.approximation, end, known.root, n_trajectories, _N_LEAPFROG, seed),
            f"exploring: {n_trajectories} trajectories from each of {len(known.ends)} modes",
        )
        for end, seed in zip(known.ends, known.seeds(len(known.ends)), strict=True)
    ]
    paths = [points for points in found if points is not None]
    for points in paths:
        known = known.joined(points)
    later = [point.theta for points in paths for point in points[len(points) // 3 :]]
    return replace(known, explored=np.array(later).reshape(-1, known.dim))


def refined(
    known: Knowledge,
    max_rounds: int | None = None,
    known_error: float = 0.0,
    enough: float | None = None,
) -> Step[Knowledge]:
    """Add points from the tempered emulated posterior until they are predicted well.

    Or until the time is over.

    Parameters
    ----------
    known : Knowledge
        What there is to begin with.
    max_rounds : int, optional
        Most batches of points.
    known_error : float, default=0
        Error at draws from pi*, where it is known to be large, whatever the last batch showed.
    enough : float, optional
        Error of prediction that is small enough.

    Returns
    -------
    Knowledge
        With a larger design.

    Yields
    ------
    sequence of Task
        Work whose results are to be sent back.
    """
    enough = enough or _ENOUGH[not known.few]
    if max_rounds is None:
        max_rounds = 8 + 2 * known.dim if known.few else LATER_ROUNDS[1]
    known = replace(known, held_out_error=max(known.held_out_error, known_error))
    most = len(known.design) + max_rounds * known.batch_size
    for n_more in range(max_rounds, -1, -1):
        if time_is_over():
            break
        known = known.emulated()
        target, n_moves = known.target(), 20 if known.few else 6
        pool = known.pool(target, n_moves, known.temperature)
        if known.held_out_error < TRUSTED:
            known = replace(known, root=root_of(pool.theta, shrink=1.0 / known.temperature))
        if 0.0 < known.held_out_error < enough or n_more == 0:
            break
        # A random part, so that the design follows the density and not its outermost points.
        candidates = known.rng.permutation(pool.theta[-1])[: 2 * known.batch_size]
        used = known.used.theta / known.scale
        where = spread_out(candidates / known.scale, used, known.batch_size)
        found = yield known.tasks(candidates[where], known.progress(most, enough))
        known = known.joined(found)
        everywhere = known.few or known_error > 0.0
        limit = known.design.best.log_density - known.dim - 5.0
        error = target.error(found, limit, everywhere=everywhere)
        known = replace(known, held_out_error=error)
    return known
