"""The joint model of y, f and theta: what was observed, and what it depends on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any, NamedTuple, Self

import numpy as np

from .._typing import FloatArray, IntArray
from ..likelihoods.base import Likelihood
from .covariance import Covariance
from .hyperpriors import HyperPrior
from .nugget import WithNugget
from .observations import Observations
from .prior import GaussianPrior


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

    Hyper-parameters theta are those of the kernel, then those of the likelihood. Last come those
    that only their prior has, on which neither f nor y depends given the others.

    Attributes
    ----------
    covariance : Covariance
        Kernel bound to the training inputs.
    observations : Observations
        p(y | f). The likelihood's own parameters are where chains may start, and are overruled by
        theta.
    hyperprior : HyperPrior
        Of all components of theta.
    """

    covariance: Covariance
    observations: Observations
    hyperprior: HyperPrior

    @property
    def likelihood(self) -> Likelihood:
        """Likelihood of the observations, with its own parameters."""
        return self.observations.likelihood

    @property
    def y(self) -> FloatArray:
        """Targets of all rows as the likelihood encodes them; (n_rows,)."""
        return self.observations.y

    @property
    def n_inputs(self) -> int:
        """Number of distinct inputs n: of latent values of a function."""
        return len(self.covariance.X)

    def with_nugget(self, nugget: float) -> Self:
        """Return the model with noise on f, see `WithNugget`."""
        return replace(self, covariance=WithNugget(self.covariance, nugget))

    def of_inputs(self, inputs: IntArray) -> Self:
        """Return the model of the rows at some inputs, given by their positions."""
        own = self.observations.of_inputs(inputs)
        return replace(self, covariance=self.covariance.of_inputs(inputs), observations=own)

    def observing(self, **changes: Any) -> Self:
        """Return the same model with other observations: fields of these by their names."""
        return replace(self, observations=replace(self.observations, **changes))

    @property
    def n_kernels(self) -> int:
        """Number of kernels that have hyper-parameters of their own."""
        return 1

    @property
    def n_of_kernels(self) -> int:
        """Number of components of theta that belong to the kernels: the first ones."""
        return self.n_kernels * len(self.covariance.start)

    @property
    def start(self) -> FloatArray:
        """Theta of the kernel's, the likelihood's and the prior's own values; (p,)."""
        of_kernels = np.tile(self.covariance.start, self.n_kernels)
        own = [parameter.start for parameter in self.likelihood.parameters]
        return np.concatenate([of_kernels, own, self.hyperprior.start])

    def pad(self, leading: FloatArray) -> FloatArray:
        """Return what is stated for the first components of theta, with zeros for all others.

        A gradient of p(y | theta) has none of what only the prior depends on.
        """
        whole = np.zeros(len(self.hyperprior.names))
        whole[: len(leading)] = leading
        return whole

    def shape_at(self, n_inputs: int) -> tuple[int, ...]:
        """Return the shape of the latent values at so many inputs: (n,)."""
        return (n_inputs,)

    @property
    def n_latent(self) -> int:
        """Length of f."""
        return prod(self.shape_at(self.n_inputs))

    def kernel_thetas(self, theta: FloatArray) -> list[FloatArray]:
        """Return each distinct set of hyper-parameters of the kernel."""
        return np.split(theta[: self.n_of_kernels], self.n_kernels)

    def likelihood_theta(self, theta: FloatArray) -> FloatArray:
        """Return the parameters of the likelihood on the scale of theta; (k,)."""
        begin = self.n_of_kernels
        return theta[begin : begin + len(self.likelihood.parameters)]

    def prior_at(self, theta: FloatArray) -> GaussianPrior:
        """p(f | theta), with its K."""
        K = self.covariance.matrix(theta[: len(self.covariance.start)])
        return GaussianPrior(self.covariance, theta, K)

    def observations_at(self, theta: FloatArray) -> Observations:
        """Return p(y | f, theta) as a function of f."""
        values = self.likelihood_theta(theta)
        return self.observations.with_parameters(values) if len(values) else self.observations

    def likelihood_at(self, theta: FloatArray) -> Likelihood:
        """Return the likelihood with its parameters as theta has them."""
        return self.observations_at(theta).likelihood

    def state_at(self, theta: FloatArray, f: FloatArray) -> GPState:
        """Return the state at (theta, f), every cached value fresh."""
        return self.state_in(self.prior_at(theta), f)

    def state_in(self, prior: GaussianPrior, f: FloatArray) -> GPState:
        """Return the state at f under a prior of this model, whose factor of K is shared."""
        return GPState(prior, f, self.observations_at(prior.theta).total(f))

    def with_latent(self, state: GPState, f: FloatArray) -> GPState:
        """Return the state at the theta of `state` and another f; the factor of K is shared."""
        return self.state_in(state.prior, f)

    def simulate(self, rng: np.random.Generator) -> tuple[FloatArray, FloatArray, FloatArray]:
        """One draw of (theta, f, y) from the joint distribution."""
        theta = self.hyperprior.sample(rng)
        f = self.prior_at(theta).sample(rng)
        return theta, f, self.observations_at(theta).sample(f, rng)
