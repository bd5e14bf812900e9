"""Posterior predictive averages over several models, each with its own draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp

from .._typing import FloatArray
from ..model.joint import LatentGP
from .predictor import ITSELF, Predictor, find_mixture_quantiles


@dataclass(frozen=True, eq=False)
class PredictorMixture:
    """Averages of the predictions of models with the same likelihood and the same rows.

    Its methods have the arguments and the results of those of `Predictor`.

    Attributes
    ----------
    members : sequence of K Predictor
    weights : ndarray of shape (K,)
        Probabilities of the models, with sum 1.
    """

    members: Sequence[Predictor]
    weights: FloatArray

    @property
    def model(self) -> LatentGP:
        """A model with the likelihood of all models, but only with its own covariance."""
        return self.members[0].model

    def log_predictive(self, *at: Any) -> FloatArray:
        """Log of the average of p(y*), for several candidate targets at once; (k, m)."""
        return self._log_average([own.log_predictive(*at) for own in self.members])

    def log_class_probabilities(self, *at: Any) -> FloatArray:
        """Return logs of the predictive probabilities of the classes -1.0 and +1.0; (2, m)."""
        return self._log_average([own.log_class_probabilities(*at) for own in self.members])

    def class_probabilities(self, *at: Any) -> FloatArray:
        """Posterior predictive probabilities of the classes of a softmax; (C, m)."""
        return self._average([own.class_probabilities(*at) for own in self.members])

    def expectation(self, *at: Any) -> FloatArray:
        """Posterior mean of functions of the moments of f* and the likelihood; (k, m)."""
        return self._average([own.expectation(*at) for own in self.members])

    def target_mean(self, *at: Any) -> FloatArray:
        """Posterior predictive mean of targets that are numbers; (m,)."""
        return self._average([own.target_mean(*at) for own in self.members])

    def target_moments(self, *at: Any) -> tuple[FloatArray, FloatArray]:
        """Posterior predictive mean and variance of targets that are numbers, each (m,)."""
        return self._total_variance([own.target_moments(*at) for own in self.members])

    def latent_moments(self, *at: Any) -> tuple[FloatArray, FloatArray]:
        """Posterior mean and variance of f*; each (m,), or (C, m) for C latent functions."""
        return self._total_variance([own.latent_moments(*at) for own in self.members])

    def latent_covariance(self, X_new: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Posterior mean and covariance of f* at all rows, (..., m) and (..., m, m)."""
        return self._total_covariance([own.latent_covariance(X_new) for own in self.members])

    def target_covariance(self, X_new: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Posterior predictive mean and covariance of targets whose mean is f; (m,) and (m, m)."""
        return self._total_covariance([own.target_covariance(X_new) for own in self.members])

    def target_quantiles(self, *at: Any) -> FloatArray:
        """Posterior predictive quantiles of targets that are numbers; (k, m)."""
        return find_mixture_quantiles(self.members, self.weights, *at)

    def latent_quantiles(self, probabilities: Sequence[float], X_new: FloatArray) -> FloatArray:
        """Posterior quantiles of f*; (k, m)."""
        members = self.members, self.weights
        return find_mixture_quantiles(*members, probabilities, X_new, law=ITSELF)

    def sample_latent(
        self, X_new: FloatArray, n_draws: int, rng: np.random.Generator
    ) -> FloatArray:
        """Joint draws of f* at all rows of X_new; (n_draws, m) or (n_draws, C, m)."""
        shares = zip(self.members, self._allocate(n_draws, rng), strict=True)
        parts = [own.sample_latent(X_new, n, rng) for own, n in shares if n]
        return rng.permutation(np.concatenate(parts))

    def sample_targets(
        self, X_new: FloatArray, n_draws: int, rng: np.random.Generator, *at: Any
    ) -> FloatArray:
        """Joint draws of targets at all rows of X_new, which share model, theta and f*."""
        shares = zip(self.members, self._allocate(n_draws, rng), strict=True)
        parts = [own.sample_targets(X_new, n, rng, *at) for own, n in shares if n]
        return rng.permutation(np.concatenate(parts))

    def _allocate(self, n_draws: int, rng: np.random.Generator) -> list[int]:
        """Draw the number of draws of each member, near its share of them (systematic)."""
        places = (np.arange(n_draws) + rng.uniform()) / n_draws
        ends = np.append(np.cumsum(self.weights)[:-1], 1.0)
        counts = np.bincount(np.searchsorted(ends, places), minlength=len(ends))
        return [int(count) for count in counts]

    def _average(self, found: Sequence[FloatArray]) -> FloatArray:
        return np.tensordot(self.weights, np.stack(found), axes=1)

    def _log_average(self, found: Sequence[FloatArray]) -> FloatArray:
        weights = self.weights[:, None, None]
        return np.asarray(logsumexp(np.stack(found), axis=0, b=weights))

    def _total_variance(
        self, found: Sequence[tuple[FloatArray, FloatArray]]
    ) -> tuple[FloatArray, FloatArray]:
        """Return the mean, and the mean of the variances plus the variance of the means."""
        mean = self._average([own for own, _ in found])
        variances = [var + (own - mean) ** 2 for own, var in found]
        return mean, self._average(variances)

    def _total_covariance(
        self, found: Sequence[tuple[FloatArray, FloatArray]]
    ) -> tuple[FloatArray, FloatArray]:
        """Return the mean, and the mean of the covariances plus the covariance of the means."""
        mean = self._average([own for own, _ in found])
        away = [own - mean for own, _ in found]
        covariances = [
            covariance + shift[..., :, None] * shift[..., None, :]
            for shift, (_, covariance) in zip(away, found, strict=True)
        ]
        return mean, self._average(covariances)
