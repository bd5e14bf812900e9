"""Comparison of chains with results that are known by other means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from arviz_stats.base.array import array_stats

from .._typing import FloatArray

#: Quantiles that `exact_answer_test` compares.
PROBABILITIES = (0.05, 0.5, 0.95)


@dataclass(frozen=True, eq=False)
class Reference:
    """Means and quantiles of q posterior quantities that are known by other means than the chains.

    Attributes
    ----------
    mean : ndarray of shape (q,)
        Posterior means.
    quantiles : ndarray of shape (q, 3) or None
        Quantiles at `PROBABILITIES`; None compares only the means.
    mean_error, quantile_error : ndarray or float
        Standard errors of both; 0 if they are exact.
    """

    mean: FloatArray
    quantiles: FloatArray | None = None
    mean_error: FloatArray | float = 0.0
    quantile_error: FloatArray | float = 0.0

    @classmethod
    def from_batches(cls, whole: Reference, batches: Sequence[Reference]) -> Reference:
        """Return `whole` with errors estimated from independent batches of equal size.

        The error of `whole` is that of one batch, divided by the root of the number of batches.

        Parameters
        ----------
        whole : Reference
            Result of all batches together.
        batches : sequence of Reference
            Result of each batch alone.

        Returns
        -------
        Reference
            `whole` with these errors.
        """
        root = np.sqrt(len(batches))
        mean_error = np.std([b.mean for b in batches], axis=0, ddof=1) / root
        if whole.quantiles is None:
            return replace(whole, mean_error=mean_error)
        quantiles = [b.quantiles for b in batches if b.quantiles is not None]
        quantile_error = np.std(quantiles, axis=0, ddof=1) / root
        return replace(whole, mean_error=mean_error, quantile_error=quantile_error)


@dataclass(frozen=True, eq=False)
class ExactAnswerReport:
    """Result of `exact_answer_test`.

    Attributes
    ----------
    z : ndarray of shape (q, 1) or (q, 4)
        Standardized deviation of the mean and of the quantiles at `PROBABILITIES`.
    ess : ndarray of shape (q,)
        Bulk effective sample size of each quantity.
    """

    z: FloatArray
    ess: FloatArray

    @property
    def worst(self) -> float:
        """Largest absolute value in `z`."""
        return float(np.abs(self.z).max())


def exact_answer_test(samples: FloatArray, reference: Reference) -> ExactAnswerReport:
    """Compare means and quantiles of chains with a known answer.

    Parameters
    ----------
    samples : ndarray of shape (n_chains, n_draws, q)
        Draws of the quantities.
    reference : Reference
        The known answer.

    Returns
    -------
    ExactAnswerReport
        Deviations in units of the combined Monte Carlo error of the chains and of the reference.
        Each is approximately standard normal if the chains are correct and long. Quantiles are
        compared by the share of draws below the reference.

    References
    ----------
    Vehtari, Gelman, Simpson, Carpenter & Burkner (2021) for the Monte Carlo errors.
    """
    axes = {"chain_axis": 0, "draw_axis": 1}
    ess = np.asarray(array_stats.ess(samples, method="bulk", **axes))
    error = np.hypot(array_stats.mcse(samples, method="mean", **axes), reference.mean_error)
    columns = [(samples.mean(axis=(0, 1)) - reference.mean) / error]
    if reference.quantiles is not None:
        reference_errors = np.broadcast_to(
            np.asarray(reference.quantile_error), reference.quantiles.shape
        )
        columns += [
            _quantile_z(samples, probability, quantile, reference_error, ess)
            for probability, quantile, reference_error in zip(
                PROBABILITIES, reference.quantiles.T, reference_errors.T, strict=True
            )
        ]
    return ExactAnswerReport(np.stack(columns, axis=1), ess)


def _quantile_z(
    samples: FloatArray,
    probability: float,
    quantile: FloatArray,
    reference_error: FloatArray,
    ess: FloatArray,
) -> FloatArray:
    """Return standardized deviations of the share of draws below the reference quantiles; (q,).

    The share has a known mean and a known variance. The error of a sample quantile, by contrast,
    would have to be estimated from few draws in a tail, and the estimate is often much too small,
    above all where chains repeat values. An error of the reference quantile is converted into the
    share of draws that lie within this error.
    """

    def share_below(values: FloatArray) -> FloatArray:
        return np.asarray((samples < values).mean(axis=(0, 1)))

    below = (samples < quantile).astype(float)
    own_ess = array_stats.ess(below, method="mean", chain_axis=0, draw_axis=1)
    varies = below.any(axis=(0, 1)) & ~below.all(axis=(0, 1))
    variance = probability * (1.0 - probability) / np.where(varies, own_ess, ess)
    covered = share_below(quantile + reference_error) - share_below(quantile - reference_error)
    deviation = probability - share_below(quantile)  # positive if the sample quantile is larger
    return np.asarray(deviation / np.hypot(np.sqrt(variance), 0.5 * covered))
