"""Classifiers that know the logs of their class probabilities: the rest follows."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp
from sklearn.base import ClassifierMixin


class LogProbabilityClassifierMixin(ClassifierMixin):
    """`predict_proba` and `predict` from `predict_log_proba` and `classes_`."""

    def predict_proba(self, X):
        """Class probabilities, a deterministic function of the fitted model and of each row alone.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Columns in the order of `classes_`.
        """
        return np.exp(self.predict_log_proba(X))

    def predict(self, X):
        """Most probable class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels among `classes_`.
        """
        log_p = self.predict_log_proba(X)
        return self.classes_[np.argmax(log_p, axis=1)]


def normalized_columns(log_p):
    """Turn logs of unnormalized probabilities, (n_classes, n_samples), into log probabilities.

    Returns an array of shape (n_samples, n_classes) whose exponentials sum to one in each row.
    """
    return (log_p - logsumexp(log_p, axis=0)).T
