"""Checks and conversion of data: rows, targets, weights, labels and class probabilities."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy.special import logsumexp
from sklearn.base import ClassifierMixin
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from .._warnings import warn
from ._categories import number_levels, number_text
from ._dates import refuse_dates
from ._labels import check_labels

#: Private fitted attributes, which a new fit replaces.
_PRIVATE_FITTED = (
    *("_predictor", "_draws", "_for_predictions", "_q", "_sampling", "_units"),
    *("_evidence_parts", "_only_predicts", "_reference", "_rows"),
    *("_class_predictors", "_member_evidences", "_text_levels"),
)
#: Parameters of predictions that `fit` uses, and its use of them in words.
PREDICTION_PARAMS = {
    "max_predict_draws": "the draws that enter predictions were chosen",
    "predict_cache_bytes": "what predictions may keep was set",
}
#: Largest n_jobs. No cluster has more workers, and counters of the operating system overflow.
_MOST_WORKERS = 100_000
#: Largest sample weight; with larger ones the posterior is a point in double precision.
_LARGEST_WEIGHT = 1e12

# --- rows -----------------------------------------------------------------------------------------


def validate(
    estimator: Any, X: Any, y: Any, **check_params: Any
) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    """Validate training data without changing the estimator.

    Parameters
    ----------
    estimator : estimator
        The estimator that is fitted.
    X : array-like of shape (n, d)
        Training inputs.
    y : array-like of shape (n,), or None
        Targets.
    **check_params : dict
        Arguments of scikit-learn's `check_X_y`, such as ``y_numeric=True``.

    Returns
    -------
    X : ndarray of shape (n, d)
        A copy of the inputs.
    y : ndarray of shape (n,)
        Targets.
    attributes : dict
        ``n_features_in_``, if X has names ``feature_names_in_``, and if the kernel takes text as
        categories ``_text_levels``.
    """
    _check_columns(X)
    X, levels = number_text(getattr(estimator, "kernel", None), X)
    if not check_params.get("y_numeric"):
        y = check_labels("y", y)
        _check_finite(y)
    elif y is not None:
        _check_finite(check_numbers("y", y))
    # `validate_data` sets attributes before the data are known to be valid: those of a copy.
    twin = type(estimator).__new__(type(estimator))
    vars(twin).update(vars(estimator))
    vars(twin).pop("feature_names_in_", None)
    # The model keeps X, and must not see later changes of the array of the user.
    with _name_X_in_errors():
        X, y = validate_data(twin, X, y, dtype=np.float64, order="C", copy=True, **check_params)
    names = ("n_features_in_", "feature_names_in_")
    attributes = {name: vars(twin)[name] for name in names if name in vars(twin)}
    return X, y, attributes if levels is None else {**attributes, "_text_levels": levels}


def _check_finite(y: Any) -> None:
    """Raise an error with scikit-learn's words and the row for a target that is not finite."""
    dtype = getattr(y, "dtype", None)
    if not isinstance(dtype, np.dtype) or dtype.kind != "f":
        return
    values = np.atleast_1d(np.asarray(y))
    illegal = np.argwhere(~np.isfinite(values))
    if len(illegal):
        value = values[tuple(illegal[0])]
        row = int(illegal[0][0])
        kind = "NaN" if np.isnan(value) else "infinity or a value too large for dtype('float64')"
        raise ValueError(
            f"Input y contains {kind}. It is {value:g} in row {row}: leave the row out."
        )


def validate_new_rows(estimator: Any, X: Any) -> np.ndarray:
    """Validate rows that a fitted estimator is to predict."""
    check_is_fitted(estimator)
    _check_columns(X)
    names = [str(name) for name in getattr(X, "columns", ())]
    if names in ([], list(vars(estimator).get("feature_names_in_", ()))):
        X = number_levels(X, vars(estimator).get("_text_levels"))
    with _name_X_in_errors():
        return validate_data(estimator, X, dtype=np.float64, reset=False)


