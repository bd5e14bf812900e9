"""A quadratic function of theta, by regression on noisy values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy import linalg

from .._typing import FloatArray

__all__ = ["Quadratic"]


@dataclass(frozen=True, eq=False)
class Quadratic:
    """A polynomial of degree two that stays tame.

    Attributes
    ----------
    center, scale : ndarray of shape (p,)
        Coordinates are ``z = (theta - center) / scale``, clipped to [-3, 3], so that nothing is
        extrapolated.
    constant : float
    linear : ndarray of shape (p,)
        Of z.
    curvature : ndarray of shape (p, p)
        Symmetric; its term is z' curvature z.
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

        `term_sd` is that of the linear terms before seeing data, half of it that of the others;
        the constant is free.
        """
        p = theta.shape[1]
        z = np.clip((theta - center) / scale, -3.0, 3.0)
        rows, columns = np.triu_indices(p)
        features = np.concatenate([np.ones((len(z), 1)), z, z[:, rows] * z[:, columns]], axis=1)
        sd = np.concatenate([np.full(p, term_sd), np.full(len(rows), 0.5 * term_sd)])
        weights = np.broadcast_to(np.asarray(noise, dtype=float) ** -2, values.shape)
        gram = (features.T * weights) @ features + np.diag(np.concatenate([[1e-8], sd**-2]))
        coefficients = linalg.solve(gram, features.T @ (weights * values), assume_a="pos")
        upper = np.zeros((p, p))
        upper[rows, columns] = coefficients[p + 1 :]
        return cls(
            center,
            scale,
            float(coefficients[0]),
            coefficients[1 : p + 1],
            0.5 * (upper + upper.T),
        )

    @classmethod
    def flat(cls, center: FloatArray, scale: FloatArray, constant: float = 0.0) -> Self:
        """Return the same value everywhere."""
        p = len(center)
        return cls(center, scale, constant, np.zeros(p), np.zeros((p, p)))

    def value_and_gradient(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return values (...) and gradients (..., p) at theta (..., p)."""
        raw = (theta - self.center) / self.scale
        z = np.clip(raw, -3.0, 3.0)
        bent = z @ self.curvature
        value = self.constant + z @ self.linear + (z * bent).sum(axis=-1)
        return value, (self.linear + 2.0 * bent) / self.scale * (z == raw)
