"""Support vector machine with probabilities by Platt scaling, the papers' non-Bayesian baseline."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import SVC
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, check_X_y, validate_data

from ..estimators._dates import refuse_dates
from ..estimators._link import DocumentationLink
from ..estimators._saving import Versioned

#: Penalties of LIBSVM's own grid search, as the papers do not give theirs.
_C_GRID = tuple(2.0**k for k in range(-5, 16, 2))
#: Kernel widths of the same grid search.
_GAMMA_GRID = tuple(2.0**k for k in range(-15, 4, 2))
#: Most folds of the search, as in LIBSVM.
_N_FOLDS = 5


def svm_platt_classifier(*, random_state=None, n_jobs=None):
    """Make an RBF support vector classifier with Platt-scaled probabilities.

    Parameters
    ----------
    random_state : int, RandomState instance or None, default=None
        Shuffles the rows into folds. Pass an int for the same result at each fit.
    n_jobs : int, default=None
        Number of parallel jobs. Results do not depend on it.

    Returns
    -------
    PlattSVC
        An unfitted scikit-learn classifier. If the features have different scales, put a
        `StandardScaler` in front of it.

    Notes
    -----
    The baseline of Filippone & Girolami (2014), sections 5.2 and 5.3.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skgpmcmc.baselines import svm_platt_classifier
    >>> model = make_pipeline(StandardScaler(), svm_platt_classifier(random_state=0))
    """
    return PlattSVC(random_state=random_state, n_jobs=n_jobs)


@dataclass(eq=False, repr=False, kw_only=True)
class PlattSVC(DocumentationLink, Versioned, ClassifierMixin, BaseEstimator):
    """RBF support vector classifier with Platt's sigmoid, tuned by cross-validation.

    C and gamma are chosen on a grid by the cross-validated log loss of the calibrated classifier.
    The sigmoid is fitted to the decision values of left-out rows; the support vector machine used
    for prediction is fitted on all rows. More than two classes are calibrated one against the rest.

    Parameters
    ----------
    C : sequence of float, default=None
        Values of the penalty C to try; None is 2^-5, 2^-3, ..., 2^15.
    gamma : sequence of float, default=None
        Values of gamma in ``exp(-gamma |x - x'|^2)`` to try; None is 2^-15, 2^-13, ..., 2^3.
    random_state : int, RandomState instance or None, default=None
        Shuffles the rows into 5 stratified folds, fewer if a class has few members.
    n_jobs : int, default=None
        Number of parallel jobs. Results do not depend on it.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    best_params_ : dict
        The chosen C and gamma. Ties go to the smaller C, then to the smaller gamma.
    n_folds_ : int
        The number of folds of the search.
    calibrated_ : CalibratedClassifierCV
        The chosen support vector machine, fitted on all rows, with its sigmoid.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Their names, if `X` had names that are strings.

    Notes
    -----
    The baseline of [1]_, sections 5.2 and 5.3, with the grid and the folds that are usual for
    LIBSVM, where the paper gives no details. Candidates are compared by the log loss of their
    calibrated probabilities, and not by accuracy: with a very narrow kernel the decision values are
    nearly zero, so that no useful sigmoid can be fitted, but their signs (those of the nearest
    neighbor) can give the best accuracy of all.

    References
    ----------
    .. [1] Filippone & Girolami (2014), Pseudo-marginal Bayesian inference for Gaussian processes,
       IEEE Transactions on Pattern Analysis and Machine Intelligence 36(11).
    .. [2] Platt (1999), Probabilistic outputs for support vector machines and comparisons to
       regularized likelihood methods.
    """

    C: Any = None
    gamma: Any = None
    random_state: Any = None
    n_jobs: int | None = None

    def fit(self, X, y):
        """Choose C and gamma, then calibrate.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Training rows.
        y : array-like of shape (n,)
            Their labels: two classes or more, each with three members or more.

        Returns
        -------
        PlattSVC
            The fitted estimator itself.

        Raises
        ------
        ValueError
            If there is one class only, or a class with fewer than three members.
        """
        refuse_dates(X)
        checked_X, checked_y = check_X_y(X, y, estimator=self)
        check_classification_targets(checked_y)
        classes, n_members = np.unique(checked_y, return_counts=True)
        n_folds, n_inner = _choose_n_folds(classes, n_members)
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        outer, inner = (
            StratifiedKFold(k, shuffle=True, random_state=seed) for k in (n_folds, n_inner)
        )
        machine = CalibratedClassifierCV(SVC(), method="sigmoid", ensemble=False, cv=inner)
        grid = {
            "estimator__C": _C_GRID if self.C is None else self.C,
            "estimator__gamma": _GAMMA_GRID if self.gamma is None else self.gamma,
        }
        search = GridSearchCV(machine, grid, scoring="neg_log_loss", cv=outer, n_jobs=self.n_jobs)
        search.fit(checked_X, checked_y)
        # Attributes are stored last, so that a failing fit leaves a fitted estimator unchanged.
        validate_data(self, X, y, skip_check_array=True)
        self.classes_ = classes
        self.n_folds_ = n_folds
        self.best_params_ = {
            name.removeprefix("estimator__"): value for name, value in search.best_params_.items()
        }
        self.calibrated_ = search.best_estimator_
        return self

    def predict_proba(self, X):
        """Platt-scaled probabilities of the classes.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Rows to predict.

        Returns
        -------
        ndarray of shape (n, n_classes)
            Columns as in `classes_`; rows sum to one.
        """
        check_is_fitted(self)
        refuse_dates(X)
        X = validate_data(self, X, reset=False)
        return self.calibrated_.predict_proba(X)

    def predict(self, X):
        """Most probable class.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Rows to predict.

        Returns
        -------
        ndarray of shape (n,)
            Labels, from `classes_`. They agree with `predict_proba`, and may differ from those of
            the uncalibrated support vector machine, because the sigmoid need not be one half at its
            decision boundary.
        """
        proba = self.predict_proba(X)
        return self.classes_[np.argmax(proba, axis=1)]


def _choose_n_folds(classes, n_members):
    """Return the numbers of folds of the search, and of the calibration inside its training parts.

    Every class has a member in every fold of both.
    """
    labels = classes.tolist()
    if len(labels) == 1:
        raise ValueError(
            f"y holds one class only, {labels[0]!r}: a classifier needs rows of two classes."
        )
    smallest = int(np.argmin(n_members))
    members = int(n_members[smallest])
    if members < 3:
        raise ValueError(
            f"class {labels[smallest]!r} of y has {members} member(s), and calibration inside "
            "cross-validation needs three in each class: add rows of that class, drop it, or merge "
            "it with another."
        )
    n_folds = min(_N_FOLDS, members)
    left = members - -(-members // n_folds)  # members in the smallest training part
    return n_folds, min(_N_FOLDS, left)
