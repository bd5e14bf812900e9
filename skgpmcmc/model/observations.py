"""What was observed: targets, their likelihood, and what goes with each row."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .._typing import FloatArray
from ..likelihoods import Derivatives, Likelihood, ParameterDerivatives, TiltedMoments

__all__ = ["Observations"]


@dataclass(frozen=True, eq=False)
class Observations:
    """The function f -> log p(y | f) of n rows, at given parameters of the likelihood.

    Row i contributes weight_i log p(y_i | f_i + offset_i).

    Attributes
    ----------
    likelihood : Likelihood
        With its parameters at their values.
    y : ndarray of shape (n,)
        Targets as the likelihood encodes them.
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
        """Return derivatives in f of shape (n,), row by row."""
        parts = self.likelihood.derivatives(self.y, self._shifted(f))
        return Derivatives(*(self._weighted(part) for part in parts))

    def fisher_information(self, f: FloatArray) -> FloatArray:
        """Mean over y of minus the second derivative, for f of shape (n,)."""
        return self._weighted(self.likelihood.fisher_information(self._shifted(f)))

    def tilted_moments(self, mean: FloatArray, var: FloatArray) -> TiltedMoments:
        """Log normalizers of p(y | f)^weight N(f; mean, var) and their derivatives; each (n,)."""
        mean = self._shifted(mean)
        if self.weight is None:
            return self.likelihood.tilted_moments(self.y, mean, var)
        return self.likelihood.weighted_tilted_moments(self.y, self.weight, mean, var)

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
