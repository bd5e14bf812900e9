"""The joint model p(theta) p(f | theta) p(y | f), and where a chain is in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from .._typing import FloatArray
from ..likelihoods import Likelihood
from .covariance import Covariance
from .hyperpriors import HyperPrior, default_prior
from .observations import Observations
from .prior import GaussianPrior

__all__ = ["GPState", "LatentGP", "default_hyperprior"]


class GPState(NamedTuple):
    """A point of the joint space, with what the next step would otherwise recompute."""

    prior: GaussianPrior  # holds theta and the factor of K
    f: FloatArray  # (n,), latent scale
    log_lik: float  # log p(y | f), natural log
    local: Any = None  # what the last move knows of this very point, and the next may use

    @property
    def theta(self) -> FloatArray:
        """Hyper-parameters; (p,)."""
        return self.prior.theta


@dataclass(frozen=True, eq=False)
class LatentGP:
    """A Gaussian-process model with a factorizing likelihood.

    Hyper-parameters theta are those of the kernel, then those of the likelihood.

    Attributes
    ----------
    covariance : Covariance
        Kernel bound to the training inputs.
    likelihood : Likelihood
        Its own parameters are where chains may start, and are overruled by theta.
    hyperprior : HyperPrior
        Of all components of theta.
    y : ndarray of shape (n,)
        Targets as the likelihood wants them (classes are -1.0 and +1.0).
    offset : ndarray of shape (n,) or None
        Added to f, such as the log of an exposure; latent scale. None is zero.
    weight : ndarray of shape (n,) or None
        Positive; multiplies log p(y | f), row by row. None is one.
    """

    covariance: Covariance
    likelihood: Likelihood
    hyperprior: HyperPrior
    y: FloatArray
    offset: FloatArray | None = None
    weight: FloatArray | None = None

    def with_jitter(self, jitter: float) -> LatentGP:
        """Return the same model with another relative jitter of K."""
        return replace(self, covariance=self.covariance.with_jitter(jitter))

    @property
    def start(self) -> FloatArray:
        """Theta of the kernel's and the likelihood's own values; (p,)."""
        own = [parameter.start for parameter in self.likelihood.parameters]
        return np.concatenate([self.covariance.start, own])

    @property
    def n_latent(self) -> int:
        """Length of f."""
        return len(self.y)

    def kernel_thetas(self, theta: FloatArray) -> list[FloatArray]:
        """Return the hyper-parameters of the kernel: one set of them."""
        return [theta[: len(self.covariance.start)]]

    def prior_at(self, theta: FloatArray) -> GaussianPrior:
        """p(f | theta)."""
        return GaussianPrior(self.covariance, theta)

    def observations_at(self, theta: FloatArray) -> Observations:
        """Return p(y | f, theta) as a function of f."""
        values = theta[len(self.covariance.start) :]
        return self.observations.with_parameters(values) if len(values) else self.observations

    @cached_property
    def observations(self) -> Observations:
        """p(y | f) with the likelihood's own parameters, as a function of f."""
        return Observations(self.likelihood, self.y, self.offset, self.weight)

    def likelihood_at(self, theta: FloatArray) -> Likelihood:
        """Return the likelihood with its parameters as theta has them."""
        return self.observations_at(theta).likelihood

    def state_at(self, theta: FloatArray, f: FloatArray) -> GPState:
        """Return the state at (theta, f), every cached value fresh."""
        return self.state_in(self.prior_at(theta), f)

    def state_in(self, prior: GaussianPrior, f: FloatArray) -> GPState:
        """Return the state at f under a prior of this model, whose factor of K is shared."""
        return GPState(prior, f, self.observations_at(prior.theta).total(f))

    def moved(self, state: GPState, f: FloatArray) -> GPState:
        """Return the state at the theta of `state` and another f; the factor of K is shared."""
        return self.state_in(state.prior, f)

    def simulate(self, rng: np.random.Generator) -> tuple[FloatArray, FloatArray, FloatArray]:
        """One draw of (theta, f, y) from the joint distribution."""
        theta = self.hyperprior.sample(rng)
        f = self.prior_at(theta).sample(rng)
        return theta, f, self.observations_at(theta).sample(f, rng)


def default_hyperprior(
    covariance: Covariance,
    likelihood: Likelihood,
    priors: Mapping[str, Any] | None = None,
    n_kernels: int = 1,
) -> HyperPrior:
    """Return the prior of theta: those of `priors`, and defaults for names that are left out.

    With several kernels, each has the hyper-parameters of the covariance.
    """
    parameters = likelihood.parameters
    names = (*covariance.names * n_kernels, *(parameter.name for parameter in parameters))
    real = {parameter.name for parameter in parameters if not parameter.positive}
    n_features = covariance.X.shape[1]
    distributions = {
        name: default_prior(name, n_features, positive=name not in real) for name in names
    }
    return HyperPrior(names, {**distributions, **(priors or {})}, real)
