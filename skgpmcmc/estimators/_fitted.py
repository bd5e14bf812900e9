"""Fitted attributes, set all at once: a failed fit leaves an earlier one alone."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from ._labels import check_labels
from ._validation import check_numbers, check_weights

__all__ = []

#: Fitted attributes that are nobody else's business.
_PRIVATE = (
    *("_predictor", "_draws", "_max_predict_draws"),
    *("_q", "_sampling", "_normalized", "_center"),
)


def validated(
    estimator: Any, X: Any, y: Any, **check_params: Any
) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    """Validate training data without touching the estimator.

    Further arguments are those of scikit-learn's `check_X_y`, such as ``y_numeric=True``. Returns
    X, y and the attributes that describe the features (``n_features_in_`` and, where X has names,
    ``feature_names_in_``).
    """
    _check_columns(X)
    if not check_params.get("y_numeric"):
        y = check_labels("y", y)
    elif y is not None:
        check_numbers("y", y)
    twin = copy.copy(estimator)  # validate_data sets attributes before it knows that all is well
    vars(twin).pop("feature_names_in_", None)
    # A copy, as the model keeps X: what the user does to it later must not change predictions.
    with _naming_the_rows():
        X, y = validate_data(twin, X, y, dtype=np.float64, order="C", copy=True, **check_params)
    names = ("n_features_in_", "feature_names_in_")
    return X, y, {name: vars(twin)[name] for name in names if name in vars(twin)}


def new_rows(estimator: Any, X: Any) -> np.ndarray:
    """Validate rows that a fitted estimator is to predict."""
    check_is_fitted(estimator)
    _check_columns(X)
    with _naming_the_rows():
        return validate_data(estimator, X, dtype=np.float64, reset=False)


@contextmanager
def _naming_the_rows() -> Iterator[None]:
    """Say that it is about X where scikit-learn, or what X is made of, does not."""
    try:
        with np.errstate(invalid="ignore"):  # what is not finite is refused
            yield
    except (TypeError, ValueError) as error:
        message = str(error)
        if re.search(r"\b[Xy]\b|Input|Found array|Expected 2D|feature", message):
            raise
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(
            "X must be a table of real numbers with one row for each target: "
            f"{message.splitlines()[0]}. Encode text, and fill in or drop what is missing."
        ) from error


def _check_columns(X: Any) -> None:
    """Refuse names that do not tell the columns of a table apart."""
    names = list(getattr(X, "columns", ()))
    repeated = sorted({str(name) for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(
            f"X has several columns of the name {', '.join(map(repr, repeated))}: rename them, as "
            "predictions match columns by name, or pass X as an array."
        )


def replace_fitted(estimator: Any, attributes: dict[str, Any]) -> None:
    """Drop all fitted attributes of an earlier fit and set the new ones.

    Fitted attributes end in an underscore; private ones are those of `_PRIVATE`.
    """
    for name in list(vars(estimator)):
        fitted = name.endswith("_") and not name.startswith("_")
        if fitted or name in _PRIVATE:
            delattr(estimator, name)
    vars(estimator).update(attributes)


def weighted_rows(
    sample_weight: Any, X: np.ndarray, y: np.ndarray, *others: np.ndarray | None
) -> tuple[Any, ...]:
    """Drop rows of weight zero: they are not there.

    Returns the weights, or None where all that are left are one, then X, y and the others, of
    which those that are None stay so.
    """
    weight = check_weights(sample_weight, len(X))
    if weight is None:
        return (None, X, y, *others)
    kept = weight > 0.0
    arrays = [None if array is None else array[kept] for array in (X, y, *others)]
    weight = weight[kept]
    return (None if np.all(weight == 1.0) else weight, *arrays)


def power_of_two(values: np.ndarray) -> float:
    """Return a power of two near the largest size of some numbers; one where all are zero.

    What is divided by it can be squared, and has not been rounded.
    """
    _, exponent = np.frexp(np.max(np.abs(values)))
    return float(np.ldexp(1.0, int(exponent) - 1)) if np.any(values) else 1.0


def root_mean_square(values: np.ndarray, weight: np.ndarray | None) -> float:
    """Root of the weighted mean of squares, whatever the size of the numbers."""
    unit = power_of_two(values)
    return unit * float(np.sqrt(np.average((values / unit) ** 2, weights=weight)))
