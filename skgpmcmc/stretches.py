"""Stretches of one chain: what a worker does between two looks of the parent.

Every function runs on one BLAS thread, counts its O(n^3) operations, and returns a `Stretch` from
which the next one continues.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from ._linalg import OperationCount, count_operations
from ._typing import FloatArray
from .model import LatentGP
from .transitions import (
    ChainState,
    MarginalMetropolis,
    MarginalState,
    Sites,
    StepInfo,
    Transition,
)
from .warmup import Window, tuned_log_scale

__all__ = ["NO_TALLY", "Stretch", "Tally", "sample", "start", "sum_tallies", "switch", "tune"]

_MAX_START_ATTEMPTS = 30


class Tally(NamedTuple):
    """Counts over some iterations."""

    n_steps: int
    n_accepted: int
    n_evaluations: int  # evaluations of a (marginal) likelihood
    n_failed: int  # proposals rejected because a factorization failed
    operations: OperationCount


def sum_tallies(tallies: Sequence[Tally]) -> Tally:
    """Add up counts."""
    operations = OperationCount()
    for tally in tallies:
        operations.add(tally.operations)
    return Tally(
        sum(t.n_steps for t in tallies),
        sum(t.n_accepted for t in tallies),
        sum(t.n_evaluations for t in tallies),
        sum(t.n_failed for t in tallies),
        operations,
    )


class Stretch(NamedTuple):
    """What a worker returns for a stretch of one chain."""

    state: Any  # the ChainState at its end, None once the next stretch has begun
    rng: np.random.Generator
    log_scale: float  # of the random walk, as tuned in the stretch
    theta: FloatArray  # (n_steps, p)
    f: FloatArray  # (n_steps, n), or (n_steps, 0) where it is not recorded
    sites: Sites | None  # each (n_steps, n)
    tally: Tally


#: Of a stretch in which nothing has happened yet.
NO_TALLY = Tally(0, 0, 0, 0, OperationCount())


def start(
    model: LatentGP,
    transition: Transition[Any],
    theta: FloatArray,
    rng: np.random.Generator,
    log_scale: float,
    _: None,
) -> Stretch:
    """Make the first state at theta, or nearer to the kernel's own values if it has no density."""
    with threadpool_limits(1), count_operations() as operations:
        state, attempt = transition.start(model, theta, rng), 1
        while state is None and attempt < _MAX_START_ATTEMPTS:
            theta = 0.5 * (theta + model.covariance.start)
            state, attempt = transition.start(model, theta, rng), attempt + 1
    if state is None:
        raise RuntimeError(_no_density(model, theta))
    recorder = _Recorder(0, state)
    stretch = recorder.stretch(state, rng, log_scale, operations)
    return stretch._replace(tally=stretch.tally._replace(n_evaluations=attempt))


def _no_density(model: LatentGP, theta: FloatArray) -> str:
    values = dict(zip(model.covariance.names, np.exp(theta).tolist(), strict=True))
    return (
        f"No chain can start: the posterior density is not finite at hyper-parameters {values}, "
        "nor on the way from there to the kernel's own values. Check the kernel and the priors."
    )


def tune(
    model: LatentGP,
    transition: MarginalMetropolis,
    state: MarginalState,
    rng: np.random.Generator,
    _: float,
    setting: tuple[Window, float],
) -> Stretch:
    """One window of warm-up: the scale of the walk follows every acceptance probability."""
    window, target = setting
    walk = transition.proposal
    log_scale = walk.log_scale
    recorder = _Recorder(window.n_steps, state)
    with threadpool_limits(1), count_operations() as operations:
        for i in range(window.n_steps):
            transition = transition.with_proposal(walk.with_log_scale(log_scale))
            state, info = transition.step(model, state, rng)
            log_scale = tuned_log_scale(
                log_scale, info.acceptance_probability, target, window.first_gain + i
            )
            recorder.add(state, info)
    return recorder.stretch(state, rng, log_scale, operations)


def switch(
    model: LatentGP,
    transition: Transition[Any],
    state: ChainState,
    rng: np.random.Generator,
    log_scale: float,
    n_settle: int,
) -> Stretch:
    """Go from warm-up to the frozen transition, with fresh particles, and let it settle."""
    begun = start(model, transition, state.theta, rng, log_scale, None)
    settled = sample(model, transition, begun.state, rng, log_scale, n_settle)
    return settled._replace(tally=sum_tallies([begun.tally, settled.tally]))


def sample(
    model: LatentGP,
    transition: Transition[Any],
    state: ChainState,
    rng: np.random.Generator,
    log_scale: float,
    n_steps: int,
) -> Stretch:
    """Some iterations of a frozen transition, recorded."""
    recorder = _Recorder(n_steps, state)
    with threadpool_limits(1), count_operations() as operations:
        for _ in range(n_steps):
            state, info = transition.step(model, state, rng)
            recorder.add(state, info)
    return recorder.stretch(state, rng, log_scale, operations)


class _Recorder:
    """Collects the states and counts of a stretch of one chain into arrays."""

    def __init__(self, n_steps: int, state: ChainState) -> None:
        self._theta = np.empty((n_steps, len(state.theta)))
        self._f = np.empty((n_steps, len(state.f)))
        shape = (n_steps, 0) if state.sites is None else (n_steps, len(state.sites.weights))
        self._sites = None if state.sites is None else Sites(np.empty(shape), np.empty(shape))
        self._n_steps = self._n_accepted = self._n_evaluations = self._n_failed = 0

    def add(self, state: ChainState, info: StepInfo) -> None:
        """Record the state after a step, and what the step reported."""
        row = self._n_steps
        self._theta[row] = state.theta
        self._f[row] = state.f
        if self._sites is not None and state.sites is not None:
            self._sites.weights[row] = state.sites.weights
            self._sites.precision[row] = state.sites.precision
        self._n_steps += 1
        self._n_accepted += info.accepted
        self._n_evaluations += info.n_evaluations
        self._n_failed += info.failed

    def stretch(
        self,
        state: ChainState,
        rng: np.random.Generator,
        log_scale: float,
        operations: OperationCount,
    ) -> Stretch:
        """Return what was recorded."""
        counts = (self._n_steps, self._n_accepted, self._n_evaluations, self._n_failed)
        tally = Tally(*counts, operations)
        return Stretch(state, rng, log_scale, self._theta, self._f, self._sites, tally)
