"""The latent function at several new rows jointly: its posterior covariance, and draws."""

from __future__ import annotations

import numpy as np

from .._typing import FloatArray
from ..model.joint import LatentGP
from ..parallel.threads import one_thread
from .draws import WeightedDraws
from .groups import group_equal_rows


def latent_covariance(draws: WeightedDraws, X_new: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and covariance of f* by the law of total covariance.

    The covariance is the mean of the covariances given the draws, plus the covariance of the means.
    Means are taken relative to one of them, so that nothing cancels.

    Parameters
    ----------
    draws : WeightedDraws
        Draws that the moments are averages over.
    X_new : ndarray of shape (m, d)
        New rows.

    Returns
    -------
    mean : ndarray of shape (m,)
        Or (C, m), for C latent functions.
    covariance : ndarray of shape (m, m)
        Or (C, m, m).
    """
    shape = draws.model.latent_shape(len(X_new))
    first = np.zeros(shape)
    within = np.zeros((*shape, len(X_new)))
    between = np.zeros_like(within)
    origin = None
    for group in draws.groups():
        for part in draws.parts(group):
            means, covariance = part.conditional.predict_jointly(X_new)
            weight = np.exp(part.log_weight) / draws.total
            origin = means.mean(axis=-1) if origin is None else origin
            away = means - origin[..., None]
            first += away @ weight
            between += (away * weight) @ np.swapaxes(away, -1, -2)
            within += weight.sum() * covariance
    covariance = within + between - first[..., :, None] * first[..., None, :]
    covariance = 0.5 * (covariance + np.swapaxes(covariance, -1, -2))  # to the last bit
    return first + (0.0 if origin is None else origin), covariance


def compute_transposed_root(covariance: FloatArray) -> FloatArray:
    """Return R' with R R' = covariance (..., m, m), singular where new rows are training rows."""
    eigenvalues, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(eigenvalues, 0.0))[..., None, :]
    return np.swapaxes(root, -1, -2)


def draw_latent_jointly(
    model: LatentGP, theta: FloatArray, f: FloatArray, X_new: FloatArray, seed: int
) -> FloatArray:
    """Draw f* at all rows of X_new jointly, one for each draw of theta (S, p) and f (S, n).

    Returns
    -------
    ndarray of shape (S, C, m)
        C is the number of latent functions.
    """
    shape = (model.likelihood.n_functions, len(X_new))
    noise = np.random.default_rng(seed).standard_normal((len(theta), *shape))
    out = np.empty_like(noise)
    with one_thread():
        for members in group_equal_rows(theta):
            given = model.prior_at(theta[members[0]]).condition_on(np.asfortranarray(f[members].T))
            means, covariances = given.predict_jointly(X_new)
            steps = np.moveaxis(noise[members], 0, -2) @ compute_transposed_root(covariances)
            by_function = np.swapaxes(means.reshape(*shape, -1), -1, -2)
            out[members] = np.moveaxis(by_function + steps, -2, 0)
    return out
