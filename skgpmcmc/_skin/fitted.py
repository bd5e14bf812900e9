"""Fitted attributes, set all at once: a failed fit leaves an earlier one alone."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data


def validated(estimator: Any, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    """Validate training data without touching the estimator.

    Returns X, y and the attributes that describe the features (``n_features_in_`` and, where X has
    names, ``feature_names_in_``).
    """
    twin = copy.copy(estimator)  # validate_data sets attributes before it knows that all is well
    vars(twin).pop("feature_names_in_", None)
    # A copy, as the model keeps X: what the user does to it later must not change predictions.
    X, y = validate_data(twin, X, y, dtype=np.float64, order="C", copy=True)
    names = ("n_features_in_", "feature_names_in_")
    return X, y, {name: vars(twin)[name] for name in names if name in vars(twin)}


def replace_fitted(estimator: Any, attributes: dict[str, Any]) -> None:
    """Drop all fitted attributes of an earlier fit and set the new ones.

    Fitted attributes end in an underscore; private ones are ``_predictor``,
    ``_sampling`` and ``_q``.
    """
    for name in list(vars(estimator)):
        fitted = name.endswith("_") and not name.startswith("_")
        if fitted or name in ("_predictor", "_q", "_sampling"):
            delattr(estimator, name)
    vars(estimator).update(attributes)
