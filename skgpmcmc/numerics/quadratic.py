"""A polynomial of degree two, fitted to few values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.optimize import minimize

from .._typing import FloatArray
from .linalg import ridge_regression

#: Coordinates z are clipped to this size.
_RANGE = 3.0
#: Range of the log of a variance over that of the values.
_LOG_RATIOS = (-15.0, 5.0)
#: Variance of values below which they count as constant.
_LEAST_VARIANCE = 1e-12


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
        noise: FloatArray | float = 0.0,
        shares: FloatArray | float = 1.0,
    ) -> Self:
        """Regress values (D,) at theta (D, p), with a misfit and coefficients of unknown size.

        The coefficients have independent normal priors with mean zero; the standard deviation of
        quadratic terms is half of that of linear terms. The constant is free. The variance of a
        value is the square of its `noise`, plus that of the misfit of a quadratic, divided by its
        share. The sizes of the misfit and of the coefficients maximize the evidence.
        """
        p = theta.shape[1]
        z = np.clip((theta - center) / scale, -_RANGE, _RANGE)
        rows, columns = np.triu_indices(p)
        terms = np.concatenate([z, 0.5 * z[:, rows] * z[:, columns]], axis=1)
        noise_variance = np.broadcast_to(np.square(noise), values.shape)
        misfit, term_variance = _most_likely_variances(terms, values, noise_variance, shares)
        weights = shares / (noise_variance + misfit)
        root = np.sqrt(weights)
        average = weights / weights.sum()
        mean_terms = average @ terms
        mean_value = average @ values
        coefficients = ridge_regression(
            root[:, None] * (terms - mean_terms),
            root * (values - mean_value),
            np.full(terms.shape[1], 1.0 / term_variance),
        )
        constant = float(mean_value - mean_terms @ coefficients)
        upper = np.zeros((p, p))
        upper[rows, columns] = 0.5 * coefficients[p:]
        return cls(center, scale, constant, coefficients[:p], 0.5 * (upper + upper.T))

    @classmethod
    def flat(cls, center: FloatArray, scale: FloatArray) -> Self:
        """Return the polynomial that is zero everywhere."""
        p = len(center)
        return cls(center, scale, 0.0, np.zeros(p), np.zeros((p, p)))

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


def _most_likely_variances(
    terms: FloatArray, values: FloatArray, noise_variance: FloatArray, shares: FloatArray | float
) -> FloatArray:
    """Return the variances of the misfit and of a coefficient that maximize the evidence.

    They are sought between fixed multiples of the variance of the values.
    """
    gram = terms @ terms.T
    total = max(float(values.var()), _LEAST_VARIANCE)

    def negative_log_evidence(log_ratios: FloatArray) -> float:
        misfit, term_variance = total * np.exp(log_ratios)
        diagonal = (noise_variance + misfit) / shares
        root = np.linalg.cholesky(term_variance * gram + np.diag(diagonal))
        both = np.linalg.solve(root, np.stack([values, np.ones_like(values)], axis=1))
        squares = both.T @ both
        fit = squares[0, 0] - squares[0, 1] ** 2 / squares[1, 1]  # the constant is free
        return float(0.5 * (fit + np.log(squares[1, 1])) + np.log(root.diagonal()).sum())

    bounds = [_LOG_RATIOS, _LOG_RATIOS]
    found = minimize(negative_log_evidence, np.log([0.1, 0.1]), bounds=bounds, method="L-BFGS-B")
    return np.asarray(total * np.exp(found.x))
