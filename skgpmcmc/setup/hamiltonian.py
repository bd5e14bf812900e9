"""Warm-up by Hamiltonian chains on the posterior of theta, for many hyper-parameters.

Chains follow trajectories in windows. Between windows the chains are pooled to learn the metric and
the step size that all chains share. The visited points can become the design of an emulator. If the
evidence is exact, the tuned trajectories may also be the only moves of the chains that are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from .._typing import FloatArray
from ..chain.executor import Executor
from ..chain.segment import MOST_ATTEMPTS, no_density_message
from ..chain.time_limit import time_is_over
from ..hyperposterior.posterior import HyperPosterior, PosteriorPoint
from ..model.default_priors import period_positions
from ..model.joint import LatentGP
from ..numerics.dynamics import tune_log_scale
from ..transitions.hmc import Trajectory
from .emulator.options import EmulatorOptions

#: Most hyper-parameters with which an emulator is always cheaper than trajectories.
_MOST_EMULATED = 4


def trajectories_suffice(model: LatentGP) -> bool:
    """Whether trajectories suffice as the only moves of chains.

    The evidence must be exact, and the kernel must not have a period, as the multiples of a period
    may be other modes.
    """
    return model.likelihood.quadratic and not period_positions(model)


def trajectories_are_cheaper(model: LatentGP, options: EmulatorOptions) -> bool:
    """Whether chains of trajectories cost less than chains with proposals from an emulator.

    Chains of trajectories need about 3000 evaluations for 400 effective draws, of some n^3
    operations each. An emulator needs a fifth of these evaluations, and linear algebra with the
    values and gradients at about 45 p points: some (p (p + 1))^3 operations, with a large factor.
    So trajectories cost less if n is small compared with p (p + 1). The factor between n and
    p (p + 1) was chosen where both methods took the same time (p = 5 and 6, n = 100). With four
    hyper-parameters an emulator took a third of the time at n = 20 to 100, as a trajectory takes
    long in Python whatever n is.
    """
    dim = len(model.start)
    few_rows = model.n_inputs < options.rows_per_value * dim * (dim + 1)
    return dim > _MOST_EMULATED and few_rows and trajectories_suffice(model)


class WindowResult(NamedTuple):
    """The course of one chain in a window."""

    visited: list[PosteriorPoint]  # every point of every trajectory
    states: list[PosteriorPoint]  # the state after each trajectory
    log_step: float  # log of the tuned step: the mean over the later half


class HamiltonianExploration(NamedTuple):
    """Result of a warm-up by Hamiltonian chains."""

    visited: list[PosteriorPoint]  # all points of the last window
    n_evaluations: int  # evaluations of the posterior in all windows
    states: list[PosteriorPoint]  # states of all chains in the last window
    ends: list[FloatArray]  # last theta of each chain; (p,), natural logs
    trajectory: Trajectory  # tuned, with the learned metric
    root: FloatArray  # (p, p), root of the inverse mass matrix


def run_hamiltonian_chains(
    posterior: HyperPosterior,
    starts: Sequence[FloatArray],
    root: FloatArray,
    seeds: Sequence[np.random.SeedSequence],
    workers: Executor,
    options: EmulatorOptions,
    windows: Sequence[int] | None = None,
) -> HamiltonianExploration:
    """Run Hamiltonian chains on a posterior, and learn their metric and step size.

    Parameters
    ----------
    posterior : HyperPosterior
        Posterior with precise gradients: inexact gradients would spoil the metric.
    starts : sequence of ndarray of shape (p,)
        Theta at which each chain begins, natural logs. A theta without density is moved towards
        the kernel's values.
    root : ndarray of shape (p, p)
        Root of the first covariance, such as that from the curvature at a mode.
    seeds : sequence of numpy.random.SeedSequence
        One per chain.
    workers : Executor
        Executor of the chains, one call per chain and window.
    options : EmulatorOptions
        Constants of the set-up: target acceptance rate and windows.
    windows : sequence of int, optional
        Trajectories of each chain in each window, by default `options.windows`. The metric is
        learned anew after every window but the last, which tunes the step size.

    Returns
    -------
    HamiltonianExploration
        If the time is over, the results until then.

    Raises
    ------
    RuntimeError
        If there is no density at a start, nor on the way to the kernel's values; the message names
        theta.
    """
    dim = len(root)
    acceptance = options.target_acceptance
    windows = windows or options.windows(dim, len(starts))
    log_step = Trajectory().typical_log_scale(dim)
    streams = [seed.spawn(len(windows)) for seed in seeds]
    begins: list[Any] = list(starts)
    plain = replace(posterior, keep=None)
    visited = list[Any]()
    states = list[Any]()
    n_evaluations = 0
    for i, n_trajectories in enumerate(windows):
        is_last = i == len(windows) - 1
        items = [
            (
                posterior if is_last else plain,
                begin,
                root,
                log_step,
                acceptance,
                n_trajectories,
                own[i],
            )
            for begin, own in zip(begins, streams, strict=True)
        ]
        stage = f"warm-up by trajectories: window {i + 1} of {len(windows)}"
        found = workers.map(run_window, items, stage=stage)
        chains: list[WindowResult] = [chain for chain in found if chain is not None]
        if not chains:
            break
        begins = [
            begin if chain is None else chain.states[-1].position
            for begin, chain in zip(begins, found, strict=True)
        ]
        visited = [point for chain in chains for point in chain.visited]
        n_evaluations += len(visited)
        states = [point for chain in chains for point in chain.states]
        log_step = float(np.median([chain.log_step for chain in chains]))
        if time_is_over():
            break
        if not is_last:
            root = learn_root(root, states)
    trajectory = Trajectory.quarter(root, log_step)
    return HamiltonianExploration(visited, n_evaluations, states, begins, trajectory, root)


def learn_root(root: FloatArray, points: Sequence[PosteriorPoint]) -> FloatArray:
    """Return the root of a metric from positions and gradients at some points.

    For a Gaussian the covariance S of positions and the covariance G of gradients are inverse to
    one another. The metric is their geometric mean, the M with M G M = S, which minimizes the
    Fisher divergence of the points in its coordinates from a standard normal variable. Both are
    shrunk towards the metric in use, which counts as one point.

    Parameters
    ----------
    root : ndarray of shape (p, p)
        Root of the metric in use.
    points : sequence of PosteriorPoint
        Approximate draws from the target.

    References
    ----------
    Seyboldt, Carlson & Carpenter (2024), *Preconditioning Hamiltonian Monte Carlo by minimizing
    Fisher divergence*.
    """
    positions = np.array([point.position for point in points])
    gradients = np.array([point.gradient for point in points])
    of_positions = np.linalg.cholesky(_shrink(np.linalg.solve(root, positions.T).T))
    # With S = L L', M = L (L'G L)^-1/2 L'.
    values, vectors = np.linalg.eigh(of_positions.T @ _shrink(gradients @ root) @ of_positions)
    half = root @ of_positions @ (vectors * values**-0.25)
    return np.asarray(np.linalg.cholesky(half @ half.T), dtype=float)


def _shrink(rows: FloatArray) -> FloatArray:
    """Covariance of some rows, shrunk towards the identity."""
    centered = rows - rows.mean(axis=0)
    return np.asarray((centered.T @ centered + np.eye(rows.shape[1])) / (len(rows) + 1.0))


def run_window(
    posterior: HyperPosterior,
    begin: FloatArray,
    root: FloatArray,
    log_step: float,
    acceptance: float,
    n_trajectories: int,
    seed: np.random.SeedSequence,
) -> WindowResult:
    """Run one chain with the metric of `root` for a window, and tune its step size.

    Iterations of the approximation begin at the sites of the last point, unless the posterior
    interpolates sites. If the time is over, no other trajectory begins.
    """
    path = _RecordingPosterior(posterior)
    point = path.find_start(begin)
    rng = np.random.default_rng(seed)
    states = list[PosteriorPoint]()
    log_steps = list[float]()
    for i in range(n_trajectories):
        if states and time_is_over():
            break
        outcome = Trajectory.quarter(root, log_step).move(path, point, rng)
        point = outcome.point
        probability = outcome.acceptance_probability
        log_step = tune_log_scale(log_step, probability, acceptance, i)
        states.append(point)
        log_steps.append(log_step)
    return WindowResult(path.visited, states, float(np.mean(log_steps[len(log_steps) // 2 :])))


class _RecordingPosterior:
    """A posterior that records the points at which it was evaluated."""

    def __init__(self, posterior: HyperPosterior) -> None:
        self.posterior = posterior
        self.visited: list[PosteriorPoint] = []

    def find_start(self, theta: FloatArray) -> PosteriorPoint:
        """Return the first point, at theta or, without a density, nearer to the kernel's values."""
        for _ in range(MOST_ATTEMPTS):
            point = self.at(theta)
            if point is not None:
                return point
            theta = 0.5 * (theta + self.posterior.model.start)
        raise RuntimeError(no_density_message(self.posterior.model, theta))

    def at(self, position: FloatArray) -> PosteriorPoint | None:
        """Return the point at theta."""
        reuses_sites = bool(self.visited) and self.posterior.start is None
        point = self.posterior.at(position, self.visited[-1].sites if reuses_sites else None)
        if point is not None:
            self.visited.append(point)
        return point
