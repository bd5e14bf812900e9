"""What a set-up learns of the posterior of theta: one loop, one criterion.

Batches of points join the design of an emulator, until the emulator predicts points that it has not
seen so well that most proposals by it would be accepted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from ..._typing import FloatArray
from ...approximations.base import Approximation
from ...chain.executor import ITERATIONS_PER_EVALUATION, Executor
from ...chain.time_limit import time_is_over
from ...hyperposterior.posterior import HyperPosterior
from ...importance.interpolated import InterpolatedSites
from ...importance.sequential import choose_sequential_rows
from ...model.joint import LatentGP
from ...transitions.rotation import MOST_ROTATED, GridDensity
from ...transitions.surrogate import covariance_root, independence_acceptance, run_pool
from ..hamiltonian import HamiltonianExploration, run_hamiltonian_chains
from ..request import Request
from .design import Design, DesignPoint, choose_spread_out, fit_design_point, summarize_q
from .options import EmulatorOptions
from .posterior import EmulatedPosterior, scales_of_root
from .search import estimate_scale, find_modes


class HeldOutBatch(NamedTuple):
    """Points that the emulator was examined at before they joined its design."""

    theta: FloatArray  # (m, p)
    log_evidence: FloatArray  # (m,), approximate
    emulated: FloatArray  # (m,)
    shares: FloatArray  # (m,), their weights as draws from pi*

    @property
    def acceptance(self) -> float:
        """Acceptance rate of independent draws from pi* that they predict."""
        return independence_acceptance(self.log_evidence - self.emulated, self.shares)

    @property
    def error(self) -> float:
        """Standard deviation of the error of the emulator over pi*; natural logs."""
        return weighted_sd(self.log_evidence - self.emulated, self.shares)


def weighted_sd(values: FloatArray, shares: FloatArray) -> float:
    """Return the standard deviation of some values, (m,), that count by their shares."""
    shares = shares / shares.sum()
    return float(np.sqrt(shares @ (values - shares @ values) ** 2))


class ExaminedEmulator(NamedTuple):
    """An emulator that was compared with points that it had not seen.

    One that has learned these points too is better nearly always, but between far points it may
    rise where nobody has been: what leads chains is what was examined.
    """

    posterior: EmulatedPosterior
    acceptance: float
    error: float  # standard deviation over pi*; natural logs


@dataclass(frozen=True, eq=False)
class EmulatorState:
    """What a set-up has found out; every step returns more. Only the random stream moves.

    Attributes
    ----------
    model : LatentGP
    approximation : Approximation
        Of the evidence, iterated to the tolerance of design points.
    options : EmulatorOptions
    rng : numpy.random.Generator
    design : Design
        Where log evidence, its gradient and the sites are known.
    root : ndarray of shape (p, p)
        Lower factor of a covariance: the scale on which theta moves.
    n_evaluations : float
        Of the evidence; those of some rows count by their share of the operations.
    warm : HamiltonianExploration or None
        What Hamiltonian chains found, with many hyper-parameters.
    held_out : tuple of HeldOut
        Of every batch, those of the last one last.
    examined : Examined or None
        The best of the emulators that were examined.
    """

    model: LatentGP
    approximation: Approximation
    options: EmulatorOptions
    rng: np.random.Generator
    design: Design
    root: FloatArray
    n_evaluations: float
    exploration: HamiltonianExploration | None = None
    held_out: tuple[HeldOutBatch, ...] = ()
    examined: ExaminedEmulator | None = None

    @property
    def dim(self) -> int:
        """Number of hyper-parameters, p."""
        return len(self.root)

    @property
    def scale(self) -> FloatArray:
        """Standard deviations of theta; (p,)."""
        return scales_of_root(self.root)

    @property
    def acceptance(self) -> float:
        """Acceptance rate that is predicted for the best emulator; 0 if none was examined."""
        return 0.0 if self.examined is None else self.examined.acceptance

    @property
    def usable(self) -> bool:
        """Whether the emulator may set the scale, and lead chains."""
        return self.acceptance > self.options.usable_acceptance

    @property
    def grows(self) -> bool:
        """Whether draws may be far from the modes: trajectories were there, or a batch was good.

        An emulator of few points may promise anything there. One that did well near the modes has
        not been examined yet where chains will go.
        """
        good = (batch.acceptance > self.options.usable_acceptance for batch in self.held_out)
        return self.exploration is not None or any(good)

    @cached_property
    def posterior(self) -> EmulatedPosterior:
        """pi* by the whole design, not examined yet."""
        return EmulatedPosterior.of(self.model, self.design, self.root, self.options)

    @cached_property
    def modes(self) -> FloatArray:
        """Modes of pi* among the points of the design, the best first; (k, p)."""
        return self.design.modes(self.scale, self.posterior.log_prob, self.options)

    def seeds(self, n: int) -> list[np.random.SeedSequence]:
        """Return a seed for each of n calls."""
        return self.rng.bit_generator.seed_seq.spawn(n)  # type: ignore[attr-defined]

    def draws(self, target: EmulatedPosterior, power: float = 1.0) -> FloatArray:
        """Draw from a form of pi* to a power, on a grid or by chains; (m, p)."""
        n_chains = self.options.n_pooled
        if self.dim <= MOST_ROTATED:
            return self.grid_of(target).temper(1.0 / power).sample(self.rng, self.options.n_draws)
        assert self.exploration is not None
        explored = np.array([point.position for point in self.exploration.states])
        begins = explored[self.rng.integers(len(explored), size=n_chains)]
        n_moves = 2 * self.options.n_draws // n_chains
        pool = run_pool(
            target.to_power(power),
            begins,
            self.root,
            n_moves,
            self.rng,
            self.options.target_acceptance,
        )
        return pool.reshape(-1, self.dim)

    def grid_of(self, target: EmulatedPosterior, *, fine: bool = False) -> GridDensity:
        """Put a form of pi* on a grid."""
        depth = self.options.negligible_depth
        return GridDensity.of(target, self.modes, self.root, depth, grows=self.grows, fine=fine)

    def evaluate_points(
        self, places: FloatArray, stage: str, workers: Executor
    ) -> list[DesignPoint]:
        """Evaluate at theta (m, p), from the sites that the design lets expect."""
        sites = self.reference()
        common = self.model, self.approximation, self.options
        items = [(*common, t, sites.sites_at(t)) for t in places]
        found = workers.map(fit_design_point, items, stage, iterations=ITERATIONS_PER_EVALUATION)
        return [point for point in found if point is not None]

    def with_points(self, points: Sequence[DesignPoint], n_evaluations: float) -> EmulatorState:
        """Let points join the design."""
        design = self.design.with_points(points)
        return replace(self, design=design, n_evaluations=self.n_evaluations + n_evaluations)

    def places(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return theta (m, p) where chains will go, their log evidences (m,), and shares (m,).

        Those of the last two batches; where trajectories lead, some of theirs.
        """
        if self.usable:
            last = self.held_out[-2:]
            thetas = np.concatenate([batch.theta for batch in last])
            evidence = np.concatenate([batch.log_evidence for batch in last])
            return thetas, evidence, np.concatenate([batch.shares for batch in last])
        assert self.exploration is not None
        states = self.exploration.states
        size = min(2 * self.options.batch(self.dim), len(states))
        some = [states[i] for i in self.rng.choice(len(states), size, replace=False)]
        thetas = np.array([point.position for point in some])
        return thetas, np.array([point.log_evidence for point in some]), np.ones(size)

    def reference(self, noise: float = np.inf) -> InterpolatedSites:
        """Interpolated sites of the design so far, and rows in turn for estimates of this noise."""
        used = self.design.of_use(self.scale, self.options)
        sites = [point.sites for point in used.points]
        known = [point.skewness for point in used.points if point.skewness is not None]
        sequential_rows = choose_sequential_rows(np.array(known), noise) if known else None
        center = self.design.best.theta
        scale = self.scale
        return InterpolatedSites.fit(
            self.approximation, used.theta, sites, center, scale, sequential_rows
        )


