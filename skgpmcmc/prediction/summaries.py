"""What is added up over draws: densities, probabilities, moments, and functions of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from .._typing import FloatArray
from ..likelihoods import Likelihood
from ..model import LatentGP, LatentMoments
from ..numerics.linalg import log_sum
from .strategy import stream_of

#: Pairs of continuations of each f to a new row, where classes have a latent function each.
_N_PAIRS = 2


class Summary(Protocol):
    """What is added up over draws."""

    combine: ClassVar[np.ufunc]

    def of(
        self, theta: FloatArray, moments: LatentMoments, rows: slice, log_weight: FloatArray
    ) -> FloatArray:
        """Weighted sum over the columns of means, with log weights (g,); (..., rows)."""


@dataclass(frozen=True, eq=False)
class LogPredictive:
    """Log of the sum of p(y* | draw) for each of k candidate targets; sums are taken in logs."""

    model: LatentGP
    y_new: FloatArray  # (k, m)
    offset: FloatArray  # (m,)
    combine: ClassVar[np.ufunc] = np.logaddexp

    def of(
        self, theta: FloatArray, moments: LatentMoments, rows: slice, log_weight: FloatArray
    ) -> FloatArray:
        """See `Summary`."""
        likelihood = self.model.likelihood_at(theta).at_new_rows()
        mean = moments.mean + self.offset[rows, None]
        terms = [
            likelihood.log_predictive(y[rows, None], mean, moments.var[:, None]) for y in self.y_new
        ]
        return np.stack([log_sum(term + log_weight, overwrite=True) for term in terms])


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
        mean, sd = moments.mean, np.sqrt(moments.var)[..., None]
        rng = stream_of(theta, self.seed, 1)
        total = np.zeros(mean.shape[:2])
        for _ in range(_N_PAIRS):
            step = sd * rng.standard_normal((len(mean), 1, mean.shape[2]))
            for f in (mean + step, mean - step):
                f -= f.max(axis=0)
                p = np.exp(f, out=f)
                total += (p / p.sum(axis=0)) @ np.exp(log_weight)
        return total / (2 * _N_PAIRS)


@dataclass(frozen=True, eq=False)
class LatentSums:
    """Sums of the mean, the squared mean and the variance of f*."""

    combine: ClassVar[np.ufunc] = np.add

    def of(
        self, theta: FloatArray, moments: LatentMoments, rows: slice, log_weight: FloatArray
    ) -> FloatArray:
        """See `Summary`."""
        mean, var = moments
        weight = np.exp(log_weight)
        return np.stack([mean @ weight, mean**2 @ weight, var * weight.sum()])


#: Values (k, m, g) of functions of f* ~ N(mean, var), mean (m, g) and var (m, 1).
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
        mean = moments.mean + self.offset[rows, None]
        return self.function(likelihood, mean, moments.var[:, None]) @ np.exp(log_weight)


def mean_of_target(likelihood: Likelihood, mean: FloatArray, var: FloatArray) -> FloatArray:
    """Mean of a target given the moments of f*."""
    return np.broadcast_to(likelihood.predictive_moments(mean, var).mean, (1, *mean.shape))


def moments_of_target(likelihood: Likelihood, mean: FloatArray, var: FloatArray) -> FloatArray:
    """Mean, squared mean and variance of a target given the moments of f*."""
    moments = likelihood.predictive_moments(mean, var)
    parts = (moments.mean, moments.mean**2, moments.var)
    return np.stack([np.broadcast_to(part, mean.shape) for part in parts])
