"""Gibbs update of the variance of f, where its prior is conjugate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..model import GPState, LatentGP
from ..numerics.linalg import NotPositiveDefiniteError
from .base import FromPrior, StepInfo, rejected_proposal


@dataclass(frozen=True)
class ConjugateVariance(FromPrior):
    """Draw the constant factor of the kernel given f and all else, K being proportional to it.

    With K = sigma Q and the prior InvGamma(shape, scale) it is
    InvGamma(shape + n / 2, scale + f'Q^-1 f / 2), the jitter being part of Q.

    **Invariant:** leaves p(sigma | f, all else) unchanged, and so p(theta, f | y).

    Attributes
    ----------
    position : int
        Of log sigma in theta.
    shape, scale : float
        Of the inverse-gamma prior.

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
        """Draw the variance, and factor K anew.

        The factor could be scaled instead, but would then differ in its last digits from the one
        that is made where a state has travelled to.
        """
        v = state.prior.whiten(state.f)
        variance = np.exp(state.theta[self.position])
        scale = self.scale + 0.5 * variance * float(v @ v)
        theta = state.theta.copy()
        theta[self.position] = np.log(scale / rng.gamma(self.shape + 0.5 * len(v)))
        if not np.isfinite(model.hyperprior.log_prob(theta)):
            return state, rejected_proposal(self.name, model, theta)
        prior = model.prior_at(theta)
        try:
            _ = prior.chol
        except NotPositiveDefiniteError:
            return state, rejected_proposal(self.name, model, theta)
        return model.state_in(prior, state.f), StepInfo(self.name, True, 1.0, 1.0, False)
