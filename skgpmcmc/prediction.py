"""Posterior predictive averages over draws of (theta, f), with bounded memory.

Draws with equal theta share one factorization. Groups of draws go to the workers in tasks of fixed
size, and new rows are handled in batches, so that a prediction depends neither on the number of
workers nor on which other rows are asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import joblib
import numpy as np
from threadpoolctl import threadpool_limits

from ._typing import FloatArray, IntArray
from .approximations import GaussianApproximation
from .gaussian import GaussianPrior, LatentMoments
from .likelihoods import Likelihood
from .model import LatentGP
from .transitions import Sites

__all__ = ["Predictor", "spread_subset"]

#: Distinct thetas per task of a worker.
_GROUPS_PER_TASK = 8
#: New rows that are handled at once.
_ROW_BATCH = 1000


def spread_subset(n_total: int, n_wanted: int | None) -> IntArray:
    """Return the indices of `n_wanted` of `n_total` draws, evenly spread; all of them for None."""
    if n_wanted is None or n_wanted >= n_total:
        return np.arange(n_total)
    return ((np.arange(n_wanted) + 0.5) * n_total / n_wanted).astype(np.intp)


@dataclass(frozen=True, eq=False)
class Predictor:
    """Averages over S posterior draws.

    Attributes
    ----------
    model : LatentGP
    theta : ndarray of shape (S, p)
        Natural logs.
    f : ndarray of shape (S, n)
    sites : Sites or None
        Each (S, n), a function of theta: where given, f* is integrated under the Gaussian q(f)
        that they make instead of conditioned on f.
    """

    model: LatentGP
    theta: FloatArray
    f: FloatArray
    sites: Sites | None

    def log_predictive(
        self, y_new: Sequence[FloatArray], X_new: FloatArray, n_jobs: int | None = None
    ) -> FloatArray:
        """Log of the average of p(y* | draw), for several candidate targets at once.

        Parameters
        ----------
        y_new : sequence of k ndarrays of shape (m,)
            Encoded targets.
        X_new : ndarray of shape (m, d)
            New inputs.
        n_jobs : int, optional
            Workers of joblib.

        Returns
        -------
        ndarray of shape (k, m)
            Natural logs.
        """
        summary = _LogPredictive(self.model.likelihood, np.stack(y_new))
        return self._sum_over_draws(summary, X_new, n_jobs) - np.log(len(self.theta))

    def latent_moments(
        self, X_new: FloatArray, n_jobs: int | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Posterior mean and variance of f*, each (m,), by the law of total variance."""
        sums = self._sum_over_draws(_LatentSums(), X_new, n_jobs)
        mean, square, within = sums / len(self.theta)
        return mean, np.maximum(square - mean**2, 0.0) + within

    def sample_latent(
        self, X_new: FloatArray, n_draws: int, rng: np.random.Generator
    ) -> FloatArray:
        """Joint draws of f* at all rows of X_new; (n_draws, m)."""
        n_total = len(self.theta)
        # Every posterior draw is used before any is used again.
        repeats = -(-n_draws // n_total)
        chosen = np.concatenate([rng.permutation(n_total) for _ in range(repeats)])[:n_draws]
        noise = rng.standard_normal((n_draws, len(X_new)))
        out = np.empty((n_draws, len(X_new)))
        with threadpool_limits(1):
            for rows in _equal_rows(self.theta[chosen]):
                mean, covariance = self.group(chosen[rows]).jointly(X_new)
                out[rows] = mean.T + noise[rows] @ _covariance_root(covariance).T
        return out

    def _sum_over_draws(
        self, summary: _Summary, X_new: FloatArray, n_jobs: int | None
    ) -> FloatArray:
        groups = _equal_rows(self.theta)
        tasks = [groups[i : i + _GROUPS_PER_TASK] for i in range(0, len(groups), _GROUPS_PER_TASK)]
        with threadpool_limits(1):  # around the workers' own limits, in case these are threads
            parts = joblib.Parallel(n_jobs=n_jobs)(
                joblib.delayed(_summarize)(self._subset(np.concatenate(task)), summary, X_new)
                for task in tasks
            )
        return np.asarray(summary.combine.reduce(list(parts), axis=0))

    def _subset(self, draws: IntArray) -> Predictor:
        sites = None if self.sites is None else Sites(*(part[draws] for part in self.sites))
        return Predictor(self.model, self.theta[draws], self.f[draws], sites)

    def group(self, draws: IntArray) -> _Group:
        """Return draws that share theta, ready to condition on."""
        prior = self.model.prior_at(self.theta[draws[0]])
        if self.sites is None:
            return _Group(prior, self.f[draws].T, None, 1)
        weights, precision = self.sites
        q = GaussianApproximation(prior, weights[draws[0]], precision[draws[0]])
        return _Group(prior, None, q, len(draws))


@dataclass(frozen=True, eq=False)
class _Group:
    """Draws that share theta: given f of shape (n, g), or `weight` times the same q."""

    prior: GaussianPrior
    f: FloatArray | None
    q: GaussianApproximation | None
    weight: int

    def moments(self, X_new: FloatArray) -> LatentMoments:
        if self.q is not None:
            return self.q.predict(X_new)
        assert self.f is not None
        return self.prior.condition(self.f, X_new)

    def jointly(self, X_new: FloatArray) -> tuple[FloatArray, FloatArray]:
        if self.q is not None:
            return self.q.predict_jointly(X_new)
        assert self.f is not None
        return self.prior.condition_jointly(self.f, X_new)


def _equal_rows(theta: FloatArray) -> list[IntArray]:
    """Positions of equal rows, in the order of first appearance."""
    groups: dict[bytes, list[int]] = {}
    for position, row in enumerate(theta):
        groups.setdefault(row.tobytes(), []).append(position)
    return [np.array(positions, dtype=np.intp) for positions in groups.values()]


def _covariance_root(covariance: FloatArray) -> FloatArray:
    """R with R R' = covariance, which is singular where new rows coincide with training rows."""
    eigenvalues, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors * np.sqrt(np.maximum(eigenvalues, 0.0)))


