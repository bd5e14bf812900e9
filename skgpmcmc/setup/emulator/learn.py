"""Learning of the posterior of theta in a set-up: one loop, one criterion.

Batches of held-out points join the design of an emulator, until the emulator predicts held-out
points so well that most of its proposals would be accepted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
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
from ...model.low_rank import bound_rank
from ...transitions.rotation import MOST_ROTATED, GridDensity
from ...transitions.surrogate import (
    TMixture,
    covariance_root,
    independence_acceptance,
    run_pool,
)
from ..hamiltonian import HamiltonianExploration, run_hamiltonian_chains
from ..request import Request
from .design import Design, DesignPoint, choose_spread_out, fit_design_point, summarize_q
from .options import EmulatorOptions
from .posterior import EmulatedPosterior, scales_of_root
from .search import estimate_scale, find_modes


def weighted_sd(values: FloatArray, shares: FloatArray) -> float:
    """Return the standard deviation of values (m,) with weights `shares` (m,)."""
    shares = shares / shares.sum()
    return float(np.sqrt(shares @ (values - shares @ values) ** 2))


class ExaminedEmulator(NamedTuple):
    """An emulator that was compared with held-out points, before they joined its design.

    An emulator that is conditioned on these points as well is nearly always better. But between
    distant points it may have peaks that no held-out point has shown. Therefore proposals come from
    the examined emulator.
    """

    posterior: EmulatedPosterior
    acceptance: float  # predicted rate of independent proposals from pi*
    error: float  # standard deviation over pi*; natural logs
    theta: FloatArray  # (m, p), the held-out points
    log_evidence: FloatArray  # (m,), log evidence of the approximation
    shares: FloatArray  # (m,), weights of the points as draws from pi*


@dataclass(eq=False)
class EmulatorState:
    """Results of a set-up so far; every step returns a new state. Only the random stream changes.

    Attributes
    ----------
    model : LatentGP
    learned : LatentGP
        Model that takes the place of `model` where the evidence is learned; see `bound_rank`.
    approximation : Approximation
        Approximation of the evidence, iterated to the tolerance of design points.
    options : EmulatorOptions
    rng : numpy.random.Generator
    design : Design
        Theta with their log evidences, gradients and sites.
    root : ndarray of shape (p, p)
        Lower factor of the covariance of theta, about.
    n_evaluations : float
        Evaluations of the evidence; those of a subset count by their share of the operations.
    exploration : HamiltonianExploration or None
        Result of Hamiltonian chains, with many hyper-parameters.
    held_out : tuple of ExaminedEmulator
        The emulator before each batch, compared with its held-out points; the last batch last.
    examined : ExaminedEmulator or None
        The best examined emulator. If it was not the last one, it was examined twice.
    dim : int
        Number of hyper-parameters, p.
    scale : ndarray of shape (p,)
        Standard deviations of theta.
    acceptance : float
        Predicted acceptance rate of the best emulator; 0 if none was examined.
    usable : bool
        Whether the examined emulator is good enough for proposals.
    grows : bool
        Whether grids may grow beyond the modes: after trajectories, or after a good batch.
    """

    model: LatentGP
    learned: LatentGP
    approximation: Approximation
    options: EmulatorOptions
    rng: np.random.Generator
    design: Design
    root: FloatArray
    n_evaluations: float
    exploration: HamiltonianExploration | None = None
    held_out: tuple[ExaminedEmulator, ...] = ()
    examined: ExaminedEmulator | None = None

    dim: int = field(init=False)
    scale: FloatArray = field(init=False)
    acceptance: float = field(init=False)
    usable: bool = field(init=False)
    grows: bool = field(init=False)

    def __post_init__(self) -> None:
        least = self.options.usable_acceptance
        self.dim = len(self.root)
        self.scale = scales_of_root(self.root)
        self.acceptance = 0.0 if self.examined is None else self.examined.acceptance
        self.usable = self.acceptance > least
        # An emulator of few points may have any value far from the modes. An emulator that was good
        # near the modes has to be examined farther away.
        good = any(batch.acceptance > least for batch in self.held_out)
        self.grows = self.exploration is not None or good

    @cached_property
    def posterior(self) -> EmulatedPosterior:
        """pi* of the emulator with the whole design, which is not examined yet."""
        return EmulatedPosterior.of(self.model, self.design, self.root, self.options)

    @cached_property
    def modes(self) -> FloatArray:
        """Modes of pi* among the points of the design, the best first; (k, p)."""
        return self.design.modes(self.scale, self.posterior.log_prob, self.options)

    def spawn_seeds(self, n: int) -> list[np.random.SeedSequence]:
        """Spawn a seed for each of n calls."""
        return self.rng.bit_generator.seed_seq.spawn(n)  # type: ignore[attr-defined]

    def draw(
        self, target: EmulatedPosterior, power: float = 1.0, *, fine: bool = False
    ) -> FloatArray:
        """Draw from pi* raised to a power, on a grid or by short chains; (m, p)."""
        n_chains = self.options.n_pooled
        if self.dim <= MOST_ROTATED:
            grid = self.make_grid(target, fine=fine).temper(1.0 / power)
            return grid.sample(self.rng, self.options.n_draws)
        assert self.exploration is not None
        states = np.array([point.position for point in self.exploration.states])
        typical = states[self.rng.integers(len(states), size=n_chains // 2)]
        # Modes that were found later are among the points that are far from these.
        high = self.design.above(self.options.negligible_depth).theta
        spread = choose_spread_out(high / self.scale, typical / self.scale, n_chains // 2)
        pool = run_pool(
            target.to_power(power),
            np.concatenate([typical, high[np.resize(spread, n_chains // 2)]]),
            self.root,
            2 * self.options.n_draws // n_chains,
            self.rng,
            self.options.target_acceptance,
        )
        return pool.reshape(-1, self.dim)

    def fit_mixture(self, draws: FloatArray, target: EmulatedPosterior) -> TMixture:
        """Fit a mixture of t distributions to draws (m, p), at modes and spread-out draws.

        There are as many spread-out draws as can have a covariance each: p (p + 1) draws are twice
        as many as it has entries.
        """
        modes = self.design.modes(self.scale, target.log_prob, self.options)
        size = len(draws) // (self.dim * (self.dim + 1))
        spread = choose_spread_out(draws / self.scale, modes / self.scale, size)
        return TMixture.of_draws(draws, np.concatenate([modes, draws[spread]]), self.scale)

    def raise_unknown(self, target: EmulatedPosterior) -> EmulatedPosterior:
        """Return a density that is large where pi* is, and where pi* may be too small.

        Where there is a grid it is pi* itself, whose wider tails show what pi* lacks. With more
        hyper-parameters design points are far from each other, and the emulator may be too low
        between them as well.
        """
        return target if self.dim <= MOST_ROTATED else target.be_optimistic()

    def make_grid(self, target: EmulatedPosterior, *, fine: bool = False) -> GridDensity:
        """Evaluate pi* on a grid."""
        depth = self.options.negligible_depth
        return GridDensity.of(target, self.modes, self.root, depth, grows=self.grows, fine=fine)

    def evaluate_points(
        self, places: FloatArray, stage: str, workers: Executor
    ) -> list[DesignPoint]:
        """Fit the approximation at theta (m, p), beginning at interpolated sites of the design."""
        sites = self.make_reference()
        common = self.learned, self.approximation, self.options
        items = [(*common, t, sites.sites_at(t)) for t in places]
        found = workers.map(fit_design_point, items, stage, iterations=ITERATIONS_PER_EVALUATION)
        return [point for point in found if point is not None]

    def with_points(self, points: Sequence[DesignPoint], n_evaluations: float) -> EmulatorState:
        """Add points to the design, and count evaluations."""
        design = self.design.with_points(points)
        return replace(self, design=design, n_evaluations=self.n_evaluations + n_evaluations)

    def choose_trial_points(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Choose theta (m, p) where chains will go, with log evidences (m,) and shares (m,).

        They are points of the last two batches, or states of the Hamiltonian chains if no emulator
        is usable.
        """
        most = 2 * self.options.batch(self.dim)
        if self.usable:
            last = self.held_out[-2:]
            thetas = np.concatenate([batch.theta for batch in last])
            evidence = np.concatenate([batch.log_evidence for batch in last])
            shares = np.concatenate([batch.shares for batch in last])
            log_density = evidence + self.model.hyperprior.log_prob(thetas)
            lowest = self.design.best.log_density - self.options.deepest(self.dim)
            near = np.flatnonzero(log_density >= lowest)
            if len(near) > most:
                near = self.rng.choice(near, most, replace=False)
            return thetas[near], evidence[near], shares[near]
        assert self.exploration is not None
        states = self.exploration.states
        size = min(most, len(states))
        some = [states[i] for i in self.rng.choice(len(states), size, replace=False)]
        thetas = np.array([point.position for point in some])
        return thetas, np.array([point.log_evidence for point in some]), np.ones(size)

    def make_reference(self, noise: float = np.inf) -> InterpolatedSites:
        """Interpolate the sites of the design, with sequential rows for estimates of this noise."""
        high = self.design.above(self.options.deepest(self.dim))
        used = high.thin(self.scale, self.options.most_values)
        sites = [point.sites for point in used.points]
        # Rare theta, where margins are more skewed, count as much as typical ones: chains stay for
        # long where estimates are noisy.
        spread = high.thin(self.scale, self.options.most_points(self.dim))
        skewness = [point.skewness for point in spread.points if point.skewness is not None]
        sequential_rows = choose_sequential_rows(np.array(skewness), noise) if skewness else None
        center = self.design.best.theta
        scale = self.scale
        return InterpolatedSites.fit(
            self.approximation, used.theta, sites, center, scale, sequential_rows
        )