def learn_emulator(
    request: Request, workers: Executor, options: EmulatorOptions, *, emulates: bool = True
) -> EmulatorState:
    """Search for modes, find the scale, and learn until held-out points are predicted.

    If the time is over, less is learned; without emulator, nothing by batches.
    """
    precise = request.approximation.with_tolerance(options.tolerance)
    request = request._replace(approximation=precise)
    found, n_evaluations = find_modes(request, options, workers)
    design, root = estimate_scale(request, found, options, workers)
    known = EmulatorState(
        request.model,
        precise,
        options,
        request.rng,
        design,
        root,
        n_evaluations + len(root),
    )
    if len(root) > MOST_ROTATED or not emulates:
        known = explore_with_hmc(known, request, workers)
    return refine_design(known, workers) if emulates else known


def explore_with_hmc(known: EmulatorState, request: Request, workers: Executor) -> EmulatorState:
    """Let Hamiltonian chains go from the best points, where few points of an emulator mislead."""
    keep = partial(summarize_q, options=known.options)
    posterior = HyperPosterior(known.model, known.approximation, keep=keep)
    n = len(request.starts)
    begins = known.design.above(known.options.negligible_depth).theta
    best = known.design.best.theta
    others = choose_spread_out(begins / known.scale, best[None] / known.scale, n - 1)
    starts = [best, *begins[others]]
    exploration = run_hamiltonian_chains(
        posterior, starts, known.root, known.seeds(n), workers, known.options
    )
    points = [DesignPoint.of(point) for point in exploration.visited if point.kept is not None]
    known = known.with_points(points, exploration.n_evaluations)
    return replace(known, exploration=exploration, root=exploration.root)


