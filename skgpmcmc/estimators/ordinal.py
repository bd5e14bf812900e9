"""Fully Bayesian Gaussian-process classification of ordered classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri
from sklearn.callback import with_callbacks

from ..likelihoods.ordinal import OrdinalProbit
from ._average import fit_average, kernels_to_average
from ._data import (
    check_numbers,
    find_label_positions,
    normalize_columns,
    number_classes,
    validate,
    validate_rows_to_predict,
)
from ._docs import document
from ._labels import check_labels
from ._latent import LatentClassifier
from ._named import names_methods
from ._parameters import ModelParameters
from ._predictive import check_probabilities, unwrap_single

#: Least gap between two thresholds at the start.
_LEAST_GAP = 0.05


@dataclass(eq=False, repr=False, kw_only=True)
class _OrdinalParameters(ModelParameters):
    """Parameters of the model that only this estimator has."""

    class_order: npt.ArrayLike | None = None
    thresholds: npt.ArrayLike | None = None


@names_methods
@document
@dataclass(eq=False, repr=False, kw_only=True)
class BayesianGPOrdinalClassifier(LatentClassifier, _OrdinalParameters):
    """Gaussian-process classifier for ordered classes (ordinal probit regression), by MCMC.

    Thresholds divide the latent scale into one interval per class. A row is of the class in whose
    interval f plus standard normal noise lies.

    %(groups)s

    Parameters
    ----------
    %(kernel)s
    %(priors)s, or ``"threshold"`` (the first one, which may be negative) and ``"threshold_gap"``
    class_order : sequence or None, default=None
        The classes from the lowest to the highest. None takes the order of the categories of an
        ordered type (an ordered Categorical of pandas, an Enum of polars), and sorts numbers; for
        other strings you must give the order.
    thresholds : sequence of float or None, default=None
        Fixed thresholds on the latent scale: increasing, one less than there are classes. None
        infers them. The default priors are then N(0, 3^2) for the first threshold and
        log-normal(0, 1) for the gaps between them.
    %(run)s
    %(pm)s
    %(advanced)s

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels, from the lowest to the highest.
    %(attributes)s

    Warns
    -----
    %(warns)s

    References
    ----------
    .. [1] Chu, W. & Ghahramani, Z. (2005). Gaussian processes for ordinal regression. Journal of
           Machine Learning Research 6.

    Examples
    --------
    >>> import numpy as np
    >>> from skgpmcmc import BayesianGPOrdinalClassifier
    >>> X = np.linspace(-2.0, 2.0, 30)[:, None]
    >>> y = np.digitize(X[:, 0] ** 2, [0.5, 2.0])
    >>> clf = BayesianGPOrdinalClassifier(random_state=0).fit(X, y)
    >>> clf.predict_proba(X).shape
    (30, 3)
    """

    @with_callbacks
    def fit(self, X, y, sample_weight=None):
        """Sample the posterior.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training inputs.
        y : array-like of shape (n_samples,)
            Class labels, at least two different ones.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows. The likelihood of a row is raised to the power of its weight: an
            integer weight is equivalent to repeating the row, weight zero to leaving it out.

        Returns
        -------
        BayesianGPOrdinalClassifier
            The fitted estimator itself.

        Raises
        ------
        ValueError
            If the data or a parameter are invalid. The results of an earlier fit are kept.
        MemoryError
            If the machine has too little memory for this number of rows.
        """
        if kernels_to_average(self, X):
            return fit_average(self, X, y, sample_weight=sample_weight)
        ordered = _category_order(y)
        X, y, features = validate(self, X, y)
        number = np.unique(y, return_inverse=True)[1].ravel()
        rows = self._training_rows(X, features, sample_weight, OrdinalProbit((0.0,)), number)
        y = y[rows.kept]
        classes = self._order_classes(y, ordered)
        position = rows.select_for_model(find_label_positions(y, classes, len(y)))
        likelihood = self._likelihood_of(position, rows.weight, len(classes))
        run = self._sample(rows, features, likelihood, position.astype(float))
        return self._finish(X, rows, run, {"classes_": classes, **features})

    def _order_classes(self, y: np.ndarray, ordered: np.ndarray | None) -> np.ndarray:
        found, _ = number_classes(y)
        if self.class_order is None and ordered is not None:
            return ordered[np.isin(ordered, found)]
        if self.class_order is None:
            if not np.issubdtype(found.dtype, np.number):
                raise ValueError(
                    f"class_order=None sorts numbers, but the classes are {found.tolist()}: give "
                    "them in their order, from the lowest to the highest, or make y an ordered "
                    "Categorical."
                )
            return found
        order = np.asarray(check_labels("class_order", self.class_order))
        if order.ndim != 1 or len(np.unique(order)) != len(order):
            raise ValueError(f"class_order must name every class once; got {self.class_order!r}.")
        unknown = np.setdiff1d(found, order)
        if len(unknown):
            raise ValueError(
                f"y has labels {unknown.tolist()} that class_order={self.class_order!r} does not "
                "name."
            )
        return order

    def _likelihood_of(
        self, position: np.ndarray, weight: np.ndarray | None, n_classes: int
    ) -> OrdinalProbit:
        if self.thresholds is not None:
            given = check_numbers("thresholds", self.thresholds)
            increasing = given.shape == (n_classes - 1,) and np.all(np.diff(given) > 0.0)
            if not increasing or not np.isfinite(given).all():
                raise ValueError(
                    f"thresholds must be {n_classes - 1} increasing numbers, all finite, for "
                    f"{n_classes} classes; got {self.thresholds!r}."
                )
            return OrdinalProbit(tuple(given.tolist()), fixed=True)
        # As if f were standard normal; classes that no row has get a little room.
        counts = np.bincount(position, weight, n_classes) + 0.5
        share = np.cumsum(counts)[:-1] / counts.sum()
        start = np.sqrt(2.0) * ndtri(share)
        gaps = np.maximum(np.diff(start), _LEAST_GAP)
        return OrdinalProbit(tuple(np.cumsum([start[0], *gaps]).tolist()))

    def predict(self, X, return_std=False, return_quantiles=None):
        """Most probable class; on request also standard deviations or quantiles of the label.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict.
        return_std : bool, default=False
            Also return the standard deviation of the label of a new row; only for labels that are
            numbers.
        return_quantiles : sequence of float, default=None
            Also return quantiles of the label of a new row, for these probabilities between 0 and
            1.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Labels among `classes_`.
        y_std : ndarray of shape (n_samples,)
            Only with `return_std`.
        y_quantiles : ndarray of shape (n_quantiles, n_samples)
            Only with `return_quantiles`: the lowest labels, in the order of `classes_`, whose
            cumulative probability is at least the given one.

        Raises
        ------
        ValueError
            If `return_std` is True and the labels are not numbers.
        """
        wanted = None if return_quantiles is None else check_probabilities(return_quantiles)
        log_p = self.predict_log_proba(X)
        p = np.exp(log_p)
        found = [self.classes_[np.argmax(log_p, axis=1)]]
        if return_std:
            if self.classes_.dtype.kind not in "iuf":
                raise ValueError(
                    "return_std is for labels that are numbers, and the classes are "
                    f"{self.classes_.tolist()}: use return_quantiles, which are labels."
                )
            values = self.classes_.astype(float)
            away = values - (p @ values)[:, None]
            found.append(np.sqrt(np.einsum("ij,ij->i", p, away**2)))
        if wanted is not None:
            at_most = np.cumsum(p, axis=1)[:, :-1]  # the last is one, whatever rounding makes of it
            found.append(self.classes_[[(at_most < each).sum(axis=1) for each in wanted]])
        return unwrap_single(found)

    def predict_log_proba(self, X):
        """Natural logs of the class probabilities, accurate even for tiny probabilities.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Columns in the order of `classes_`.
        """
        X = validate_rows_to_predict(self, X)
        every = [np.full(len(X), float(k)) for k in range(len(self.classes_))]
        return normalize_columns(self._predictor.log_predictive(every, X, self.n_jobs))


def _category_order(y: Any) -> np.ndarray | None:
    """Return the categories of an ordered type of pandas or polars, from the lowest; else None."""
    dtype = getattr(y, "dtype", None)
    ordered = getattr(dtype, "ordered", False) or type(dtype).__name__ == "Enum"
    return np.asarray(dtype.categories) if ordered else None
