"""Metropolis-Hastings on the approximate marginal posterior of theta."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from .._typing import FloatArray
from ..approximations import Approximation, HyperPosterior, PosteriorPoint, mean_of
from ..model import LatentGP
from ..numerics.linalg import NotPositiveDefiniteError
from .base import Evaluated, Evaluating, Proposal, StepInfo, Transition, rejected_proposal
from .operators import RandomWalk, Trajectory
from .updates import OperatorUpdate


class MarginalState(NamedTuple):
    """A point of the chain on theta, with a draw of f given theta."""

    theta: FloatArray  # (p,), natural logs
    log_target: float  # log q(y | theta) + log p(theta)
    f: FloatArray  # (n,), a draw from q(f | y, theta), or its mean; empty where neither is wanted
    direction: int = 0  # see `Directed`


@dataclass(frozen=True, eq=False)
class MarginalMetropolis(Evaluating[MarginalState]):
    """Metropolis-Hastings on theta with an approximate evidence; f from its Gaussian.

    **Invariant:** leaves the density proportional to q(y | theta) p(theta) q(f | y, theta)
    unchanged: the approximate posterior, *not* the posterior, unless the approximation is exact.

    Attributes
    ----------
    approximation : Approximation
    proposal : Proposal
    with_latent : bool
        Draw f for every accepted theta. Warm-up does not, which saves a factorization.
    with_mean : bool
        Record the mean of f instead, which needs no factorization.
    name : str
        Name of the move in diagnostics.

    References
    ----------
    Filippone & Girolami (2014), section 5.2 ("MCMC EP") and the adaptive phase of section 4.4.
    """

    approximation: Approximation
    proposal: Proposal
    with_latent: bool = True
    with_mean: bool = False
    name: str = "random walk on the approximate marginal"

    def start(
        self, model: LatentGP, theta: FloatArray, rng: np.random.Generator
    ) -> MarginalState | None:
        """Return the state at theta with f from q."""
        found = self.evaluated(model, theta, rng)
        return None if found is None else self.completed(found, rng)

    def evaluated(
        self, model: LatentGP, theta: FloatArray, rng: np.random.Generator
    ) -> Evaluated[MarginalState] | None:
        """Return theta with its approximate evidence."""
        log_hyperprior = model.hyperprior.log_prob(theta)
        if not np.isfinite(log_hyperprior):
            return None
        try:
            q, log_evidence, _, _ = self.approximation.fit(model, theta)
        except NotPositiveDefiniteError:
            return None
        log_target = log_evidence + log_hyperprior
        if not np.isfinite(log_target):
            return None
        return Evaluated(MarginalState(theta, log_target, np.empty(0)), log_target, q)

    def log_target(self, state: MarginalState) -> float:
        """Log of the approximate posterior of theta, up to a constant."""
        return state.log_target

    def completed(
        self, found: Evaluated[MarginalState], rng: np.random.Generator
    ) -> MarginalState | None:
        """Add f to the state; None if K is singular, which the evidence alone does not notice.

        Such a theta never belongs to the target, so that rejecting it is exact.
        """
        if self.with_mean:
            return found.state._replace(f=found.source.mean)
        if not self.with_latent:
            return found.state
        try:
            return found.state._replace(f=found.source.sample(rng, 1).f[:, 0])
        except NotPositiveDefiniteError:
            return None


@dataclass(frozen=True, eq=False)
class MarginalWalk(MarginalMetropolis, OperatorUpdate[MarginalState]):
    """`MarginalMetropolis` with a random walk, whose scale and shape warm-up tunes.

    **Invariant:** that of `MarginalMetropolis`.
    """

    proposal: RandomWalk

    @property
    def operator(self) -> RandomWalk:  # type: ignore[override]
        """The random walk."""
        return self.proposal

    def _with_operator(self, operator: Any) -> Self:
        return replace(self, proposal=operator)


class TrajectoryState(NamedTuple):
    """A point of a chain of trajectories, with what the next one begins with."""

    point: PosteriorPoint  # has kept the mean of f

    @property
    def theta(self) -> FloatArray:
        """Hyper-parameters, natural logs; (p,)."""
        return self.point.position

    @property
    def f(self) -> FloatArray:
        """Mean of f given theta; (n,)."""
        f: FloatArray = self.point.kept
        return f


@dataclass(frozen=True, eq=False)
class MarginalTrajectory(Transition[TrajectoryState]):
    """A Hamiltonian trajectory of theta on the marginal posterior; f is integrated out.

    **Invariant:** leaves the density proportional to q(y | theta) p(theta) unchanged, the posterior
    where the evidence is exact: the leapfrog method is reversible and keeps volume, and its metric,
    step size and number of steps do not depend on the state.

    Attributes
    ----------
    approximation : Approximation
        Of the evidence, with its gradient: the density is a function of theta alone.
    trajectory : Trajectory
    """

    approximation: Approximation
    trajectory: Trajectory
    name = "trajectory"

    def start(
        self, model: LatentGP, theta: FloatArray, rng: np.random.Generator
    ) -> TrajectoryState | None:
        """Return the state at theta; None without a density."""
        point = self._posterior(model).at(theta)
        return None if point is None else TrajectoryState(point)

    def step(
        self, model: LatentGP, state: TrajectoryState, rng: np.random.Generator
    ) -> tuple[TrajectoryState, StepInfo]:
        """Follow one trajectory."""
        with np.errstate(over="ignore", invalid="ignore"):  # far out, on the way
            outcome = self.trajectory.move(self._posterior(model), state.point, rng)
        end, accepted, probability, n_evaluations, lost, _ = outcome
        failed = lost is not None and rejected_proposal(self.name, model, lost).failed
        info = StepInfo(self.name, accepted, probability, n_evaluations, failed)
        return TrajectoryState(end), info

    def _posterior(self, model: LatentGP) -> HyperPosterior:
        return HyperPosterior(model, self.approximation, keep=mean_of)
