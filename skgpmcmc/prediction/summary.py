"""Summaries that are added up over draws: log densities, probabilities of classes, moments."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from .._typing import FloatArray
from ..likelihoods.base import Likelihood
from ..model.joint import LatentGP
from ..model.prior import LatentMoments
from ..numerics.linalg import log_sum
from .groups import make_stream

#: Antithetic pairs of continuations of each f to a new row, for a softmax. Few are enough, as there
#: are many f.
_N_PAIRS = 2
#: Purpose of the random numbers of these continuations, for their stream.
_OF_CLASSES = 1
#: Densities of targets that are computed in one call: more take more memory, and no less time each.
_DENSITIES_PER_CALL = 4096


class Summary(Protocol):
    """A function of the moments of f* that is added up over draws."""

    combine: ClassVar[np.ufunc]

    def of(
        self, theta: FloatArray, moments: LatentMoments, rows: slice, log_weight: FloatArray
    ) -> FloatArray:
        """Weighted sum over the columns of means, with log weights (g,); (..., rows)."""


#: The likelihood of some new rows, from that of the training rows. Workers must be able to import
#: the function.
AtNewRows = Callable[[Likelihood, slice], Likelihood]


def forget_rows(likelihood: Likelihood, rows: slice) -> Likelihood:
    """Return the likelihood of any new rows, without data that belong to training rows."""
    return likelihood.at_new_rows()


@dataclass(frozen=True, eq=False)
class LogPredictive:
    """Log of the sum of p(y* | draw) for each of k candidate targets; sums are taken in logs."""

    model: LatentGP
    y_new: FloatArray  # (k, m)
    offset: FloatArray  # (m,)
    at_new_rows: AtNewRows
    combine: ClassVar[np.ufunc] = np.logaddexp

    def of(
        self, theta: FloatArray, moments: LatentMoments, rows: slice, log_weight: FloatArray
    ) -> FloatArray:
        """See `Summary`."""
        likelihood = self.at_new_rows(self.model.likelihood_at(theta), rows)
        mean = moments.mean + self.offset[rows, None]
        var = moments.var[:, None]
        n_at_once = max(1, _DENSITIES_PER_CALL // mean.size)
        starts = range(0, len(self.y_new), n_at_once)
        blocks = (self.y_new[i : i + n_at_once, rows, None] for i in starts)
        terms = (term for y in blocks for term in likelihood.log_predictive(y, mean, var))
        return _log_sums(terms, log_weight)


@dataclass(frozen=True, eq=False)
class LogClassProbabilities:
    """Logs of the sums of the probabilities of the classes -1.0 and +1.0; (2, m)."""

    model: LatentGP
    combine: ClassVar[np.ufunc] = np.logaddexp

    def of(
        self, theta: FloatArray, moments: LatentMoments, rows: slice, log_weight: FloatArray
    ) -> FloatArray:
        """See `Summary`."""
        likelihood = self.model.likelihood_at(theta).at_new_rows()
        terms = likelihood.log_class_probabilities(moments.mean, moments.var[:, None])
        return _log_sums(terms, log_weight)


def _log_sums(terms: Iterable[FloatArray], log_weight: FloatArray) -> FloatArray:
    """Logs of weighted sums over the columns of k terms, each (m, g); (k, m)."""
    weightless = np.exp(log_weight) == 0.0
    sums = []
    for term in terms:
        # A wide prior draws f whose densities are no numbers; without weight they have no part.
        counted = np.where(weightless & np.isnan(term), -np.inf, term)
        sums.append(log_sum(counted + log_weight, overwrite=True))
    return np.stack(sums)


@dataclass(frozen=True, eq=False)
class ClassProbabilities:
    """Sums of the probabilities of all classes of a softmax; (C, m).

    Its mean over f* ~ N(mean, var) has no closed form: every f is continued to a new row by a few
    antithetic pairs of normal numbers for each class, which all rows share and each theta has anew.
    """

    seed: int
    combine: ClassVar[np.ufunc] = np.add

    def of(
        self, theta: FloatArray, moments: LatentMoments, rows: slice, log_weight: FloatArray
    ) -> FloatArray:
        """See `Summary`."""
        mean = moments.mean
        sd = np.sqrt(moments.var)[..., None]
        rng = make_stream(theta, self.seed, _OF_CLASSES)
        total = np.zeros(mean.shape[:2])
        for _ in range(_N_PAIRS):
            step = sd * rng.standard_normal((len(mean), 1, mean.shape[2]))
            for f in (mean + step, mean - step):
                f -= f.max(axis=0)
                p = np.exp(f, out=f)
                total += (p / p.sum(axis=0)) @ np.exp(log_weight)
        return total / (2 * _N_PAIRS)


#: Values (k, ..., m, g) of functions of f* ~ N(mean, var), mean (..., m, g) and var (..., m, 1).
LatentFunction = Callable[[Likelihood, FloatArray, FloatArray], FloatArray]


@dataclass(frozen=True, eq=False)
class Expectation:
    """Sums of functions of the moments of f*."""

    model: LatentGP
    function: LatentFunction
    offset: FloatArray  # (m,)
    combine: ClassVar[np.ufunc] = np.add

    def of(
        self, theta: FloatArray, moments: LatentMoments, rows: slice, log_weight: FloatArray
    ) -> FloatArray:
        """See `Summary`."""
        likelihood = self.model.likelihood_at(theta).at_new_rows()
        weight = np.exp(log_weight)
        # An f without weight has no part in an average, not even where a function of it overflows:
        # a wide prior draws such f.
        used = weight > 0.0
        mean = moments.mean[..., used] + self.offset[rows, None]
        return self.function(likelihood, mean, moments.var[..., None]) @ weight[used]


def mean_of_target(likelihood: Likelihood, mean: FloatArray, var: FloatArray) -> FloatArray:
    """Mean of a target given the moments of f*."""
    return np.broadcast_to(likelihood.predictive_moments(mean, var).mean, (1, *mean.shape))


def moments_of_target(likelihood: Likelihood, mean: FloatArray, var: FloatArray) -> FloatArray:
    """Mean, squared mean and variance of a target given the moments of f*."""
    if not likelihood.finite_variance:
        raise ValueError(
            "Standard deviations and covariances of new targets are infinite, as at some draws the "
            f"likelihood is {likelihood}: use quantiles, such as return_quantiles=[0.05, 0.95]."
        )
    moments = likelihood.predictive_moments(mean, var)
    values = (moments.mean, moments.mean**2, moments.var)
    return np.stack([np.broadcast_to(value, mean.shape) for value in values])


def moments_of_latent(likelihood: Likelihood, mean: FloatArray, var: FloatArray) -> FloatArray:
    """Mean, squared mean and variance of f* itself."""
    return np.stack([mean, mean**2, np.broadcast_to(var, mean.shape)])
