"""Moves of f at fixed theta, and moves of theta at fixed f or at fixed auxiliary variables.

A `Sweep` over such moves is a Gibbs sampler.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np

from .._typing import FloatArray, IntArray
from ..model.joint import GPState, LatentGP
from ..model.prior import GaussianPrior
from ..numerics.dynamics import IDENTITY, FactorRoot, Root
from ..numerics.linalg import NotPositiveDefiniteError, cholesky
from ..parameterizations.base import HyperConditional, Parameterization
from ..parameterizations.latent import LatentConditional, LatentPoint
from .base import PriorStart, StepInfo, Tunable
from .metropolis import metropolis_accepts, rejection_info
from .operator import Operator, OperatorUpdate


@dataclass(frozen=True, eq=False)
class HyperUpdate(OperatorUpdate[GPState], PriorStart):
    """An operator on theta; the auxiliary variables of the parameterization are held fixed.

    **Invariant:** leaves p(theta, f | y) unchanged, because the operator leaves the conditional
    distribution of theta unchanged, and the auxiliary variables are a function of (theta, f) or a
    draw given (theta, f) that extends the target. If K is singular in double precision, f lies in a
    subspace that no other theta shares. A parameterization that holds f fixed then leaves the state
    unchanged, and it never moves to such a theta.

    Attributes
    ----------
    parameterization : Parameterization
    operator : Operator
    free : ndarray of int of shape (q,) or None
        Positions of the components of theta that move; None moves all.
    """

    parameterization: Parameterization
    operator: Operator
    free: IntArray | None = None

    @property
    def name(self) -> str:  # type: ignore[override]
        """Name in diagnostics."""
        return f"{self.operator.name} on theta ({self.parameterization.name})"

    def with_covariance(self, covariance: FloatArray) -> Self:
        """Return the update with steps in the shape of a covariance, and a scale to suit it."""
        own = covariance if self.free is None else covariance[np.ix_(self.free, self.free)]
        return super().with_covariance(own)

    def step(
        self, model: LatentGP, state: GPState, rng: np.random.Generator
    ) -> tuple[GPState, StepInfo]:
        """Move theta by the operator; f changes with theta according to the parameterization."""
        conditional = HyperConditional.of(model, self.parameterization, state, rng, self.free)
        try:
            point = conditional.begin
        except NotPositiveDefiniteError:
            return state, rejection_info(self.name, model, state.theta)
        with np.errstate(over="ignore", invalid="ignore"):
            outcome = self.operator.move(conditional, point, rng)
        lost = outcome.lost
        failed = (
            lost is not None and rejection_info(self.name, model, conditional.theta_at(lost)).failed
        )
        info = self._info(outcome, failed=failed)
        # After a rejection the same object is returned, with all of its cached matrices.
        return state if outcome.point is point else outcome.point.state, info


class LatentShape(Protocol):
    """Shape of the steps and momenta of f, as a function of theta."""

    def root(self, model: LatentGP, prior: GaussianPrior) -> Root:
        """Return the root in whitened coordinates, a function of theta and the data."""


@dataclass(frozen=True)
class PriorShape:
    """Shape of draws from the prior, B B' = K: the variants "MH v1" and "HMC v2"."""

    def root(self, model: LatentGP, prior: GaussianPrior) -> Root:
        """Return the identity."""
        return IDENTITY


@dataclass(frozen=True)
class CurvatureShape:
    """Shape B B' = (K^-1 + C)^-1, C the Fisher information of f at the prior mean: "HMC v1".

    The factor of I + R'C R is computed once for each theta. C must not depend on f.
    """

    def root(self, model: LatentGP, prior: GaussianPrior) -> Root:
        """Return the root of the inverse of I + R'C R."""

        def make() -> FactorRoot:
            """Compute the root."""
            mean = np.zeros(prior.size)
            information = model.observations_at(prior.theta).fisher_information(mean)
            return FactorRoot(prior.whitened_factor(np.sqrt(information)))

        return prior.remember((type(self), model), make)


@dataclass(frozen=True, eq=False)
class MassShape:
    """Shape B B' = M^-1 for a given mass matrix M of f.

    Attributes
    ----------
    mass : float, or ndarray of shape (n,) or (n, n)
        M: a multiple of the identity, its diagonal, or the whole matrix.
    """

    mass: float | FloatArray = 1.0

    def root(self, model: LatentGP, prior: GaussianPrior) -> Root:
        """Return the root of the inverse of R'M R."""
        mass = np.asarray(self.mass, dtype=float)
        if mass.ndim == 2:
            root_mass = cholesky(np.asfortranarray(mass))
        else:
            root_mass = np.broadcast_to(np.sqrt(mass), prior.size)
        return prior.remember(
            (self, model), lambda: FactorRoot(prior.root.precision_root(root_mass))
        )


