"""Hamiltonian moves for annealed importance sampling."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .._typing import FloatArray
from ..importance.annealed import AnnealedParticles, TemperedLikelihood
from ..model.joint import GPState
from ..model.prior import GaussianPrior
from ..numerics.dynamics import FactorRoot, leapfrog
from ..parameterizations.latent import LatentConditional
from .hmc import Trajectory
from .riemannian import RiemannianTrajectory


@dataclass(frozen=True)
class TrajectoryKernel:
    """Leapfrog trajectories of all draws in one batch, with the precision of q as mass matrix.

    If q is the prior, this is "HMC v2". All trajectories have `max_steps` steps, each with its own
    random step size, because a shared random number would make the draws dependent.

    **Invariant:** leaves ``q(f) exp(beta rho(f))`` unchanged.

    Attributes
    ----------
    operator : Trajectory
        Step size and numbers of steps; its root is not used.

    References
    ----------
    Neal (2001); Paquet & Fraccaro, section 3.
    """

    operator: Trajectory

    def move(
        self, particles: AnnealedParticles, beta: float, log_scale: float, rng: np.random.Generator
    ) -> float:
        """Follow one trajectory for each draw."""
        q = particles.q
        f = particles.f
        tempered = TemperedLikelihood(particles.observed, q, beta)
        begin = _LatentBatch(tempered, q.prior, q.prior.whiten(f), f)
        step = self.operator.with_log_scale(log_scale).step_sizes(rng, f.shape[1])
        begun = rng.standard_normal(begin.position.shape)
        n_steps = self.operator.max_steps
        with np.errstate(over="ignore", invalid="ignore"):
            path = leapfrog(begin.at, begin, begun, step, FactorRoot(q.chol_white), n_steps)
            assert path.end is not None  # a draw that is not finite is rejected below
            change = _negative_hamiltonians(path.end, path.momentum) - _negative_hamiltonians(
                begin, begun
            )
        change = np.where(np.isnan(change), -np.inf, change)
        accepted = np.log1p(-rng.uniform(size=len(change))) < change
        particles.place(accepted, path.end.f[:, accepted] - q.mean[:, None])
        return float(np.exp(np.minimum(change, 0.0)).mean())


def _negative_hamiltonians(batch: _LatentBatch, momentum: FloatArray) -> FloatArray:
    """Minus the Hamiltonian of each point of a batch; (N,)."""
    return np.asarray(batch.log_density - 0.5 * (momentum * momentum).sum(axis=0))


@dataclass(frozen=True, eq=False)
class _LatentBatch:
    """A batch of points v with f = R v, one per column.

    Attributes
    ----------
    tempered : Tempered
    prior : GaussianPrior
    position : ndarray of shape (r, N)
    f : ndarray of shape (n, N)
    """

    tempered: TemperedLikelihood
    prior: GaussianPrior
    position: FloatArray
    f: FloatArray

    def at(self, position: FloatArray) -> _LatentBatch:
        """Return the batch at other positions (r, N)."""
        return _LatentBatch(self.tempered, self.prior, position, self.prior.unwhiten(position))

    @property
    def log_density(self) -> FloatArray:
        """Log density of each point; (N,)."""
        return self.tempered.totals(self.f) - 0.5 * (self.position * self.position).sum(axis=0)

    @cached_property
    def gradient(self) -> FloatArray:
        """Gradient of the log density in v at each point; (r, N)."""
        slope = self.tempered.derivatives(self.f).first
        return self.prior.root.apply_transpose(slope) - self.position


@dataclass(frozen=True)
class RiemannianKernel:
    """Riemannian trajectories, one draw after the other, because the metric depends on f.

    **Invariant:** leaves ``q(f) exp(beta rho(f))`` unchanged.

    Attributes
    ----------
    operator : RiemannianTrajectory

    References
    ----------
    Paquet & Fraccaro, algorithms 1 to 4.
    """

    operator: RiemannianTrajectory

    def move(
        self, particles: AnnealedParticles, beta: float, log_scale: float, rng: np.random.Generator
    ) -> float:
        """Follow one trajectory for each draw."""
        prior = particles.q.prior
        f = particles.f
        tempered = TemperedLikelihood(particles.observed, particles.q, beta)
        conditional = LatentConditional(tempered, prior)
        operator = self.operator.with_log_scale(log_scale)
        probabilities = []
        for i, own in enumerate(f.T):
            begin = conditional.point_of(GPState(prior, own, tempered.total(own)))
            with np.errstate(over="ignore", invalid="ignore"):
                outcome = operator.move(conditional, begin, rng)
            f[:, i] = outcome.point.state.f
            probabilities.append(outcome.acceptance_probability)
        particles.place(np.full(f.shape[1], True), f - particles.q.mean[:, None])
        return float(np.mean(probabilities))
