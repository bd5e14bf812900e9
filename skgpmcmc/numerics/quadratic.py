"""A polynomial of degree two, fitted to few values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from .._typing import FloatArray
from .linalg import ridge_regression

#: Coordinates z are clipped to this size.
_RANGE = 3.0
#: Prior precision of the constant: nearly none, so that the constant is free.
_CONSTANT_PRECISION = 1e-8


@dataclass(frozen=True, eq=False)
class Quadratic:
    """A polynomial of degree two, constant along each coordinate beyond the range of the data.

    Attributes
    ----------
    center, scale : ndarray of shape (p,)
        Coordinates are ``z = (theta - center) / scale``, clipped to [-3, 3], so that nothing is
        extrapolated.
    constant : float
        Value at the center.
    linear : ndarray of shape (p,)
        Coefficients of z.
    curvature : ndarray of shape (p, p)
        Symmetric; the quadratic term is z' curvature z.
    """

    center: FloatArray
    scale: FloatArray
    constant: float
    linear: FloatArray
    curvature: FloatArray

    @classmethod
    def fit(
        cls,
        theta: FloatArray,
        values: FloatArray,
        center: FloatArray,
        scale: FloatArray,
        *,
        noise: FloatArray | float,
        term_sd: float,
    ) -> Self:
        """Regress values (D,) at theta (D, p), whose noise has standard deviations `noise`.

        The coefficients have independent normal priors with mean zero: the standard deviation is
        `term_sd` for linear terms and half of it for quadratic terms. The constant is free.
        """
        p = theta.shape[1]
        z = np.clip((theta - center) / scale, -_RANGE, _RANGE)
        rows, columns = np.triu_indices(p)
        features = np.concatenate([np.ones((len(z), 1)), z, z[:, rows] * z[:, columns]], axis=1)
        sd = np.concatenate([np.full(p, term_sd), np.full(len(rows), 0.5 * term_sd)])
        weights = 1.0 / np.broadcast_to(np.asarray(noise, dtype=float), values.shape)
        precision = np.concatenate([[_CONSTANT_PRECISION], sd**-2])
        coefficients = ridge_regression(features * weights[:, None], weights * values, precision)
        upper = np.zeros((p, p))
        upper[rows, columns] = coefficients[p + 1 :]
        return cls(
            center, scale, float(coefficients[0]), coefficients[1 : p + 1], 0.5 * (upper + upper.T)
        )

    @classmethod
    def flat(cls, center: FloatArray, scale: FloatArray, constant: float = 0.0) -> Self:
        """Return a polynomial that has the same value everywhere."""
        p = len(center)
        return cls(center, scale, constant, np.zeros(p), np.zeros((p, p)))

    def value(self, theta: FloatArray) -> FloatArray:
        """Return values (...) at theta (..., p)."""
        z = np.minimum(np.maximum((theta - self.center) / self.scale, -_RANGE), _RANGE)
        return np.asarray(self.constant + z @ self.linear + ((z @ self.curvature) * z).sum(axis=-1))

    def value_and_gradient(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return values (...) and gradients (..., p) at theta (..., p)."""
        raw = (theta - self.center) / self.scale
        z = np.clip(raw, -_RANGE, _RANGE)
        slope = z @ self.curvature
        value = self.constant + z @ self.linear + (z * slope).sum(axis=-1)
        return value, (self.linear + 2.0 * slope) / self.scale * (z == raw)