@dataclass(frozen=True)
class LatentUpdate(OperatorUpdate[GPState], PriorStart):
    """An operator on the whitened v, where f = R v.

    **Invariant:** leaves p(f | y, theta) unchanged, because the operator leaves the density of v
    unchanged; theta does not change.

    Attributes
    ----------
    operator : Operator
    shape : LatentShape
        Shape of the steps or momenta; operators with their own metric do not use it.
    """

    operator: Operator
    shape: LatentShape = PriorShape()
    moves_theta = False

    @property
    def name(self) -> str:  # type: ignore[override]
        """Name in diagnostics."""
        return f"{self.operator.name} on f"

    def with_covariance(self, covariance: FloatArray) -> Self:
        """Return the update unchanged, because the covariance is that of theta."""
        return self

    def step(
        self, model: LatentGP, state: GPState, rng: np.random.Generator
    ) -> tuple[GPState, StepInfo]:
        """Move v by the operator."""
        conditional = LatentConditional(model.observations_at(state.theta), state.prior)
        point = conditional.point_of(state)
        operator = self.operator.with_root(self.shape.root(model, state.prior))
        with np.errstate(over="ignore", invalid="ignore"):
            outcome = operator.move(conditional, point, rng)
        info = self._info(outcome, failed=outcome.failed)
        assert isinstance(
            outcome.point, LatentPoint
        )  # the operator returns points of its conditional density
        return outcome.point.state._replace(local=outcome.point), info


@dataclass(frozen=True)
class CrankNicolson(PriorStart, Tunable[GPState]):
    """Preconditioned Crank-Nicolson: f' = sqrt(1 - a^2) f + a u, u ~ N(0, K).

    The proposal is accepted by the likelihood ratio alone. The tuned scale s can be any positive
    number: a = s / sqrt(1 + s^2).

    **Invariant:** leaves p(f | y, theta) unchanged; theta does not change.

    Attributes
    ----------
    log_scale : float
        Log of s.
    target_acceptance : float or None, default=0.25

    References
    ----------
    Neal (1999); Filippone, Zhong & Girolami (2013), (12).
    """

    log_scale: float = -1.0
    target_acceptance: float | None = 0.25
    name = "prior-preserving walk on f"
    moves_theta = False

    def step(
        self, model: LatentGP, state: GPState, rng: np.random.Generator
    ) -> tuple[GPState, StepInfo]:
        """Propose f', and accept or reject it."""
        scale = np.exp(self.log_scale)
        f = (state.f + scale * state.prior.sample(rng)) / np.hypot(1.0, scale)
        candidate = model.with_latent(state, f)
        accepted, probability = metropolis_accepts(candidate.log_lik - state.log_lik, rng)
        return candidate if accepted else state, StepInfo(self.name, accepted, probability)

    def with_log_scale(self, log_scale: float) -> CrankNicolson:
        """Return the same move with another scale."""
        return replace(self, log_scale=log_scale)


@dataclass(frozen=True)
class ConjugateVariance(PriorStart):
    """Draw the constant factor sigma of the kernel from its conditional distribution.

    With K = sigma Q, Q of rank r, and the prior InvGamma(shape, scale), this distribution given f
    and all other variables is InvGamma(shape + r / 2, scale + v'v / 2), where f = Q^1/2 v.

    **Invariant:** leaves p(sigma | f, all else) unchanged, and so p(theta, f | y).

    Attributes
    ----------
    position : int
        Position of log sigma in theta.
    shape, scale : float
        Parameters of the inverse-gamma prior.

    References
    ----------
    Filippone, Zhong & Girolami (2013), appendix A.1.
    """

    position: int
    shape: float
    scale: float
    name = "conjugate draw of the variance"

    def step(
        self, model: LatentGP, state: GPState, rng: np.random.Generator
    ) -> tuple[GPState, StepInfo]:
        """Draw the variance, and compute the root of K again.

        Scaling the old root would be cheaper, but would differ in the last digits from the root
        that is computed after the state was sent to another process.
        """
        v = state.prior.whiten(state.f)
        variance = np.exp(state.theta[self.position])
        scale = self.scale + 0.5 * variance * float(v @ v)
        theta = state.theta.copy()
        theta[self.position] = np.log(scale / rng.gamma(self.shape + 0.5 * len(v)))
        if not np.isfinite(model.hyperprior.log_prob(theta)):
            return state, rejection_info(self.name, model, theta)
        try:
            prior = model.prior_at(theta).factorize()
        except NotPositiveDefiniteError:
            return state, rejection_info(self.name, model, theta)
        return model.state_in(prior, state.f), StepInfo(self.name, True, 1.0)