def validate_rows_to_predict(estimator: Any, X: Any) -> np.ndarray:
    """Validate rows to predict, and warn of parameters without effect before the next fit."""
    X = validate_new_rows(estimator, X)
    check_n_jobs(estimator.n_jobs)  # it may have changed since `fit`
    for name, used in estimator._for_predictions.items():
        if (wanted := getattr(estimator, name)) != used:
            warn(
                f"{name}={wanted!r} has no effect before the next fit: {PREDICTION_PARAMS[name]} "
                f"in fit, with {name}={used!r}.",
            )
    return X


@contextmanager
def _name_X_in_errors() -> Iterator[None]:
    """Raise errors of scikit-learn and of the library of X again, with X in their messages."""
    try:
        with np.errstate(invalid="ignore"):  # numbers that are not finite raise an error
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
    """Raise an error for a table with repeated names of columns, or with dates."""
    names = list(getattr(X, "columns", ()))
    repeated = sorted({str(name) for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(
            f"X has several columns of the name {', '.join(map(repr, repeated))}: rename them, as "
            "predictions match columns by name, or pass X as an array."
        )
    refuse_dates(X)


def check_n_jobs(value: Any) -> None:
    """Raise an error unless `n_jobs` is a number of workers in the sense of joblib."""
    legal = isinstance(value, Integral) and not isinstance(value, bool) and value != 0
    if value is not None and not (legal and value <= _MOST_WORKERS):
        raise ValueError(
            f"n_jobs must be None or an integer other than 0; got {value!r}. Use None for one "
            f"worker, -1 for all cores, and not more than {_MOST_WORKERS}."
        )


def replace_fitted(estimator: Any, attributes: dict[str, Any]) -> None:
    """Drop all fitted attributes of an earlier fit and set the new ones.

    Fitted attributes end in an underscore; private ones are those of `_PRIVATE_FITTED`.
    """
    for name in list(vars(estimator)):
        fitted = name.endswith("_") and not name.startswith("_")
        if fitted or name in _PRIVATE_FITTED:
            delattr(estimator, name)
    vars(estimator).update(attributes)


# --- numbers of the rows --------------------------------------------------------------------------


def check_numbers(name: str, values: Any) -> np.ndarray:
    """Return real numbers as an array; raise an error for text, dates and missing values."""
    try:
        array = np.asarray(values)
    except ValueError:
        raise ValueError(
            f"{name} must be an array of numbers; got rows of different lengths."
        ) from None
    if array.dtype.kind == "c":
        raise ValueError(f"{name} must consist of real numbers. Complex data not supported.")
    if array.dtype.kind not in "biuf":
        for row, value in enumerate(array.ravel().tolist()):
            if not isinstance(value, Real):
                place = f" in row {row}" if array.ndim == 1 else ""
                raise ValueError(f"{name} must consist of real numbers; got {value!r}{place}.")
    return array.astype(float)


def check_rows(name: str, values: Any, n_rows: int, sign: str = "") -> np.ndarray:
    """Return one finite number per row; `sign` can be "positive" or "not negative"."""
    array = check_numbers(name, values)
    if array.shape != (n_rows,):
        raise ValueError(
            f"{name} must have one number per row of X, shape ({n_rows},); got shape {array.shape}."
        )
    of_sign = {"": True, "not negative": array >= 0.0, "positive": array > 0.0}
    legal = np.isfinite(array) & of_sign[sign]
    require_legal(legal, array, f"{name} must be {'finite and ' if sign else 'finite'}{sign}")
    return array


def require_legal(legal: np.ndarray, values: np.ndarray, rule: str, remedy: str = "") -> None:
    """Raise an error that states a rule if a value is not legal, and the first such value."""
    if not np.all(legal):
        row = int(np.argmin(legal))
        raise ValueError(f"{rule}; got {values[row]:g} in row {row}.{remedy}")


def check_weights(sample_weight: Any, n_rows: int) -> np.ndarray | None:
    """Return the weights, or None if all are one; raise an error if all are zero."""
    if sample_weight is None:
        return None
    weight = check_numbers("sample_weight", sample_weight)
    if weight.ndim == 0:
        weight = np.full(n_rows, weight)
    weight = check_rows("sample_weight", weight, n_rows, "not negative")
    if not weight.any():
        raise ValueError("sample_weight is zero for every row: give at least one a weight.")
    if weight.max() > _LARGEST_WEIGHT:
        row = int(np.argmax(weight))
        raise ValueError(
            f"sample_weight is {weight[row]:g} in row {row}, which means that many repetitions of "
            "the row: divide all weights by a number, so that they are of the order of one."
        )
    return None if np.all(weight == 1.0) else weight


def find_power_of_two(values: np.ndarray) -> float:
    """Return a power of two near the largest size of some numbers; one if all are zero.

    Numbers that are divided by it can be squared, and are not rounded.
    """
    _, exponent = np.frexp(np.max(np.abs(values)))
    return float(np.ldexp(1.0, int(exponent) - 1)) if np.any(values) else 1.0


def root_mean_square(values: np.ndarray, weight: np.ndarray | None) -> float:
    """Return the root of the weighted mean of squares, without overflow or underflow."""
    unit = find_power_of_two(values)
    return unit * float(np.sqrt(np.average((values / unit) ** 2, weights=weight)))


def to_units_of_y(values: np.ndarray, shift: float, scale: float) -> np.ndarray:
    """Return ``shift + scale * values``, or raise an error if that overflows."""
    with np.errstate(over="ignore", invalid="ignore"):  # checked in the next lines
        result = shift + scale * values
    if not np.isfinite(result).all():
        raise ValueError(
            f"The result overflows in the units of y, whose standard deviation is {scale:.3g}: "
            "divide y by a power of ten before fit."
        )
    return result


# --- class labels and probabilities ---------------------------------------------------------------


def number_classes(y):
    """Return the sorted classes, at least two, and the position of each label among them."""
    with np.errstate(invalid="ignore"):  # the check compares numbers with their integer parts
        check_classification_targets(y)
    classes, index = np.unique(y, return_inverse=True)
    if len(classes) == 1:
        raise ValueError(
            f"y has only one class, {classes.tolist()[0]!r}: a classifier needs at least two."
        )
    return classes, index


def make_one_versus_rest(index, n_classes):
    """Return one target vector of -1.0 / +1.0 per binary problem.

    Two classes make one problem, whose positive class is the second; more make one per class.
    """
    positives = [1] if n_classes == 2 else range(n_classes)
    return [np.where(index == k, 1.0, -1.0) for k in positives]


def find_label_positions(y, classes, n_rows):
    """Return the positions of labels among `classes`; an error names labels that are not there."""
    y = column_or_1d(check_labels("y", y))
    if len(y) != n_rows:
        raise ValueError(f"X has {n_rows} rows but y has {len(y)} labels.")
    unknown = np.setdiff1d(y, classes)
    if len(unknown):
        raise ValueError(
            f"y has labels {unknown.tolist()} that were not seen in fit; classes_ is "
            f"{classes.tolist()}."
        )
    order = np.argsort(classes)
    return order[np.searchsorted(classes, y, sorter=order)]


class LogProbabilityClassifierMixin(ClassifierMixin):
    """Mixin with `predict_proba` and `predict`, from `predict_log_proba` and `classes_`."""

    def predict_proba(self, X):
        """Posterior predictive class probabilities.

        They are a deterministic function of the fitted model and of each row alone.

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


def normalize_columns(log_p):
    """Turn logs of unnormalized probabilities, (n_classes, n_samples), into log probabilities.

    Returns an array of shape (n_samples, n_classes) whose exponentials sum to one in each row.
    """
    return (log_p - logsumexp(log_p, axis=0)).T