def learn_emulator(
    request: Request, workers: Executor, options: EmulatorOptions, *, emulates: bool = True
) -> EmulatorState:
    """Find modes and a scale, and refine the design until held-out points are predicted well.

    If the time is over, the design has fewer points. With ``emulates=False`` it is not refined.
    """
    precise = request.approximation.with_tolerance(options.tolerance)
    model = request.model
    request = request._replace(approximation=precise)
    found, n_evaluations, scale = find_modes(request, options, workers)
    request = request._replace(model=bound_rank(model, found.best.theta))
    design, root = estimate_scale(request, found, scale, options, workers)
    state = EmulatorState(
        model,
        request.model,
        precise,
        options,
        request.rng,
        design,
        root,
        n_evaluations + len(root),
    )
    if len(root) > MOST_ROTATED or not emulates:
        state = explore_with_hmc(state, request, workers)
    return refine_design(state, workers) if emulates else state


def explore_with_hmc(state: EmulatorState, request: Request, workers: Executor) -> EmulatorState:
    """Run Hamiltonian chains from the best points, and add the points they visit to the design."""
    keep = partial(summarize_q, options=state.options)
    posterior = HyperPosterior(state.learned, state.approximation, keep=keep)
    n = len(request.starts)
    begins = state.design.above(state.options.negligible_depth).theta
    best = state.design.best.theta
    spread = choose_spread_out(begins / state.scale, best[None] / state.scale, n - 1)
    starts = [best, *begins[spread]]
    exploration = run_hamiltonian_chains(
        posterior, starts, state.root, state.spawn_seeds(n), workers, state.options
    )
    points = [DesignPoint.of(point) for point in exploration.visited if point.kept is not None]
    state = state.with_points(points, exploration.n_evaluations)
    return replace(state, exploration=exploration, root=exploration.root)


