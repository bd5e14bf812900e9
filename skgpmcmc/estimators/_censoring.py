"""Targets of a regression that are only known to lie in an interval."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..likelihoods.base import Likelihood
from ..likelihoods.censored import CensoredGaussian
from ..likelihoods.gaussian import Gaussian
from ._data import check_numbers


class Censoring(NamedTuple):
    """Targets and the intervals of the censored ones, which hold them; each (n,)."""

    target: np.ndarray  # in the middle of a finite interval, else as given
    low: np.ndarray  # infinity where a target is exact
    high: np.ndarray  # minus infinity where a target is exact

    @classmethod
    def of(cls, y: np.ndarray, censored_to: Any) -> Censoring:
        """Return targets and intervals of which y is one end, and `censored_to` the other.

        Raises
        ------
        ValueError
            If `censored_to` does not have one number for each row.
        """
        other = np.full(len(y), np.nan)
        if censored_to is not None:
            other = check_numbers("censored_to", censored_to)
        if other.shape != y.shape:
            raise ValueError(
                f"censored_to must have one number per row of X, shape {y.shape}; got shape "
                f"{other.shape}. Give inf or -inf for targets with one limit, and NaN for exact "
                "ones."
            )
        censored = ~np.isnan(other) & (other != y)
        low = np.where(censored, np.minimum(y, other), np.inf)
        high = np.where(censored, np.maximum(y, other), -np.inf)
        middle = np.where(np.isfinite(other), 0.5 * y + 0.5 * other, y)
        return cls(middle, low, high)

    @property
    def is_censored(self) -> np.ndarray:
        """Return which targets are censored; (n,)."""
        return self.low <= self.high

    def rows(self, rows: np.ndarray | slice) -> Censoring:
        """Return some of the rows."""
        return Censoring(*(part[rows] for part in self))

    def censor(self, noise: Gaussian) -> Gaussian:
        """Return noise whose targets have these intervals; unchanged if none is censored."""
        if not self.is_censored.any():
            return noise
        own = noise.noise_scale, noise.fixed, noise.alpha, noise.row_variance
        return CensoredGaussian(*own, low=self.low, high=self.high)

    def censor_new_rows(self, likelihood: Likelihood, rows: slice) -> Likelihood:
        """Return the likelihood of some new rows from that of the training rows."""
        noise = likelihood.at_new_rows()
        assert isinstance(noise, Gaussian)
        return self.rows(rows).censor(noise)
