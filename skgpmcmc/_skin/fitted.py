"""Fitted attributes, set all at once: a failed fit leaves an earlier one alone."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

#: Fitted attributes that are nobody else's business.
_PRIVATE = ("_predictor", "_draws", "_q", "_sampling", "_normalized", "_center")


def validated(
    estimator: Any, X: Any, y: Any, **check_params: Any
) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    """Validate training data without touching the estimator.

    Further arguments are those of scikit-learn's `check_X_y`, such as ``y_numeric=True``. Returns
    X, y and the attributes that describe the features (``n_features_in_`` and, where X has names,
    ``feature_names_in_``).
    """
    twin = copy.copy(estimator)  # validate_data sets attributes before it knows that all is well
    vars(twin).pop("feature_names_in_", None)
    # A copy, as the model keeps X: what the user does to it later must not change predictions.
    X, y = validate_data(twin, X, y, dtype=np.float64, order="C", copy=True, **check_params)
    names = ("n_features_in_", "feature_names_in_")
    return X, y, {name: vars(twin)[name] for name in names if name in vars(twin)}


def replace_fitted(estimator: Any, attributes: dict[str, Any]) -> None:
    """Drop all fitted attributes of an earlier fit and set the new ones.

    Fitted attributes end in an underscore; private ones are those of `_PRIVATE`.
    """
    for name in list(vars(estimator)):
        fitted = name.endswith("_") and not name.startswith("_")
        if fitted or name in _PRIVATE:
            delattr(estimator, name)
    vars(estimator).update(attributes)
