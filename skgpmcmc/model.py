"""The joint model p(theta) p(f | theta) p(y | f), and where a chain is in it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ._typing import FloatArray
from .covariance import Covariance
from .gaussian import GaussianPrior
from .hyperpriors import HyperPrior
from .likelihoods import Likelihood

__all__ = ["GPState", "LatentGP"]


class GPState(NamedTuple):
    """A point of the joint space, with what the next step would otherwise recompute."""

    prior: GaussianPrior  # holds theta and the factor of K
    f: FloatArray  # (n,), latent scale
    log_lik: float  # log p(y | f), natural log

    @property
    def theta(self) -> FloatArray:
        """Hyper-parameters, natural logs; (p,)."""
        return self.prior.theta


@dataclass(frozen=True, eq=False)
class LatentGP:
    """A Gaussian-process model with a factorizing likelihood.

    Attributes
    ----------
    covariance : Covariance
        Kernel bound to the training inputs.
    likelihood : Likelihood
    hyperprior : HyperPrior
    y : ndarray of shape (n,)
        Targets as the likelihood wants them (classes are -1.0 and +1.0).
    """

    covariance: Covariance
    likelihood: Likelihood
    hyperprior: HyperPrior
    y: FloatArray

    def with_jitter(self, jitter: float) -> LatentGP:
        """Return the same model with another relative jitter of K."""
        return replace(self, covariance=self.covariance.with_jitter(jitter))

    def prior_at(self, theta: FloatArray) -> GaussianPrior:
        """p(f | theta)."""
        return GaussianPrior(self.covariance, theta)

    def log_lik(self, f: FloatArray) -> float:
        """Log p(y | f), summed over the points, for f of shape (n,)."""
        return float(self.likelihood.log_prob(self.y, f).sum())

    def log_lik_columns(self, f: FloatArray) -> FloatArray:
        """Log p(y | f) for each column of f of shape (n, m); (m,)."""
        return np.asarray(self.likelihood.log_prob(self.y[:, None], f).sum(axis=0))

    def state_at(self, theta: FloatArray, f: FloatArray) -> GPState:
        """Return the state at (theta, f), every cached value fresh."""
        return self.state_in(self.prior_at(theta), f)

    def state_in(self, prior: GaussianPrior, f: FloatArray) -> GPState:
        """Return the state at f under a prior of this model, whose factor of K is shared."""
        return GPState(prior, f, self.log_lik(f))

    def moved(self, state: GPState, f: FloatArray) -> GPState:
        """Return the state at the theta of `state` and another f; the factor of K is shared."""
        return self.state_in(state.prior, f)

    def simulate(self, rng: np.random.Generator) -> tuple[FloatArray, FloatArray, FloatArray]:
        """One draw of (theta, f, y) from the joint distribution."""
        theta = self.hyperprior.sample(rng)
        f = self.prior_at(theta).sample(rng)
        return theta, f, self.likelihood.sample(f, rng)