def _summarize(predictor: Predictor, summary: _Summary, X_new: FloatArray) -> FloatArray:
    """Combine a summary over all draws of a predictor; (k, m)."""
    batches = [slice(i, i + _ROW_BATCH) for i in range(0, len(X_new), _ROW_BATCH)]
    totals: list[FloatArray] = []
    with threadpool_limits(1):
        for draws in _equal_rows(predictor.theta):
            group = predictor.group(draws)  # its matrices go with it at the end of the loop
            parts = [summary.of(group.moments(X_new[rows]), rows, group.weight) for rows in batches]
            value = np.concatenate(parts, axis=1)
            totals = [summary.combine(totals[0], value) if totals else value]
    return totals[0]


class _Summary(Protocol):
    """What is added up over draws."""

    combine: ClassVar[np.ufunc]

    def of(self, moments: LatentMoments, rows: slice, weight: int) -> FloatArray:
        """Sum over the draws of a group, each counted `weight` times; (k, rows)."""


@dataclass(frozen=True, eq=False)
class _LogPredictive:
    """Log of the sum of p(y* | draw) for each of k candidate targets; sums are taken in logs."""

    likelihood: Likelihood
    y_new: FloatArray  # (k, m)
    combine: ClassVar[np.ufunc] = np.logaddexp

    def of(self, moments: LatentMoments, rows: slice, weight: int) -> FloatArray:
        terms = [
            self.likelihood.log_predictive(y[rows, None], moments.mean, moments.var[:, None])
            for y in self.y_new
        ]
        return np.logaddexp.reduce(np.stack(terms), axis=2) + np.log(weight)


@dataclass(frozen=True, eq=False)
class _LatentSums:
    """Sums of the mean, the squared mean and the variance of f*."""

    combine: ClassVar[np.ufunc] = np.add

    def of(self, moments: LatentMoments, rows: slice, weight: int) -> FloatArray:
        mean, var = moments
        return weight * np.stack([mean.sum(1), (mean**2).sum(1), var * mean.shape[1]])
