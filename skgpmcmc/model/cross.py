"""The covariance of two sets of inputs, and its gradient by contraction."""

from __future__ import annotations

from functools import singledispatch

import numpy as np

from .._typing import FloatArray
from .covariance import (
    CenteredInputs,
    ConstantTimesStationary,
    Covariance,
    CrossCovariance,
    contract_distances,
    correlation,
    correlation_slope,
    squared_distances,
)


@singledispatch
def cross_matrix(covariance: Covariance, theta: FloatArray, new: CrossCovariance) -> FloatArray:
    """Return ``covariance.cross(theta, new)`` by the fastest method; (n, m), Fortran order.

    Rounding errors of an entry may depend on all inputs.
    """
    return covariance.cross(theta, new)


@cross_matrix.register(ConstantTimesStationary)
def _stationary_matrix(
    covariance: ConstantTimesStationary, theta: FloatArray, new: CrossCovariance
) -> FloatArray:
    """Return the matrix from distances through one product, if these change with theta."""
    if not covariance.anisotropic:
        return covariance.cross(theta, new)
    constant, length_scale = covariance.values(theta)
    Z = covariance.X / length_scale
    D = squared_distances(Z, new.X_new / length_scale, exact=covariance.nu == 0.5).T
    return correlation(covariance.nu, D, constant=constant, out=D)


@singledispatch
def contract_cross(
    covariance: Covariance, theta: FloatArray, new: CrossCovariance, A: FloatArray, K: FloatArray
) -> FloatArray:
    """``sum_ij A_ij dK_ij / dtheta_r`` for K = ``covariance.cross(theta, new)``; shape (p,).

    Parameters
    ----------
    covariance : Covariance
        Covariance of n inputs.
    theta : ndarray of shape (p,)
        Hyper-parameters, natural logs.
    new : CrossCovariance
        The m other inputs.
    A, K : ndarray of shape (n, m)
        The weights, and the covariance.
    """
    n = len(covariance.X)
    total = np.zeros(len(theta))
    # Kernels have gradients for one set of inputs only: the two sets are stacked, block by block.
    for start in range(0, len(new.X_new), n):
        block = slice(start, start + n)
        X = np.concatenate([covariance.X, new.X_new[block]])
        stacked = np.zeros((len(X), len(X)), order="F")
        stacked[:n, n:] = A[:, block]
        total += Covariance(covariance.kernel, X)._contract(theta, stacked, stacked)
    return total


@contract_cross.register(ConstantTimesStationary)
def _contract_stationary(
    covariance: ConstantTimesStationary,
    theta: FloatArray,
    new: CrossCovariance,
    A: FloatArray,
    K: FloatArray,
) -> FloatArray:
    """Return the contraction of K = c k(D); dK/dlog tau_r = c g (x_r - x'_r)^2 / tau_r^2."""
    gradient = np.empty(len(theta))
    constant, length_scale = covariance.values(theta)
    weighted = A * K
    gradient[covariance.of_constant] = weighted.sum()
    if len(gradient[covariance.of_length_scale]):
        Z = covariance.X / length_scale
        Z_new = new.X_new / length_scale
        if covariance.nu < np.inf:  # for RBF the slope c g is K
            D = squared_distances(Z, Z_new, exact=covariance.nu == 0.5).T
            weighted = A * (constant * correlation_slope(covariance.nu, D))
        middle = Z.mean(axis=0)
        centered = CenteredInputs.of(Z, middle), CenteredInputs.of(Z_new, middle)
        slopes = contract_distances(*centered, weighted)
        gradient[covariance.of_length_scale] = slopes if covariance.anisotropic else slopes.sum()
    return gradient
