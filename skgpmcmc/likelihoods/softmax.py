"""Several classes, one latent function for each: the softmax."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .._typing import BoolArray, FloatArray, IntArray
from ..numerics.linalg import log_sum
from .base import Derivatives, Likelihood


@dataclass(frozen=True)
class Softmax(Likelihood):
    """p(y = c | f) = exp(f_c) / sum_k exp(f_k), where y is a class index, starting from 0.

    Each target depends on C latent values. The latent values of n rows are stacked class after
    class, in arrays of shape (C n,) or (C n, m); arrays with one entry per row have n entries.

    Parameters
    ----------
    n_classes : int
        Number of classes C, at least two.

    References
    ----------
    Rasmussen & Williams (2006), section 3.5.
    """

    n_classes: int

    name: ClassVar[str] = "softmax"
    log_concave: ClassVar[bool] = True

    @property
    def targets(self) -> str:  # type: ignore[override]
        """Description of the valid targets in messages."""
        return f"numbers of classes: integers from 0 to {self.n_classes - 1}"

    @property
    def n_functions(self) -> int:  # type: ignore[override]
        """Number of latent functions: one for each class."""
        return self.n_classes

    def legal(self, y: FloatArray) -> BoolArray:
        """Return where y is a class index."""
        return np.isin(y, np.arange(self.n_classes))

    def by_class(self, f: FloatArray) -> FloatArray:
        """Reshape latent values from (C n, ...) to (C, n, ...)."""
        return f.reshape(self.n_classes, -1, *f.shape[1:])

    def probabilities(self, f: FloatArray) -> FloatArray:
        """Return p(c | f) in the layout of f."""
        parts = self.by_class(f)
        p = np.exp(parts - parts.max(axis=0))
        p /= p.sum(axis=0)
        return p.reshape(f.shape)

    def log_prob(self, y: FloatArray, f: FloatArray) -> FloatArray:
        """Log p(y | f) of every row, for y of shape (n,) or (n, 1); (n,) or (n, m)."""
        parts = self.by_class(f)
        return np.asarray(
            parts[_class_indices(y), np.arange(parts.shape[1])] - log_sum(parts, axis=0)
        )

    def derivatives(self, y: FloatArray, f: FloatArray) -> Derivatives:
        """Return derivatives in each latent value, in the layout of f of shape (C n,).

        The mixed second derivatives, of log p(y | f) in two latent values of a row, are p_c p_c';
        `ClasswiseApproximation` takes them into account.
        """
        p = self.probabilities(f)
        first = -p
        self.by_class(first)[_class_indices(y), np.arange(len(p) // self.n_classes)] += 1.0
        second = -p * (1.0 - p)
        return Derivatives(first, second, second * (1.0 - 2.0 * p))

    def slope_and_precision(self, y: FloatArray, f: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the first derivatives, and p, the precision D of `ClasswiseApproximation`."""
        return self.derivatives(y, f).first, self.probabilities(f)

    def fisher_information(self, f: FloatArray) -> FloatArray:
        """Return p (1 - p): the curvature does not depend on y."""
        p = self.probabilities(f)
        return p * (1.0 - p)

    def sample(self, f: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw a class index for each row of f of shape (C n,); (n,)."""
        cumulative = np.cumsum(self.by_class(self.probabilities(f)), axis=0)
        uniform = rng.uniform(size=cumulative.shape[1:])
        return np.minimum((uniform >= cumulative).sum(axis=0), self.n_classes - 1).astype(float)


def _class_indices(y: FloatArray) -> IntArray:
    return np.ravel(y).astype(np.intp)
