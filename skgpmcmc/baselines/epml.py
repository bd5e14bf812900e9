"""Gaussian-process classification with hyper-parameters at the maximum of the EP evidence."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from .._params import check_integer
from .._warnings import warn
from ..approximations.base import Approximation
from ..estimators import _validation as check
from ..estimators._data import (
    LogProbabilityClassifierMixin,
    make_one_versus_rest,
    normalize_columns,
    number_classes,
    replace_fitted,
    validate,
    validate_new_rows,
)
from ..estimators._link import DocumentationLink
from ..estimators._named import names_methods
from ..estimators._saving import Versioned
from ..hyperposterior.modes import find_mode
from ..likelihoods import BERNOULLI_LIKELIHOODS
from ..model.covariance import make_covariance
from ..model.joint import LatentGP
from ..model.kernels import check_gradient, smooth_kernel
from ..model.observations import Observations
from ..parallel.threads import one_thread
from ..run.memory import require_memory

#: Matrices of n x n doubles that the search holds at most: 4 for a gradient, 4 for the best fit.
_N_MATRICES = 9.0


@names_methods
@dataclass(eq=False, repr=False)
class EPMLClassifier(DocumentationLink, Versioned, LogProbabilityClassifierMixin, BaseEstimator):
    """Gaussian-process classifier with type-II maximum likelihood by expectation propagation.

    The hyper-parameters of the kernel are set to the maximum of EP's approximation of the marginal
    likelihood, found by L-BFGS with the analytic gradient. Predictions use EP's Gaussian at this
    point. This is the baseline "EP ML" of Filippone & Girolami (2014), section 5.2. It supports two
    classes; for more, wrap it in `sklearn.multiclass.OneVsRestClassifier`.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel or None, default=None
        Covariance function; None is ``ConstantKernel() * RBF()``. The search stays within the
        bounds of its hyper-parameters.
    ard : bool, default=False
        Give the default kernel one length-scale per feature.
    likelihood : {"probit", "logit"} or Likelihood, default="probit"
        Likelihood: the link between latent value and class probability.
    approximation : {"ep", "laplace"} or Approximation, default="ep"
        Approximation of the evidence and of the posterior; "laplace" gives the Laplace analogue.
    n_restarts : int, default=2
        Starts in addition to the kernel's own values, drawn from the default priors.
    random_state : int, RandomState instance or None, default=None
        Seed of the additional starts.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        Class labels, sorted.
    kernel_ : Kernel
        The kernel at the maximum.
    log_marginal_likelihood_value_ : float
        The approximate log evidence at the maximum (natural log).
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features; only if X has feature names that are strings.

    Warns
    -----
    ConvergenceWarning
        If no start of the optimizer converged.

    References
    ----------
    .. [1] Rasmussen, C. E. & Williams, C. K. I. (2006). Gaussian Processes for Machine Learning,
           section 5.5.2.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from skgpmcmc.baselines import EPMLClassifier
    >>> X, y = make_moons(60, noise=0.2, random_state=0)
    >>> float(EPMLClassifier(random_state=0).fit(X, y).score(X, y)) > 0.9
    True
    """

    kernel: Any = None
    _: KW_ONLY
    ard: bool = False
    likelihood: Any = "probit"
    approximation: Any = "ep"
    n_restarts: int = 2
    random_state: Any = None

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def fit(self, X, y):
        """Maximize the approximate evidence.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training inputs.
        y : array-like of shape (n_samples,)
            Labels of two classes.

        Returns
        -------
        EPMLClassifier
            The fitted estimator itself.

        Raises
        ------
        ValueError
            If the data or a parameter are invalid. The results of an earlier fit are kept.
        """
        X, y, features = validate(self, X, y)
        classes, index = number_classes(y)
        targets = make_one_versus_rest(index, len(classes))
        if len(targets) > 1:
            raise ValueError(
                "Only binary classification is supported. y has classes "
                f"{classes.tolist()}: use OneVsRestClassifier({type(self).__name__}(...))."
            )
        model, approximation = self._make_model(X, features, targets[0])
        rng = np.random.default_rng(check.check_seed(self.random_state).randint(2**31))
        bounds = model.covariance.kernel.bounds
        draws = [model.hyperprior.sample(rng) for _ in range(self.n_restarts)]
        starts = [np.clip(theta, *bounds.T) for theta in (model.covariance.start, *draws)]
        with one_thread():
            mode = find_mode(model, approximation, starts, with_hyperprior=False, bounds=bounds)
        if not mode.converged:
            warn(
                f"The evidence was not maximized from any of {self.n_restarts + 1} starts: "
                f"{mode.message}. Increase n_restarts or give the kernel narrower bounds.",
                ConvergenceWarning,
            )
        best = mode.fit
        attributes = {
            "kernel_": model.covariance.kernel.clone_with_theta(best.q.prior.theta),
            "log_marginal_likelihood_value_": best.log_evidence,
            "classes_": classes,
            "_q": best.q,
        }
        replace_fitted(self, {**attributes, **features})
        return self

    def _make_model(
        self, X: np.ndarray, features: dict[str, Any], y: np.ndarray
    ) -> tuple[LatentGP, Approximation]:
        check_integer("n_restarts", self.n_restarts, 0)
        require_memory("A fit", len(X), _N_MATRICES)
        likelihood = check.resolve_likelihood_of_classes(self.likelihood, BERNOULLI_LIKELIHOODS)
        approximation = check.make_approximation(self.approximation)
        of_columns = features.get("feature_names_in_"), features.get("_text_levels")
        kernel = check.resolve_kernel(self.kernel, self.ard, X, smooth_kernel, *of_columns)
        covariance = make_covariance(kernel, X)
        check_gradient(covariance, "fix its hyper-parameters")
        hyperprior = check.resolve_priors(None, covariance, likelihood)  # for restarts only
        return LatentGP(covariance, Observations(likelihood, y), hyperprior), approximation

    def predict_log_proba(self, X):
        """Natural logs of the class probabilities.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict.

        Returns
        -------
        ndarray of shape (n_samples, 2)
            Columns in the order of `classes_`.
        """
        mean, var = self.latent_mean_and_variance(X)
        likelihood = check.resolve_likelihood(self.likelihood, BERNOULLI_LIKELIHOODS)
        return normalize_columns(np.stack(likelihood.log_class_probabilities(mean, var)))

    def latent_mean_and_variance(self, X):
        """Mean and variance of the latent function under the Gaussian approximation.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict.

        Returns
        -------
        latent_mean : ndarray of shape (n_samples,)
            Mean, on the latent scale.
        latent_var : ndarray of shape (n_samples,)
            Variance, on the latent scale.

        Raises
        ------
        ValueError
            If the kernel overflows at a row, which the message names.
        """
        X = validate_new_rows(self, X)
        with one_thread(), np.errstate(over="ignore", invalid="ignore"):  # checked below
            mean, var = self._q.conditional().predict(X)
        is_finite = np.isfinite(mean[:, 0]) & np.isfinite(var)
        if not is_finite.all():
            row = int(np.argmin(is_finite))
            raise ValueError(
                f"The latent function at row {row} of X has mean {mean[row, 0]} and variance "
                f"{var[row]}, as the kernel overflows there: check the units of that row against "
                "those of the training rows, or leave it out."
            )
        return mean[:, 0], var
