"""Transitions on (theta, f) whose scale warm-up may tune."""

from __future__ import annotations

from abc import abstractmethod
from typing import Self

import numpy as np

from .._typing import FloatArray
from .base import S, Transition


class Tunable(Transition[S]):
    """A transition with a scale, and perhaps with a shape, of its steps.

    Attributes
    ----------
    log_scale : float
        Log of the scale.
    target_acceptance : float or None
        Acceptance rate to which the scale is tuned; None for a move that needs no tuning.
    """

    log_scale: float
    target_acceptance: float | None

    @abstractmethod
    def with_log_scale(self, log_scale: float) -> Self:
        """Return the same transition with another scale."""

    def with_covariance(self, covariance: FloatArray) -> Self:
        """Return it with steps of theta in the shape of a covariance (p, p); here, as it is."""
        return self


def root_of(covariance: FloatArray) -> FloatArray:
    """Lower factor of a small covariance; not counted among the O(n^3) operations."""
    return np.asarray(np.linalg.cholesky(covariance), dtype=float)