def refine_design(state: EmulatorState, workers: Executor) -> EmulatorState:
    """Add batches of points until the predicted acceptance rate is enough.

    Half of a batch comes from pi*, and half from where pi* may be too small. After trajectories the
    design is large, and its emulator takes long: then a batch has a share of its size. If no
    emulator is good enough, the best one is examined again, at points that had no part in its
    choice.
    """
    options = state.options
    enough = options.enough(state.dim)
    for number in range(options.most_rounds):
        if time_is_over() or state.acceptance > enough:
            break
        size = options.batch(state.dim)
        if state.exploration is not None:
            used = min(len(state.design), options.most_points(state.dim))
            size = max(size, used // options.subset_divisor)
        so_far = f", acceptance {state.acceptance:.2g} ({enough:.2g} is enough)"
        stage = f"learning: {len(state.design)} evaluations"
        state = _learn_batch(state, size, stage + so_far * (number > 0), workers)
        if state.exploration is not None and not state.usable:
            break  # trajectories will lead: hundreds of points were not enough
    chosen = state.examined
    if chosen is None or chosen is state.held_out[-1] or time_is_over():
        return state
    # The best of several noisy predictions is too good.
    state, again, _ = _examine(
        state,
        chosen.posterior,
        options.batch(state.dim),
        "examining the emulator",
        workers,
        fine=True,
    )
    if again is None:
        return replace(state, examined=None)
    return replace(state, held_out=(*state.held_out, again), examined=again)


def _learn_batch(state: EmulatorState, size: int, stage: str, workers: Executor) -> EmulatorState:
    """Examine the emulator at new points, which then join its design."""
    state, held_out, draws = _examine(state, state.posterior, size, stage, workers)
    if held_out is None:
        return state
    root = state.root
    best = state.examined
    if best is None or held_out.acceptance >= best.acceptance:
        best = held_out if state.grows else None
        usable = held_out.acceptance > state.options.usable_acceptance
        root = covariance_root(draws) if usable else root
    return replace(state, held_out=(*state.held_out, held_out), examined=best, root=root)


def _examine(
    state: EmulatorState,
    target: EmulatedPosterior,
    size: int,
    stage: str,
    workers: Executor,
    *,
    fine: bool = False,
) -> tuple[EmulatorState, ExaminedEmulator | None, FloatArray]:
    """Compare an emulator with `size` held-out points, which then join the design.

    Draws with ``fine=True`` come from the grid of the chains' proposals, if there is a grid. The
    function returns the new state, the result (None if no point has a density), and draws from pi*.
    """
    power = 1.0 / state.options.temperature(state.dim)
    raised = state.raise_unknown(target)
    draws = state.draw(target, fine=fine)
    typical = draws[state.rng.choice(len(draws), size // 2, replace=False)]
    wide = state.rng.permutation(state.draw(raised, power, fine=fine))[: 2 * size]
    present = np.concatenate([state.design.theta, typical]) / state.scale
    wide = wide[choose_spread_out(wide / state.scale, present, size - len(typical))]
    points = state.evaluate_points(np.concatenate([typical, wide]), stage, workers)
    if not points:
        return replace(state, n_evaluations=state.n_evaluations + size), None, draws
    theta = np.array([point.theta for point in points])
    is_typical = (theta[:, None] == typical).all(axis=2).any(axis=1)
    log_evidence = np.array([point.log_evidence for point in points])
    log_density = target.log_prob(theta)
    gain = raised.log_prob(theta) - log_density
    shares = _weigh_draws((1.0 - power) * log_density - power * gain, is_typical)
    missed = log_evidence - target.log_evidence(theta)
    acceptance = independence_acceptance(missed, shares)
    error = weighted_sd(missed, shares)
    held_out = ExaminedEmulator(target, acceptance, error, theta, log_evidence, shares)
    return state.with_points(points, size), held_out, draws


def _weigh_draws(log_weights: FloatArray, is_typical: np.ndarray) -> FloatArray:
    """Return the weights of draws from pi*, and from another density, as draws from pi*; (m,).

    The importance weights of the draws from the other density add up to their effective sample
    size.
    """
    shares = np.where(is_typical, 1.0, 0.0)
    top = log_weights[~is_typical].max(initial=-np.inf)
    if np.isfinite(top):
        weights = np.exp(log_weights[~is_typical] - top)
        shares[~is_typical] = weights * weights.sum() / (weights**2).sum()
    return shares
