"""Posterior quantiles of a probability, and how probable it is that this exceeds a threshold."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from ..likelihoods.base import Likelihood
from ..likelihoods.bernoulli import Bernoulli
from ..likelihoods.binomial import SuccessLikelihood
from ..prediction.predictor import ROW_BATCH, Predictor

#: Steps that find a quantile of a probability, to within 1e-9.
_BISECTIONS = 30


def law_of_trial(likelihood: Likelihood) -> Bernoulli:
    """Return the likelihood of a single trial: that of two classes, or of one of many trials."""
    one = likelihood.one if isinstance(likelihood, SuccessLikelihood) else likelihood
    assert isinstance(one, Bernoulli)
    return one


def find_probability_quantiles(
    predictor: Predictor, X: np.ndarray, probabilities: Sequence[float], n_jobs: int | None
) -> np.ndarray:
    """Return posterior quantiles of the probability of +1, or of a success; (k, m).

    Draws may differ in the rates of guesses and lapses. The probability that belongs to a value of
    f is then another one in each draw, so that quantiles of f do not say what is asked.
    """
    one = law_of_trial(predictor.model.likelihood)
    if not one.parameters:
        return np.asarray(one.probability(predictor.latent_quantiles(probabilities, X)))
    starts = range(0, len(X), ROW_BATCH)
    parts = [_bisect(predictor, X[i : i + ROW_BATCH], probabilities, n_jobs) for i in starts]
    return np.concatenate(parts, axis=1)


def _bisect(
    predictor: Predictor, X: np.ndarray, probabilities: Sequence[float], n_jobs: int | None
) -> np.ndarray:
    """Find the quantiles at a batch of rows."""
    wanted = 1.0 - np.asarray(probabilities)[:, None]
    low = np.zeros((len(wanted), len(X)))
    high = np.ones_like(low)
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        is_low = find_exceedance(predictor, X, middle[..., None], n_jobs) > wanted
        low = np.where(is_low, middle, low)
        high = np.where(is_low, high, middle)
    return 0.5 * (low + high)


def find_exceedance(
    predictor: Predictor, X: np.ndarray, thresholds: np.ndarray, n_jobs: int | None
) -> np.ndarray:
    """Return the posterior probabilities that the probability is above thresholds.

    Parameters
    ----------
    predictor : Predictor
        Predictions of the latent function.
    X : ndarray of shape (m, d)
        Inputs.
    thresholds : ndarray of shape (k, m, 1) or (k, 1, 1)
        Thresholds between 0 and 1.
    n_jobs : int, optional
        Workers of joblib.

    Returns
    -------
    ndarray of shape (k, m)
    """
    return predictor.expectation(partial(_above, thresholds=thresholds), X, n_jobs)


def _above(
    likelihood: Likelihood, mean: np.ndarray, var: np.ndarray, *, thresholds: np.ndarray
) -> np.ndarray:
    """Return the shares of f whose probability is above thresholds; (k, m, g)."""
    return law_of_trial(likelihood).probability_above(thresholds, mean, var)
