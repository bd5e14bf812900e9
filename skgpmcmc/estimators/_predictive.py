"""What `predict` returns of a new target beside a point: its spread, and its quantiles."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._data import check_numbers, in_units_of_y


def check_probabilities(return_quantiles: Any) -> list[float]:
    """Return probabilities that quantiles are asked for, each between 0 and 1."""
    probabilities = np.atleast_1d(check_numbers("return_quantiles", return_quantiles))
    if probabilities.ndim != 1 or not np.all((probabilities > 0) & (probabilities < 1)):
        raise ValueError(
            f"return_quantiles must be probabilities between 0 and 1; got {return_quantiles!r}."
        )
    values: list[float] = probabilities.tolist()
    return values


def only_point(found: list[Any]) -> Any:
    """Return the point alone, or a tuple with what else was asked for."""
    return found[0] if len(found) == 1 else tuple(found)


def predict_targets(
    estimator: Any,
    X: np.ndarray,
    return_std: Any,
    return_quantiles: Any,
    offset: np.ndarray | float = 0.0,
    point: np.ndarray | None = None,
) -> Any:
    """Return a point for each row, and what else is asked for, of targets that are numbers.

    `offset` is added to f. The point is the mean of the target, unless one is given, and all are
    in units of y.
    """
    predictor = estimator._predictor
    (shift, scale) = estimator._target_units
    probabilities = None if return_quantiles is None else check_probabilities(return_quantiles)
    deviations = []
    if return_std:
        mean, var = predictor.target_moments(X, estimator.n_jobs, offset)
        deviations = [in_units_of_y(np.sqrt(var), 0.0, scale)]
    elif point is None:
        mean = predictor.target_mean(X, estimator.n_jobs, offset)
    found = [in_units_of_y(mean, shift, scale) if point is None else point, *deviations]
    if probabilities is not None:
        quantiles = predictor.target_quantiles(probabilities, X, offset)
        found.append(in_units_of_y(quantiles, shift, scale))
    return only_point(found)
