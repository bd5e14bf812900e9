"""Support vector machine with probabilities by Platt scaling, the papers' non-Bayesian baseline."""

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import SVC
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, check_X_y, validate_data

__all__ = ["PlattSVC", "svm_platt_classifier"]

# The grid of LIBSVM's own grid search; the papers do not give theirs.
_C_GRID = tuple(2.0**k for k in range(-5, 16, 2))
_GAMMA_GRID = tuple(2.0**k for k in range(-15, 4, 2))
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
        An unfitted scikit-learn classifier. Features on different scales should be brought to one
        by a `StandardScaler` in front of it.

    Notes
    -----
    The baseline of Filippone & Girolami (2014), sections 5.2 and 5.3.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skgpmcmc.baselines.svm import svm_platt_classifier
    >>> model = make_pipeline(StandardScaler(), svm_platt_classifier(random_state=0))
    """
    return PlattSVC(random_state=random_state, n_jobs=n_jobs)


class PlattSVC(ClassifierMixin, BaseEstimator):
    """RBF support vector classifier, tuned by cross-validation, then calibrated once.

    First C and gamma are chosen by the cross-validated accuracy on a grid; then Platt's sigmoid is
    fitted to the decision values that the chosen machine gives to the left-out rows of the same
    folds; the machine used for prediction is fitted on all rows. Several classes are calibrated
    one against the rest.

    Parameters
    ----------
    C : sequence of float, default=None
        Values of the penalty C to try; None is 2^-5, 2^-3, ..., 2^15.
    gamma : sequence of float, default=None
        Values of gamma in exp(-gamma |x - x'|^2) to try; None is 2^-15, 2^-13, ..., 2^3.
    random_state : int, RandomState instance or None, default=None
        Shuffles the rows into 5 stratified folds, fewer if a class has fewer than 5 members.
    n_jobs : int, default=None
        Number of parallel jobs. Results do not depend on it.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    best_params_ : dict
        The chosen C and gamma. Ties go to the smaller C, then to the smaller gamma.
    n_folds_ : int
        The number of folds.
    calibrated_ : CalibratedClassifierCV
        The chosen machine, fitted on all rows, with its sigmoid.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, if `X` had names that are strings.

    Notes
    -----
    Calibrating around the grid search (`CalibratedClassifierCV(GridSearchCV(SVC()))`) would repeat
    the search in each fold, and the search around the calibration would fit a sigmoid for each
    point of the grid; the order here does neither. The baseline of [1]_, sections 5.2 and 5.3, with
    the grid and the folds that are usual for LIBSVM, where the paper says nothing.

    References
    ----------
    .. [1] Filippone & Girolami (2014), Pseudo-marginal Bayesian inference for Gaussian processes,
       IEEE Transactions on Pattern Analysis and Machine Intelligence 36(11).
    .. [2] Platt (1999), Probabilistic outputs for support vector machines and comparisons to
       regularized likelihood methods.
    """

    def __init__(self, *, C=None, gamma=None, random_state=None, n_jobs=None):
        self.C = C
        self.gamma = gamma
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X, y):
        """Choose C and gamma, then calibrate.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Training rows.
        y : array-like of shape (n,)
            Their labels: two classes or more, each with two members or more.

        Returns
        -------
        PlattSVC
            Itself, fitted.

        Raises
        ------
        ValueError
            If there is one class only, or a class with a single member.
        """
        checked_X, checked_y = check_X_y(X, y, estimator=self)
        check_classification_targets(checked_y)
        classes, n_members = np.unique(checked_y, return_counts=True)
        n_folds = _n_folds(classes, n_members)
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        # One integer seed, so that search and calibration use the same folds.
        folds = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
        best_params = self._search(checked_X, checked_y, folds)
        calibrated = CalibratedClassifierCV(
            SVC(**best_params), method="sigmoid", ensemble=False, cv=folds, n_jobs=self.n_jobs
        ).fit(checked_X, checked_y)
        # Stored last, so that a fit that fails leaves a fitted estimator as it was.
        validate_data(self, X, y, skip_check_array=True)
        self.classes_, self.n_folds_ = classes, n_folds
        self.best_params_, self.calibrated_ = best_params, calibrated
        return self

    def _search(self, X, y, folds):
        """Return the C and gamma with the best cross-validated accuracy."""
        grid = {
            "C": _C_GRID if self.C is None else self.C,
            "gamma": _GAMMA_GRID if self.gamma is None else self.gamma,
        }
        # No refit: the calibration fits the chosen machine on all rows.
        search = GridSearchCV(
            SVC(), grid, scoring="accuracy", cv=folds, refit=False, n_jobs=self.n_jobs
        )
        return search.fit(X, y).best_params_

    def predict_proba(self, X):
        """Probabilities of the classes.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Rows to predict.

        Returns
        -------
        ndarray of shape (n, n_classes)
            Platt-scaled probabilities; columns as in `classes_`, rows sum to one.
        """
        check_is_fitted(self)
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
            the bare machine, because the sigmoid need not be one half at its decision boundary.
        """
        proba = self.predict_proba(X)
        return self.classes_[np.argmax(proba, axis=1)]


def _n_folds(classes, n_members):
    """Return the number of folds for which each class has a member in each fold."""
    labels = classes.tolist()
    if len(labels) == 1:
        raise ValueError(
            f"y holds one class only, {labels[0]!r}: a classifier needs rows of two classes."
        )
    smallest = int(np.argmin(n_members))
    if n_members[smallest] == 1:
        raise ValueError(
            f"class {labels[smallest]!r} of y has one member, and cross-validation needs two in "
            "each class: add rows of that class, drop it, or merge it with another."
        )
    return min(_N_FOLDS, int(n_members[smallest]))
