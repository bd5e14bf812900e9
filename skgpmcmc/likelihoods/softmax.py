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
    """p(y = c | f) = exp(f_c) / sum_k exp(f_k); y is the number of a class, from 0.

    It is not a function of one point: the latent values of n rows are stacked class after class,
    (C n,) or (C n, m), and whatever is said of rows has n of them.

    Parameters
    ----------
    n_classes : int
        C, at least two.

    References
    ----------
    Rasmussen & Williams (2006), section 3.5.
    """

    n_classes: int

    name: ClassVar[str] = "softmax"
    log_concave: ClassVar[bool] = True

    @property
    def targets(self) -> str:  # type: ignore[override]
        """What messages call the legal targets."""
        return f"numbers of classes: integers from 0 to {self.n_classes - 1}"

    @property
    def n_functions(self) -> int:
        """One latent function for each class."""
        return self.n_classes

    def legal(self, y: FloatArray) -> BoolArray:
        """Return where y is the number of a class."""
        return np.isin(y, np.arange(self.n_classes))

    def by_class(self, f: FloatArray) -> FloatArray:
        """Latent values (C n, ...) as (C, n, ...)."""
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
        return np.asarray(parts[_index(y), np.arange(parts.shape[1])] - log_sum(parts, axis=0))

    def derivatives(self, y: FloatArray, f: FloatArray) -> Derivatives:
        """Return derivatives in each latent value alone, in the layout of f of shape (C n,).

        The second ones in two values of a row, p_c (delta - p_c'), are those of the coupled sites.
        """
        p = self.probabilities(f)
        first = -p
        self.by_class(first)[_index(y), np.arange(len(p) // self.n_classes)] += 1.0
        second = -p * (1.0 - p)
        return Derivatives(first, second, second * (1.0 - 2.0 * p))

    def slope_and_precision(self, y: FloatArray, f: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the slopes, and p: the precision D of coupled sites, whatever y is."""
        return self.derivatives(y, f).first, self.probabilities(f)

    def fisher_information(self, f: FloatArray) -> FloatArray:
        """Return p (1 - p): the curvature does not depend on y."""
        p = self.probabilities(f)
        return p * (1.0 - p)

    def sample(self, f: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw the number of a class for each row of f of shape (C n,); (n,)."""
        cumulative = np.cumsum(self.by_class(self.probabilities(f)), axis=0)
        uniform = rng.uniform(size=cumulative.shape[1:])
        return np.minimum((uniform >= cumulative).sum(axis=0), self.n_classes - 1).astype(float)


def _index(y: FloatArray) -> IntArray:
    return np.ravel(y).astype(np.intp)
