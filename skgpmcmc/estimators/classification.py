"""Fully Bayesian Gaussian-process classification."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.callback import with_callbacks

from ..likelihoods import BERNOULLI_LIKELIHOODS, Softmax
from ..run import diagnose
from . import _validation as check
from ._base import Problem
from ._fitted import (
    known_labels,
    numbered_classes,
    one_versus_rest,
    replace_fitted,
    validated,
    weighted_rows,
)
from ._latent import OneLatentFunction
from ._probabilities import LogProbabilityClassifierMixin, normalized_columns

_MULTI_CLASS = ("one_vs_rest", "softmax", "softmax_separate")
#: Attributes that one-vs-rest problems have once per class.
_BINARY_ATTRIBUTES = (
    "theta_samples_",
    "latent_samples_",
    "kernel_",
    "priors_",
    "hyperparameter_names_",
)


class BayesianGPClassifier(LogProbabilityClassifierMixin, OneLatentFunction):
    """Gaussian-process classifier that averages over latent values and hyper-parameters by MCMC.

    Chains sample the kernel's hyper-parameters theta and the latent function f from their joint
    posterior, and predictions average over both. The default sampler, pseudo-marginal MCMC,
    is asymptotically exact.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel or None, default=None
        Covariance of the latent function; None is ``ConstantKernel() * RBF()``. Hyper-parameters
        with bounds ``"fixed"`` keep their value, the others are sampled; other bounds are ignored,
        as priors rule. Features should have comparable scales: put a `StandardScaler` in front.
    ard : bool, default=False
        Give the default kernel one length-scale per feature. An error with an explicit kernel.
    priors : mapping of str to frozen scipy.stats distribution, or None, default=None
        Priors on the *natural* scale by hyper-parameter name, such as ``"k2__length_scale"``.
        Names left out get the defaults: Gamma(1.1, rate 0.1) for constants and noise levels,
        Gamma(1, rate 1/sqrt(n_features)) for length-scales and periodicities, log-normal(0, 1)
        for the rest.
    likelihood : {"probit", "logit"} or Likelihood, default="probit"
        Link between latent value and class probability of binary problems; a softmax has its own.
    sampler : {"pm", "marginal", "sa", "aa", "asis", "surr", "khr"} or Sampler, default="pm"
        "pm": pseudo-marginal, exact. "marginal": theta from the approximate marginal posterior
        and predictions by the approximation's Gaussian, the papers' "MCMC EP". The others move f
        and theta in turn: exact and slow, for comparisons. Or a configured object from
        `skgpmcmc.samplers`.
    approximation : {"auto", "ep", "laplace"} or Approximation, default="auto"
        Gaussian approximation of p(f | y, theta): the importance distribution of "pm", the target
        of "marginal". "auto" is "ep", and "laplace" for a softmax. Or a configured object from
        `skgpmcmc.approximations`. In use by "pm", "marginal" and "khr" (where "auto" is "laplace");
        on the others a name has no effect, and an object is refused.
    n_importance : int or "auto", default="auto"
        Importance draws per marginal-likelihood estimate. "auto" is a function of theta, learned in
        the set-up, for which the estimate has the same small noise everywhere; for random walks it
        is 64. Any number is exact; few draws make chains stick. In use by "pm"; without effect on
        the others.
    n_chains : int, default=4
        Independent chains, from overdispersed starts, per class for more than two classes.
    n_warmup : int or "auto", default="auto"
        Discarded iterations per chain, after the set-up in which the sampler learns. "auto" leaves
        the number to the sampler: 50 for the default one, 500 for a random walk, which is tuned in
        them.
    n_draws : int, default=500
        Kept iterations per chain; at most so many with `target_ess`.
    max_predict_draws : int or None, default=100
        At most so many posterior draws, spread over the posterior of theta and fixed in `fit`,
        enter a prediction; None uses all, as do fits with all hyper-parameters fixed. A change
        after `fit` waits for the next one, and predictions warn of it.
    multi_class : {"one_vs_rest", "softmax", "softmax_separate"}, default="one_vs_rest"
        How more than two classes are handled. "one_vs_rest": one binary problem per class,
        probabilities normalized. "softmax": one model, with a latent function for each class and
        hyper-parameters that all of them share; "softmax_separate" gives each function its own.
        The last two need ``sampler="pm"``, and serve two classes as well.
    target_ess : float or None, default=None
        Stop as soon as every hyper-parameter has effective sample sizes, in bulk and tail, of at
        least this and of at least 100, and an R-hat of at most `max_rhat`, looked at every 50
        iterations; None makes `n_draws`. With all hyper-parameters fixed, log p(y | f) and some
        latent values are looked at instead.
    max_rhat : float, default=1.01
        A `ConvergenceWarning` names the hyper-parameters whose R-hat is larger, or whose
        effective sample size, in bulk or tail, is below 100 or `target_ess`, and says how bad that
        is.
    random_state : int, RandomState instance or None, default=None
        Seed of all chains; the draws do not depend on `n_jobs`.
    n_jobs : int or None, default=None
        Workers for chains (classes and chains share one pool) and for predictions. Every worker
        uses one BLAS thread.
    verbose : int, default=0
        Positive: print about how long `fit` will take and how much memory it needs, and the
        convergence table after it. Above 1 the time left is printed after every 50 draws.
    warm_start : bool, default=False
        Continue the chains of the last `fit`, on the same data and with the same settings, until
        they have `n_draws` kept draws each or `target_ess` is reached. The draws are those that one
        longer fit would have made.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    theta_samples_ : ndarray of shape (n_chains, n_draws, n_hyperparameters)
        Draws of the hyper-parameters, natural logs, in the order of ``kernel_.theta``.
    latent_samples_ : ndarray of shape (n_chains, n_draws, n_train)
        Draws of f at the training inputs; (n_chains, n_draws, n_train, n_classes) for a softmax.
    hyperparameter_names_ : list of str
        Names of the components of theta; with "softmax_separate" they end in the class.
    kernel_ : Kernel
        The kernel at the posterior mean of theta; with "softmax_separate" a `CompoundKernel`.
    priors_ : dict
        Prior of each sampled hyper-parameter, natural scale.
    diagnostics_ : Diagnostics
        R-hat, effective sample sizes, acceptance and cost; prints as a table.
    estimators_ : list of BayesianGPClassifier
        The fitted binary classifiers, for more than two classes one versus rest only; the
        attributes above from `theta_samples_` to `priors_` then live there.
    n_iter_ : int
        Iterations per chain, warm-up included.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, where X has them.

    Warns
    -----
    ConvergenceWarning
        If a hyper-parameter has not converged; the message names it and the remedy.
    UserWarning
        If features have scales that the default priors do not expect.

    References
    ----------
    .. [1] Filippone, M. & Girolami, M. (2014). Pseudo-marginal Bayesian inference for Gaussian
           processes. IEEE Transactions on Pattern Analysis and Machine Intelligence 36(11).
    .. [2] Rasmussen, C. E. & Williams, C. K. I. (2006). Gaussian Processes for Machine Learning.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from skgpmcmc import BayesianGPClassifier
    >>> X, y = make_moons(40, noise=0.3, random_state=0)
    >>> clf = BayesianGPClassifier(random_state=0)
    >>> proba = clf.fit(X, y).predict_proba(X)
    >>> clf.theta_samples_.shape, clf.hyperparameter_names_
    ((4, 500, 2), ['k1__constant_value', 'k2__length_scale'])
    """

    _likelihoods = BERNOULLI_LIKELIHOODS

    def __init__(
        self,
        kernel=None,
        *,
        ard=False,
        priors=None,
        likelihood="probit",
        sampler="pm",
        approximation="auto",
        n_importance="auto",
        n_chains=4,
        n_warmup="auto",
        n_draws=500,
        max_predict_draws=100,
        multi_class="one_vs_rest",
        target_ess=None,
        max_rhat=1.01,
        random_state=None,
        n_jobs=None,
        verbose=0,
        warm_start=False,
    ):
        self.kernel = kernel
        self.ard = ard
        self.priors = priors
        self.likelihood = likelihood
        self.sampler = sampler
        self.approximation = approximation
        self.n_importance = n_importance
        self.n_chains = n_chains
        self.n_warmup = n_warmup
        self.n_draws = n_draws
        self.max_predict_draws = max_predict_draws
        self.multi_class = multi_class
        self.target_ess = target_ess
        self.max_rhat = max_rhat
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.warm_start = warm_start

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
            Powers of the rows' likelihoods: an integer weight is a repeated row, and a row of
            weight zero is left out.

        Returns
        -------
        BayesianGPClassifier
            Itself, fitted.

        Raises
        ------
        ValueError
            For impossible data or parameters; an earlier fit stays untouched.
        MemoryError
            If the machine has too little memory for so many rows.
        """
        check.check_choice("multi_class", self.multi_class, _MULTI_CLASS)
        X, y, features = validated(self, X, y)
        weight, X, y = weighted_rows(sample_weight, X, y)
        classes, index = numbered_classes(y)
        names = {"classes_": classes, **features}
        if self.multi_class == "one_vs_rest":
            likelihood = check.resolve_likelihood(self.likelihood, self._likelihoods)
            targets = one_versus_rest(index, len(classes))
            problems = [Problem(likelihood, target, None, weight) for target in targets]
            fitted = self._fit_each(X, problems, names)
        else:
            fitted = self._fit_jointly(X, index, weight, classes)
        self._finish(X, fitted, names)
        return self

    def _fit_jointly(self, X, index, weight, classes) -> dict[str, Any]:
        """Sample the softmax model of all classes; returns the fitted attributes."""
        if not isinstance(self.likelihood, str) or self.likelihood not in self._likelihoods:
            raise ValueError(
                f"multi_class={self.multi_class!r} has a likelihood of its own, the softmax, and "
                f'likelihood={self.likelihood!r} would have no effect: use likelihood="probit", '
                'the default, or multi_class="one_vs_rest".'
            )
        separate = self.multi_class == "softmax_separate"
        softmax = Softmax(len(classes))
        problem = Problem(softmax, index.astype(float), None, weight, separate)
        fitted = self._fit_one(X, problem, classes.tolist() if separate else None)
        draws = fitted["latent_samples_"]  # class after class
        by_class = draws.reshape(*draws.shape[:2], len(classes), len(X))
        return {**fitted, "latent_samples_": np.swapaxes(by_class, 2, 3)}

    def _fit_each(self, X, problems, names) -> dict[str, Any]:
        """Sample all problems; returns the fitted attributes."""
        run = self._sample(X, problems)
        per_model, noise, kept = self._fitted_models(run)
        return {**self._joined(run, per_model, noise, names), **kept}

    def _joined(self, run, per_model, noise, names) -> dict[str, Any]:
        """Fitted attributes of the whole: for two classes those of the model, else one-vs-rest."""
        elements = per_model[0]["hyperparameter_names_"]
        if len(per_model) == 1:
            return {**per_model[0], "diagnostics_": diagnose(run, elements, noise, [0])}
        estimators = []
        for m, fitted in enumerate(per_model):
            binary = clone(self)
            own = {
                "classes_": np.array([0, 1]),
                "diagnostics_": diagnose(run, elements, noise, [m]),
            }
            replace_fitted(binary, {**fitted, **names, **own})
            estimators.append(binary)
        labels = names["classes_"].tolist()
        return {
            "estimators_": estimators,
            "n_iter_": estimators[0].n_iter_,
            "diagnostics_": diagnose(run, elements, noise, range(len(estimators)), labels),
        }

    def __getattr__(self, name: str) -> Any:
        # Only called where normal look-up fails.
        if name in _BINARY_ATTRIBUTES and "estimators_" in vars(self):
            raise AttributeError(
                f"{name} exists once per class for more than two classes: see "
                f"estimators_[k].{name} for the class classes_[k]."
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def predict_log_proba(self, X):
        """Natural logs of the class probabilities, accurate where they are tiny.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Columns in the order of `classes_`.
        """
        X = self._check_X(X)
        if not self._one_versus_rest:
            p = self._predictor.class_probabilities(X, self.n_jobs)
            with np.errstate(divide="ignore"):  # a class that no draw would give a chance
                return normalized_columns(np.log(p))
        if len(self.classes_) == 2:
            both = [np.full(len(X), -1.0), np.full(len(X), 1.0)]
            log_p = self._predictor.log_predictive(both, X, self.n_jobs)
        else:
            one = [np.full(len(X), 1.0)]
            log_p = np.concatenate(
                [e._predictor.log_predictive(one, X, self.n_jobs) for e in self.estimators_]
            )
        return normalized_columns(log_p)

    def log_predictive_density(self, X, y):
        """Log of the posterior predictive probability of each label.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict.
        y : array-like of shape (n_samples,)
            Labels among `classes_`.

        Returns
        -------
        ndarray of shape (n_samples,)
            Natural logs, point by point.
        """
        log_p = self.predict_log_proba(X)
        index = known_labels(y, self.classes_, len(log_p))
        return log_p[np.arange(len(log_p)), index]

    @property
    def _one_versus_rest(self) -> bool:
        """Whether the fitted models are binary."""
        return "estimators_" in vars(self) or self._predictor.model.likelihood.n_functions == 1

    def _check_single(self, method: str) -> None:
        if "estimators_" in vars(self):
            raise ValueError(
                f"{method} is defined for two classes, and there are {len(self.classes_)}: call "
                f"estimators_[k].{method} for the class classes_[k] against the rest."
            )
