"""Fully Bayesian Gaussian-process classification."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.callback import with_callbacks

from .._params import check_choice
from ..likelihoods import BERNOULLI_LIKELIHOODS
from ..likelihoods.base import Likelihood
from ..likelihoods.bernoulli import Bernoulli
from ..likelihoods.softmax import Softmax
from ..model.kernels import default_kernel
from ..run.diagnostics import diagnose
from ..run.leave_one_out import average_densities, leave_one_out_of_classes
from . import _validation as check
from ._average import fit_average, kernels_to_average
from ._data import (
    find_label_positions,
    make_one_versus_rest,
    normalize_columns,
    number_classes,
    replace_fitted,
    validate,
    validate_rows_to_predict,
)
from ._docs import document
from ._latent import LatentClassifier
from ._named import names_methods
from ._parameters import ModelParameters
from ._predictive import Curve
from ._probability import find_probability_quantiles

_MULTI_CLASS = ("one_vs_rest", "softmax", "softmax_separate")
#: Attributes that one-vs-rest problems have once per class.
_BINARY_ATTRIBUTES = (
    "theta_samples_",
    "latent_samples_",
    "marked_samples_",
    "kernel_",
    "priors_",
    "hyperparameter_names_",
)


@dataclass(eq=False, repr=False, kw_only=True)
class _ClassifierParameters(ModelParameters):
    """Parameters of the model that only this estimator has."""

    likelihood: str | Likelihood = "probit"
    multi_class: str = "one_vs_rest"


@names_methods
@document
@dataclass(eq=False, repr=False, kw_only=True)
class BayesianGPClassifier(LatentClassifier, _ClassifierParameters):
    """Gaussian-process classifier that averages over latent values and hyper-parameters by MCMC.

    Markov chains sample the hyper-parameters theta and the latent function f from their joint
    posterior, and predictions average over these draws. The default sampler is asymptotically
    exact.

    %(groups)s

    Parameters
    ----------
    %(kernel)s, plus ``Linear()`` without `ard` and named `priors`
    %(priors)s
    likelihood : {"probit", "logit"} or Likelihood, default="probit"
        Link between f and the class probability in binary problems. Not used with a softmax.
    multi_class : {"one_vs_rest", "softmax", "softmax_separate"}, default="one_vs_rest"
        "one_vs_rest": one binary problem per class, with normalized probabilities. "softmax": a
        joint model, in which the functions of the classes share their hyper-parameters;
        "softmax_separate": each has its own. See :doc:`/models`.
    %(run)s, for each class with one-vs-rest
    %(pm)s
    %(advanced)s and a softmax

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    %(attributes)s; a softmax adds an axis of classes
    estimators_ : list of BayesianGPClassifier
        Binary classifiers, only with one-vs-rest and more than two classes. The attributes from
        `theta_samples_` to `marked_samples_` are then attributes of these.

    Warns
    -----
    %(warns)s
    UserWarning
        If the scales of the features do not suit the default priors.

    References
    ----------
    .. [1] Filippone, M. & Girolami, M. (2014). Pseudo-marginal Bayesian inference for Gaussian
           processes. IEEE Transactions on Pattern Analysis and Machine Intelligence 36(11).

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from skgpmcmc import BayesianGPClassifier
    >>> X, y = make_moons(40, noise=0.3, random_state=0)
    >>> clf = BayesianGPClassifier(random_state=0)
    >>> proba = clf.fit(X, y).predict_proba(X)
    >>> clf.theta_samples_.shape[::2], clf.hyperparameter_names_
    ((4, 3), ['k1__k1__constant_value', 'k1__k2__length_scale', 'k2__slope_variance'])
    """

    _likelihoods = BERNOULLI_LIKELIHOODS
    _default_kernel = staticmethod(default_kernel)

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
        BayesianGPClassifier
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
        check_choice("multi_class", self.multi_class, _MULTI_CLASS)
        X, y, features = validate(self, X, y)
        number = np.unique(y, return_inverse=True)[1].ravel()
        if self.multi_class == "one_vs_rest":
            likelihood = check.resolve_likelihood_of_classes(self.likelihood, self._likelihoods)
            rows = self._training_rows(X, features, sample_weight, likelihood, number)
            classes, index = number_classes(y[rows.kept])
            targets = make_one_versus_rest(index, len(classes))
        else:
            if not isinstance(self.likelihood, str) or self.likelihood not in self._likelihoods:
                raise ValueError(
                    f"multi_class={self.multi_class!r} has a likelihood of its own, the softmax, "
                    f"and likelihood={self.likelihood!r} would have no effect: use "
                    'likelihood="probit", the default, or multi_class="one_vs_rest".'
                )
            rows = self._training_rows(X, features, sample_weight, Softmax(2), number)
            classes, index = number_classes(y[rows.kept])
            likelihood = Softmax(len(classes))
            targets = [index.astype(float)]
        targets = [rows.select_for_model(target) for target in targets]
        separate = self.multi_class == "softmax_separate"
        run = self._sample(rows, features, likelihood, *targets, separate=separate)
        return self._finish(X, rows, run, {"classes_": classes, **features})

    def _as_reported(self, f):
        return f[:, :, 0] if self._one_versus_rest else np.swapaxes(f, 2, 3)

    def _one_per_class(self, run, models, noise, names):
        """Fitted attributes with one-vs-rest: a binary classifier for each class."""
        elements = models[0]["hyperparameter_names_"]
        labels = names["classes_"].tolist()
        estimators = []
        for m, fitted in enumerate(models):
            binary = clone(self)
            own = {
                "classes_": np.array([0, 1]),
                "diagnostics_": diagnose(run, elements, noise, [m], self._goal),
            }
            replace_fitted(binary, {**fitted, **names, **own})
            estimators.append(binary)
        return {
            "estimators_": estimators,
            "n_iter_": max(binary.n_iter_ for binary in estimators),
            "diagnostics_": diagnose(run, elements, noise, range(len(models)), self._goal, labels),
        }

    def __getattr__(self, name: str) -> Any:
        # Only called where normal look-up fails.
        if self._is_average:
            return super().__getattr__(name)
        if name not in _BINARY_ATTRIBUTES:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if "estimators_" in vars(self):
            raise AttributeError(
                f"{name} exists once per class for more than two classes: see "
                f"estimators_[k].{name} for the class classes_[k]."
            )
        return super().__getattr__(name)

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
        if not self._one_versus_rest:
            p = self._predictor.class_probabilities(X, self.n_jobs)
            with np.errstate(divide="ignore"):  # a class that no draw would give a chance
                return normalize_columns(np.log(p))
        if len(self.classes_) == 2:
            log_p = self._predictor.log_class_probabilities(X, self.n_jobs)
        else:
            one = [np.full(len(X), 1.0)]
            predictors = vars(self).get("_class_predictors")
            if predictors is None:
                predictors = [own._predictor for own in self.estimators_]
            log_p = np.concatenate(
                [predictor.log_predictive(one, X, self.n_jobs) for predictor in predictors]
            )
        return normalize_columns(log_p)

    def _curve(self, X, probabilities, y):
        if len(self.classes_) != 2:
            raise ValueError(
                "PredictionDisplay draws the probability of one of two classes, and "
                f"{type(self).__name__} is fitted on {len(self.classes_)}: pass one of its "
                "estimators_, each for a class against the rest, or draw predict_proba."
            )
        last = self.classes_[-1]
        mean = self.predict_proba(X)[:, -1]
        rows = validate_rows_to_predict(self, X)
        function = self._probability_quantiles(rows, probabilities)
        observed = None if y is None else find_label_positions(y, self.classes_, len(y))
        return Curve(f"Probability of {last}", mean, function, None, observed)

    def _probability_quantiles(self, rows, probabilities):
        """Posterior quantiles of the probability of the last of two classes, (k, n)."""
        likelihood = self._predictor.model.likelihood
        if isinstance(likelihood, Bernoulli):
            return find_probability_quantiles(self._predictor, rows, probabilities, self.n_jobs)
        f = self._latent_quantiles(rows, probabilities)
        return np.exp(likelihood.log_class_probabilities(f, np.zeros_like(f))[1])

    def _leave_one_out(self, method):
        if "estimators_" not in vars(self):
            return super()._leave_one_out(method)
        given = self.estimators_[0]._rows.given
        averages = []
        targets = []
        for own in self.estimators_:
            model = own._predictor.model
            averages.append(
                average_densities(
                    model, own._draws, given, method, own._reference, label=1.0, n_jobs=self.n_jobs
                )
            )
            targets.append(model.observations.y[given.row_of])
        labels = np.argmax(targets, axis=0)
        return leave_one_out_of_classes(averages, labels, given, method)

    def _as_given(self, encoded):
        return super()._as_given(encoded > 0.0 if self._one_versus_rest else encoded)

    @property
    def _one_versus_rest(self) -> bool:
        """Whether the fitted models are binary."""
        if "_predictor" not in vars(self):
            return True  # more than two classes, each with a predictor of its own
        return bool(self._predictor.model.likelihood.n_functions == 1)

    def _check_single(self, method: str) -> None:
        if "_predictor" not in vars(self):
            raise ValueError(
                f"{method} is defined for two classes, and there are {len(self.classes_)}: call "
                f"estimators_[k].{method} for the class classes_[k] against the rest."
            )
