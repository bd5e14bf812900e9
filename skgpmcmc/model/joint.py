"""The joint model of the targets y, the latent values f and the hyper-parameters theta."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from .._typing import FloatArray, IntArray
from ..likelihoods.base import Likelihood
from .covariance import Covariance
from .hyperpriors import HyperPrior
from .nugget import NuggetCovariance
from .observations import Observations
from .prior import GaussianPrior


class GPState(NamedTuple):
    """A point of the joint space, with values that the next step would otherwise recompute."""

    prior: GaussianPrior  # holds theta and the root of K
    f: FloatArray  # (n,), latent scale
    log_lik: float  # log p(y | f), natural log
    local: Any = None  # values of the last move at this point, which the next move may use

    @property
    def theta(self) -> FloatArray:
        """Hyper-parameters; (p,)."""
        return self.prior.theta


@dataclass(frozen=True, eq=False)
class LatentGP:
    """A Gaussian-process model with a factorizing likelihood.

    theta contains the hyper-parameters of the kernel, then those of the likelihood. Last come the
    parameters of the hyper-prior, such as the scale of `Shrinkage`: given the others, neither f nor
    y depends on them.

    Attributes
    ----------
    covariance : Covariance
        Kernel bound to the training inputs.
    observations : Observations
        p(y | f). The likelihood's own parameters are possible starts of chains; those in theta take
        their place.
    hyperprior : HyperPrior
        Prior of all components of theta.
    """

    #: Whether the latent values of targets have residuals beyond f.
    has_residuals: ClassVar[bool] = False

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
        """Number n of distinct inputs, and of values of a latent function."""
        return len(self.covariance.X)

    def with_nugget(self, nugget: float) -> Self:
        """Return the model with noise on f; see `NuggetCovariance`."""
        return replace(self, covariance=NuggetCovariance(self.covariance, nugget))

    def of_inputs(self, inputs: IntArray) -> LatentGP:
        """Return the model of the rows at some inputs, given by their positions."""
        own = self.observations.of_inputs(inputs)
        return replace(self, covariance=self.covariance.of_inputs(inputs), observations=own)

    def with_observations(self, **changes: Any) -> Self:
        """Return the same model with other values of some fields of its observations."""
        return replace(self, observations=replace(self.observations, **changes))

    @property
    def n_kernels(self) -> int:
        """Number of kernels that have hyper-parameters of their own."""
        return 1

    @property
    def n_kernel_hyperparameters(self) -> int:
        """Number of components of theta that belong to the kernels; they come first."""
        return self.n_kernels * len(self.covariance.start)

    @property
    def start(self) -> FloatArray:
        """Theta at the own values of kernel, likelihood and hyper-prior; (p,)."""
        of_kernels = np.tile(self.covariance.start, self.n_kernels)
        own = [parameter.start for parameter in self.likelihood.parameters]
        return np.concatenate([of_kernels, own, self.hyperprior.start])

    def pad(self, leading: FloatArray) -> FloatArray:
        """Return values for the first components of theta, followed by zeros for all others.

        A gradient of p(y | theta) lacks the parameters of the hyper-prior, which come last.
        """
        whole = np.zeros(len(self.hyperprior.names))
        whole[: len(leading)] = leading
        return whole

    def latent_shape(self, n_inputs: int) -> tuple[int, ...]:
        """Return the shape of the latent values at `n_inputs` inputs: (n_inputs,)."""
        return (n_inputs,)

    @property
    def n_latent(self) -> int:
        """Length of f."""
        return self.likelihood.n_functions * self.n_inputs

    def kernel_thetas(self, theta: FloatArray) -> list[FloatArray]:
        """Return each distinct set of hyper-parameters of the kernel."""
        return np.split(theta[: self.n_kernel_hyperparameters], self.n_kernels)

    def likelihood_theta(self, theta: FloatArray) -> FloatArray:
        """Return the parameters of the likelihood on the scale of theta; (k,)."""
        begin = self.n_kernel_hyperparameters
        return theta[begin : begin + len(self.likelihood.parameters)]

    def prior_at(self, theta: FloatArray) -> GaussianPrior:
        """p(f | theta), with its K unless there are many inputs."""
        prior = GaussianPrior(self.covariance, theta)
        return prior if prior.by_columns else replace(prior, matrix=prior.K)

    def find_small_rank(self) -> int | None:
        """Return the rank of K at `start` if it is found without K and is small, else None."""
        return GaussianPrior(self.covariance, self.start).find_small_rank()

    def residual_gradient(self, prior: GaussianPrior, slopes: FloatArray) -> FloatArray:
        """Turn derivatives in the variances of residuals, (n,), into those in the kernel's theta.

        Here no latent value has a residual.
        """
        return np.zeros(len(prior.kernel_theta))

    def observations_at(self, theta: FloatArray) -> Observations:
        """Return p(y | f, theta) as a function of f."""
        values = self.likelihood_theta(theta)
        return self.observations.with_parameters(values) if len(values) else self.observations

    def likelihood_at(self, theta: FloatArray) -> Likelihood:
        """Return the likelihood with the parameters in theta."""
        return self.observations_at(theta).likelihood

    def state_at(self, theta: FloatArray, f: FloatArray) -> GPState:
        """Return the state at (theta, f), with all values computed anew."""
        return self.state_in(self.prior_at(theta), f)

    def state_in(self, prior: GaussianPrior, f: FloatArray) -> GPState:
        """Return the state at f under a prior of this model, whose root of K is used."""
        return GPState(prior, f, self.observations_at(prior.theta).total(f))

    def with_latent(self, state: GPState, f: FloatArray) -> GPState:
        """Return the state at the theta of `state` and another f, with the same root of K."""
        return self.state_in(state.prior, f)

    def simulate(self, rng: np.random.Generator) -> tuple[FloatArray, FloatArray, FloatArray]:
        """One draw of (theta, f, y) from the joint distribution."""
        theta = self.hyperprior.sample(rng)
        f = self.prior_at(theta).sample(rng)
        return theta, f, self.observations_at(theta).sample(f, rng)
