"""The covariance of linear functions."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import Hyperparameter, Kernel

from .._typing import FloatArray


class Linear(Kernel):  # type: ignore[misc]  # scikit-learn has no types
    """Linear functions without intercept around a center.

    ``k(x, x') = slope_variance * (x - center) . (x' - center) / scale^2`` is the covariance of a
    linear function whose slopes per scale are independent, with mean zero and this variance. At the
    center the function is zero: add a `ConstantKernel` for an intercept. In contrast to
    `DotProduct` the variance depends neither on the origin nor on the unit of the inputs.

    Parameters
    ----------
    slope_variance : float, default=1.0
        Variance of a slope per scale, which is the variance of the function at a row that is one
        scale away from the center.
    slope_variance_bounds : pair of floats or "fixed", default=(1e-5, 1e5)
        With "fixed" the variance keeps its value. The estimators of this package use priors in
        place of other bounds.
    center : array-like of shape (n_features,), float or None, default=None
        In units of X. None is zero; the estimators of this package put the mean of the training
        inputs in its place.
    scale : array-like of shape (n_features,), float or None, default=None
        In units of X. None is one; the estimators of this package put the root mean square distance
        of the training inputs from the center in its place.

    References
    ----------
    Rasmussen & Williams (2006), Gaussian Processes for Machine Learning, section 4.2.2.

    Examples
    --------
    >>> from skgpmcmc.kernels import Linear
    >>> Linear(slope_variance=2.0, center=[1.0, 0.0])([[2.0, 3.0]])
    array([[20.]])
    >>> Linear(slope_variance=2.0, center=[1.0, 0.0], scale=2.0)([[2.0, 3.0]])
    array([[5.]])
    """

    def __init__(
        self,
        slope_variance: float = 1.0,
        slope_variance_bounds: tuple[float, float] | str = (1e-5, 1e5),
        center: Any = None,
        scale: Any = None,
    ) -> None:
        self.slope_variance = slope_variance
        self.slope_variance_bounds = slope_variance_bounds
        self.center = center
        self.scale = scale

    @property
    def hyperparameter_slope_variance(self) -> Hyperparameter:
        """The hyper-parameter, as scikit-learn describes it."""
        return Hyperparameter("slope_variance", "numeric", self.slope_variance_bounds)

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        """Return the kernel of two sets of rows, and on request its gradient.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows.
        Y : array-like of shape (m, d), default=None
            Other rows; None is X.
        eval_gradient : bool, default=False
            Also return the derivative with respect to the natural log of the variance. Only if Y
            is None.

        Returns
        -------
        K : ndarray of shape (n, m)
            Values.
        K_gradient : ndarray of shape (n, n, 1), or (n, n, 0) if the variance is fixed
            Only with `eval_gradient`.
        """
        if Y is not None and eval_gradient:
            raise ValueError("eval_gradient=True is for one set of rows: leave Y out.")
        first = self.standardize(X)
        second = first if Y is None else self.standardize(Y)
        K = self.slope_variance * (first @ second.T)
        if not eval_gradient:
            return K
        if self.hyperparameter_slope_variance.fixed:
            return K, np.empty((*K.shape, 0))
        return K, K[:, :, None]

    def standardize(self, X: Any) -> FloatArray:
        """Return the distances of rows (n, d) from the center, in scales."""
        rows = np.atleast_2d(np.asarray(X, dtype=float))
        if self.center is not None:
            rows = rows - np.asarray(self.center, dtype=float)
        return rows if self.scale is None else rows / np.asarray(self.scale, dtype=float)

    def diag(self, X: Any) -> FloatArray:
        """Return the kernel of every row with itself, without the others; (n,)."""
        rows = self.standardize(X)
        return np.asarray(self.slope_variance * np.einsum("ij,ij->i", rows, rows))

    def is_stationary(self) -> bool:
        """Whether only the difference of two rows matters, which is not so."""
        return False

    def __repr__(self) -> str:
        return f"{type(self).__name__}(slope_variance={self.slope_variance:.3g})"
