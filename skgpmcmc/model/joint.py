"""The joint model of y, f and theta: what was observed, and what it depends on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any, NamedTuple, Self

import numpy as np

from .._typing import FloatArray, IntArray
from ..likelihoods import Derivatives, Likelihood, ParameterDerivatives, TiltedMoments
from .covariance import Covariance
from .hyperpriors import HyperPrior
from .nugget import WithNugget
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
class Observations:
    """The function f -> log p(y | f) of n rows, at given parameters of the likelihood.

    Row i contributes weight_i log p(y_i | f_i + offset_i).

    Attributes
    ----------
    likelihood : Likelihood
        With its parameters at their values.
    y : ndarray of shape (n,)
        Targets as the likelihood encodes them (classes are -1.0 and +1.0).
    offset : ndarray of shape (n,) or None
        Added to f, such as the log of an exposure; latent scale. None is zero.
    weight : ndarray of shape (n,) or None
        Positive; multiplies log p(y | f). None is one.
    """

    likelihood: Likelihood
    y: FloatArray
    offset: FloatArray | None = None
    weight: FloatArray | None = None

    def __len__(self) -> int:
        return len(self.y)

    def with_parameters(self, values: FloatArray) -> Observations:
        """Return the same observations with other parameters of the likelihood."""
        return replace(self, likelihood=self.likelihood.with_parameters(values))

    def of_rows(self, rows: IntArray) -> Observations:
        """Return what was observed of some rows, given by their numbers."""
        return Observations(
            self.likelihood.of_rows(rows),
            self.y[rows],
            None if self.offset is None else self.offset[rows],
            None if self.weight is None else self.weight[rows],
        )

    def in_copies(self) -> tuple[FloatArray | float, Observations]:
        """Part weights above one into equal copies of rows: their numbers, and one copy of each.

        So an integer weight means just what repeated rows mean.
        """
        if self.weight is None:
            return 1.0, self
        share = np.minimum(self.weight, 1.0)
        one = replace(self, weight=None if np.all(share == 1.0) else share)
        return np.maximum(self.weight, 1.0), one

    def log_prob(self, f: FloatArray) -> FloatArray:
        """Contribution of each row, for f of shape (n,) or (n, m)."""
        return self._weighted(self.likelihood.log_prob(self._column(self.y, f), self._shifted(f)))

    def total(self, f: FloatArray) -> float:
        """Log p(y | f) for f of shape (n,), natural log."""
        return float(self.log_prob(f).sum())

    def totals(self, f: FloatArray) -> FloatArray:
        """Log p(y | f) for each column of f of shape (n, m); (m,)."""
        return np.asarray(self.log_prob(f).sum(axis=0))

    def derivatives(self, f: FloatArray) -> Derivatives:
        """Return derivatives in f of shape (n,) or (n, m), row by row."""
        parts = self.likelihood.derivatives(self._column(self.y, f), self._shifted(f))
        return Derivatives(*(self._weighted(part) for part in parts))

    def slope_and_precision(self, f: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the slope in f, and the precision that stands for its curvature; see there."""
        slope, precision = self.likelihood.slope_and_precision(self.y, self._shifted(f))
        return self._weighted(slope), self._weighted(precision)

    def curvature(self, f: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return a precision that follows f of shape (n,), and its derivative; see there."""
        precision, slope = self.likelihood.curvature(self.y, self._shifted(f))
        return self._weighted(precision), self._weighted(slope)

    def fisher_information(self, f: FloatArray) -> FloatArray:
        """Mean over y of minus the second derivative, for f of shape (n,)."""
        return self._weighted(self.likelihood.fisher_information(self._shifted(f)))

    def tilted_moments(self, mean: FloatArray, var: FloatArray) -> TiltedMoments:
        """Log normalizers of p(y | f)^weight N(f; mean, var) and their derivatives; each (n,)."""
        mean = self._shifted(mean)
        if self.weight is None:
            return self.likelihood.tilted_moments(self.y, mean, var)
        return self.likelihood.weighted_tilted_moments(self.y, self.weight, mean, var)

    def probit_signs(self) -> FloatArray | None:
        """Return s where p(y | f) = Phi(s (f + offset)), or None; (n,)."""
        return None if self.weight is not None else self.likelihood.probit_signs(self.y)

    def tilted_powers(
        self, cavities: tuple[FloatArray, FloatArray], mean: FloatArray, sd: FloatArray, degree: int
    ) -> FloatArray:
        """Return means of ((f - mean) / sd)^k, k = 1 to `degree`, under tilted densities.

        Those of `tilted_moments`, with means and variances `cavities`; (degree, n).
        """
        center, var = cavities
        tilted = self.likelihood.tilted(self.y, self._shifted(center), var, self.weight)
        return tilted.powers(self._shifted(mean), sd, degree)

    def parameter_derivatives(self, f: FloatArray) -> ParameterDerivatives:
        """Return derivatives in the k parameters of the likelihood; each (k, n)."""
        parts = self.likelihood.parameter_derivatives(self.y, self._shifted(f))
        if self.weight is None:
            return parts
        return ParameterDerivatives(*(self.weight * part for part in parts))

    def tilted_parameter_gradient(self, mean: FloatArray, var: FloatArray) -> FloatArray:
        """Return derivatives of `tilted_moments().log_z` in the parameters; (k, n)."""
        return self.likelihood.tilted_parameter_gradient(
            self.y, self.weight, self._shifted(mean), var
        )

    def sample(self, f: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw targets for f of shape (n,); weights do not enter."""
        return self.likelihood.sample(self._shifted(f), rng)

    def _shifted(self, f: FloatArray) -> FloatArray:
        return f if self.offset is None else f + self._column(self.offset, f)

    def _weighted(self, values: FloatArray) -> FloatArray:
        if self.weight is None:
            return values
        # Where a row has several latent values, they are stacked function after function.
        weight = np.tile(self.weight, len(values) // len(self.weight))
        return self._column(weight, values) * values

    @staticmethod
    def _column(values: FloatArray, like: FloatArray) -> FloatArray:
        """Values of shape (n,), ready to go with an array of shape (n,) or (n, m)."""
        return values if like.ndim == 1 else values[:, None]


@dataclass(frozen=True, eq=False)
class LatentGP:
    """A Gaussian-process model with a factorizing likelihood.

    Hyper-parameters theta are those of the kernel, then those of the likelihood.

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
        """Targets as the likelihood encodes them; (n,)."""
        return self.observations.y

    def with_nugget(self, nugget: float) -> Self:
        """Return the model with noise on f, see `WithNugget`."""
        return replace(self, covariance=WithNugget(self.covariance, nugget))

    def of_rows(self, rows: IntArray) -> Self:
        """Return the model of some of the rows, given by their numbers; theta means the same."""
        own = self.observations.of_rows(rows)
        return replace(self, covariance=self.covariance.of_rows(rows), observations=own)

    def observing(self, **changes: Any) -> Self:
        """Return the same model with other observations: fields of these by their names."""
        return replace(self, observations=replace(self.observations, **changes))

    @property
    def start(self) -> FloatArray:
        """Theta of the kernel's and the likelihood's own values; (p,)."""
        own = [parameter.start for parameter in self.likelihood.parameters]
        return np.concatenate([self.covariance.start, own])

    def shape_at(self, n_rows: int) -> tuple[int, ...]:
        """Return the shape of the latent values of so many rows: (n,)."""
        return (n_rows,)

    @property
    def n_latent(self) -> int:
        """Length of f."""
        return prod(self.shape_at(len(self.y)))

    def kernel_thetas(self, theta: FloatArray) -> list[FloatArray]:
        """Return the hyper-parameters of the kernel: one set of them."""
        return [theta[: len(self.covariance.start)]]

    def prior_at(self, theta: FloatArray) -> GaussianPrior:
        """p(f | theta), with its K."""
        K = self.covariance.matrix(theta[: len(self.covariance.start)])
        return GaussianPrior(self.covariance, theta, K)

    def observations_at(self, theta: FloatArray) -> Observations:
        """Return p(y | f, theta) as a function of f."""
        values = theta[len(self.covariance.start) :]
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

    def moved(self, state: GPState, f: FloatArray) -> GPState:
        """Return the state at the theta of `state` and another f; the factor of K is shared."""
        return self.state_in(state.prior, f)

    def simulate(self, rng: np.random.Generator) -> tuple[FloatArray, FloatArray, FloatArray]:
        """One draw of (theta, f, y) from the joint distribution."""
        theta = self.hyperprior.sample(rng)
        f = self.prior_at(theta).sample(rng)
        return theta, f, self.observations_at(theta).sample(f, rng)