def refine_design(known: EmulatorState, workers: Executor) -> EmulatorState:
    """Learn batches of points, half from pi* and half from wider tails, until `enough`."""
    options = known.options
    size = known.options.batch(known.dim)
    enough = options.enough(known.dim)
    most = len(known.design) + options.most_rounds * size
    for number in range(options.most_rounds):
        if time_is_over() or known.acceptance > enough:
            break
        so_far = f", acceptance {known.acceptance:.2g} ({enough:.2g} is enough)"
        stage = f"learning: {len(known.design)} of at most {most} evaluations"
        known = _learn_batch(known, size, stage + so_far * (number > 0), workers)
        if known.exploration is not None and known.acceptance < options.hopeless_acceptance:
            break  # hundreds of points were not enough: a few more would not be either
    return known


def _learn_batch(known: EmulatorState, size: int, stage: str, workers: Executor) -> EmulatorState:
    """Examine the emulator at new points, which then join its design."""
    target = known.posterior
    power = 1.0 / known.options.temperature(known.dim)
    draws = known.draws(target)
    typical = draws[known.rng.choice(len(draws), size // 2, replace=False)]
    wide = known.rng.permutation(known.draws(target, power))[: 2 * size]
    present = np.concatenate([known.design.theta, typical]) / known.scale
    wide = wide[choose_spread_out(wide / known.scale, present, size - len(typical))]
    points = known.evaluate_points(np.concatenate([typical, wide]), stage, workers)
    if not points:
        return replace(known, n_evaluations=known.n_evaluations + size)
    theta = np.array([point.theta for point in points])
    is_typical = (theta[:, None] == typical).all(axis=2).any(axis=1)
    held_out = HeldOutBatch(
        theta,
        np.array([point.log_evidence for point in points]),
        target.log_evidence(theta),
        _weigh_draws((1.0 - power) * target.log_prob(theta), is_typical),
    )
    root = known.root
    best = known.examined
    found = held_out.acceptance
    if best is None or found >= best.acceptance:
        best = ExaminedEmulator(target, found, held_out.error) if known.grows else None
        root = covariance_root(draws) if found > known.options.usable_acceptance else root
    known = known.with_points(points, size)
    return replace(known, held_out=(*known.held_out, held_out), examined=best, root=root)


def _weigh_draws(log_weights: FloatArray, is_typical: np.ndarray) -> FloatArray:
    """Weights of draws from pi*, and from wider tails with log weights (m,), as draws from pi*.

    The latter are worth as many of the former as their effective sample size says.
    """
    shares = np.where(is_typical, 1.0, 0.0)
    top = log_weights[~is_typical].max(initial=-np.inf)
    if np.isfinite(top):
        others = np.exp(log_weights[~is_typical] - top)
        shares[~is_typical] = others * others.sum() / (others**2).sum()
    return shares
