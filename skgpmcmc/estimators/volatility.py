"""Fully Bayesian Gaussian-process volatility."""

from __future__ import annotations

import warnings

import numpy as np
from scipy.special import stdtrit
from sklearn.base import RegressorMixin
from sklearn.callback import with_callbacks

from ..likelihoods import Likelihood, Volatility
from . import _validation as check
from ._base import Problem
from ._docs import documented
from ._fitted import root_mean_square, validated, weighted_rows
from ._latent import OneLatentFunction

#: Targets are not taken to be nearer to zero than this share of their root mean square.
_RESOLUTION = 1e-3
#: Largest size of targets that are squared as they are.
_LARGEST = 1e100


@documented
class BayesianGPVolatilityRegressor(RegressorMixin, OneLatentFunction):
    """Scale of zero-mean targets, such as returns: its log is a Gaussian process, by MCMC.

    A target is normal with mean zero and standard deviation ``exp(f)``. Targets below a thousandth
    of the root mean square, in size, count as that: the model would take an exact zero, which in
    practice is a rounding, for proof of a scale of zero.

    Parameters
    ----------
    %(kernel)s
    %(priors)s
    %(pm)s
    %(approximation)s
    center : bool, default=True
        Add the log of the root mean square of y to f, so that far from data the scale returns to
        that of all targets and not to one.
    %(schedule)s

    Attributes
    ----------
    %(attributes)s

    Warns
    -----
    ConvergenceWarning
        If a hyper-parameter has not converged; the message names it and the remedy.
    UserWarning
        If the mean of y is far from zero, compared with its standard deviation.

    References
    ----------
    .. [1] Filippone, M., Zhong, M. & Girolami, M. (2013). A comparative evaluation of
           stochastic-based inference methods for Gaussian process models. Machine Learning 93.

    Examples
    --------
    >>> import numpy as np
    >>> from skgpmcmc import BayesianGPVolatilityRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = np.linspace(0.0, 4.0, 60)[:, None]
    >>> y = 0.01 * np.exp(np.sin(2.0 * X[:, 0])) * rng.standard_normal(60)
    >>> reg = BayesianGPVolatilityRegressor(random_state=0).fit(X, y)
    >>> reg.predict(X).shape
    (60,)
    """

    def __init__(
        self,
        kernel=None,
        *,
        ard=False,
        priors=None,
        sampler="pm",
        approximation="auto",
        n_importance="auto",
        center=True,
        n_chains=4,
        n_warmup="auto",
        n_draws=500,
        max_predict_draws=100,
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
        self.sampler = sampler
        self.approximation = approximation
        self.n_importance = n_importance
        self.center = center
        self.n_chains = n_chains
        self.n_warmup = n_warmup
        self.n_draws = n_draws
        self.max_predict_draws = max_predict_draws
        self.target_ess = target_ess
        self.max_rhat = max_rhat
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.warm_start = warm_start

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags

    @with_callbacks
    def fit(self, X, y, sample_weight=None):
        """Sample the posterior.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training inputs.
        y : array-like of shape (n_samples,)
            Targets with mean zero.
        sample_weight : array-like of shape (n_samples,), default=None
            Powers of the rows' likelihoods: an integer weight is a repeated row, and a row of
            weight zero is left out.

        Returns
        -------
        BayesianGPVolatilityRegressor
            Itself, fitted.

        Raises
        ------
        ValueError
            For impossible data or parameters; an earlier fit stays untouched.
        MemoryError
            If the machine has too little memory for so many rows.
        """
        X, y, features = validated(self, X, y, y_numeric=True)
        weight, X, y = weighted_rows(sample_weight, X, y.astype(float))
        if not np.any(y):
            raise ValueError("y is zero in every row, so it has no scale to learn.")
        scale = root_mean_square(y, weight)
        _warn_about_mean(y / scale, weight, scale)
        # p(0 | f) = exp(-f) has no bound, and the posterior of a single exact zero no integral.
        targets = y / scale
        targets = np.where(np.abs(targets) < _RESOLUTION, _RESOLUTION, targets)
        if not check.check_flag("center", self.center):
            _check_scale(scale)
            targets, scale = targets * scale, 1.0
        likelihood: Likelihood = Volatility()
        fitted = self._fit_one(X, Problem(likelihood, targets, None, weight))
        center = float(np.log(scale))
        fitted["latent_samples_"] = center + fitted["latent_samples_"]
        self._finish(X, {**fitted, "_center": center}, features)
        return self

    def _latent_scale(self):
        return self._center, 1.0

    def _log_density_shift(self):
        return -self._center

    def predict(self, X):
        """Posterior mean of the standard deviation of y.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict.

        Returns
        -------
        ndarray of shape (n_samples,)
            Posterior means of exp(f).
        """
        X = self._check_X(X)
        return self._predictor.expectation(_scale, X, self.n_jobs, self._center)[0]

    def log_predictive_density(self, X, y):
        """Log of the posterior predictive density of each target.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict.
        y : array-like of shape (n_samples,)
            Targets.

        Returns
        -------
        ndarray of shape (n_samples,)
            Natural logs, point by point; minus infinity where even the log is below all numbers.
        """
        X = self._check_X(X)
        y = check.check_new_targets(y, len(X))
        with np.errstate(over="ignore"):  # a target that far out has no density
            targets = y / np.exp(self._center)
        return self._predictor.log_predictive([targets], X, self.n_jobs)[0] - self._center

    def score(self, X, y, sample_weight=None):
        """Mean log predictive density, the larger the better.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict.
        y : array-like of shape (n_samples,)
            Targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        float
            Natural log; minus infinity where it is for one of the rows.
        """
        log_p = self.log_predictive_density(X, y)
        return float(np.average(log_p, weights=check.check_weights(sample_weight, len(log_p))))


def _warn_about_mean(standardized: np.ndarray, weight: np.ndarray | None, scale: float) -> None:
    """Say that targets, given in units of their root mean square, are not near zero on average."""
    mean = float(np.average(standardized, weights=weight))
    sd, df = np.sqrt(max(1.0 - mean**2, 0.0)), len(standardized) - 1
    # Of few targets the mean may be larger than the standard deviation by chance.
    if df > 0 and np.abs(mean) > sd * max(1.0, stdtrit(df, 1.0 - 1e-5) / np.sqrt(df)):
        warnings.warn(
            f"y has mean {mean * scale:.4g} and standard deviation {sd * scale:.4g}, but the model "
            "is of targets whose mean is zero, and would take the mean for their scale: subtract "
            "it from y before fit.",
            UserWarning,
            stacklevel=4,
        )


def _check_scale(scale: float) -> None:
    """Refuse targets that are far from one where nothing centers f."""
    if not 1.0 / _LARGEST < scale < _LARGEST:
        raise ValueError(
            f"y has a root mean square of {scale:g}, and center=False expects one that a latent "
            "function around zero can reach: use center=True, or divide y by a power of ten."
        )


def _scale(likelihood: Likelihood, mean: np.ndarray, var: np.ndarray) -> np.ndarray:
    """Mean of exp(f) over f ~ N(mean, var)."""
    return np.exp(mean + 0.5 * var)[None]
