"""Fully Bayesian Gaussian-process volatility."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit
from sklearn.base import RegressorMixin
from sklearn.callback import with_callbacks

from .._params import check_flag, check_in
from .._warnings import warn
from ..likelihoods.gaussian import Volatility
from ._average import fit_average, kernels_to_average
from ._data import check_rows, check_weights, root_mean_square, validate, validate_rows_to_predict
from ._docs import document
from ._latent import OneLatentFunction
from ._named import names_methods
from ._parameters import ModelParameters
from ._predictive import exceedance, mean_of_exp, predict_targets

#: Targets are not taken to be nearer to zero than this share of their root mean square.
_RESOLUTION = 1e-3
#: Largest size of targets that are squared as they are.
_LARGEST_SQUARED = 1e100


@dataclass(eq=False, repr=False, kw_only=True)
class _VolatilityParameters(ModelParameters):
    """Parameters of the model that only this estimator has."""

    center: bool = True


@names_methods
@document
@dataclass(eq=False, repr=False, kw_only=True)
class BayesianGPVolatilityRegressor(RegressorMixin, OneLatentFunction, _VolatilityParameters):
    """Gaussian-process model of the scale (volatility) of zero-mean targets, by MCMC.

    A target, such as the return of an asset, is normal with mean zero and standard deviation
    ``exp(f)``, where f is a Gaussian process. A target of exactly zero, mostly due to rounding,
    would imply a standard deviation of zero. Therefore targets whose absolute value is below a
    thousandth of the root mean square are replaced by that value.

    %(groups)s

    Parameters
    ----------
    %(kernel)s
    %(priors)s
    center : bool, default=True
        Add the log of the root mean square of y to f. Far from the data, the predicted scale then
        returns to that of all targets, and not to one.
    %(run)s
    %(pm)s
    %(advanced)s

    Attributes
    ----------
    %(attributes)s

    Warns
    -----
    %(warns)s
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
            Weights of the rows. The likelihood of a row is raised to the power of its weight: an
            integer weight is equivalent to repeating the row, weight zero to leaving it out.

        Returns
        -------
        BayesianGPVolatilityRegressor
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
        X, y, features = validate(self, X, y, y_numeric=True)
        rows = self._training_rows(X, features, sample_weight, Volatility(), y)
        y = y[rows.chosen].astype(float)
        if not np.any(y):
            raise ValueError("y is zero in every row, so it has no scale to learn.")
        scale = root_mean_square(y, rows.weight)
        _warn_about_mean(y / scale, rows.weight, scale)
        # p(0 | f) = exp(-f) has no bound, and the posterior of a single exact zero no integral.
        targets = y / scale
        targets = np.where(np.abs(targets) < _RESOLUTION, _RESOLUTION, targets)
        if not check_flag("center", self.center):
            if not 1.0 / _LARGEST_SQUARED < scale < _LARGEST_SQUARED:
                raise ValueError(
                    f"y has a root mean square of {scale:g}, and center=False expects one that a "
                    "latent function around zero can reach: use center=True, or divide y by a "
                    "power of ten."
                )
            targets = targets * scale
            scale = 1.0
        run = self._sample(rows, features, Volatility(), targets)
        return self._finish(X, rows, run, features, units=(float(np.log(scale)), 1.0))

    def _log_density_shift(self):
        return -self._units[0]

    @property
    def _target_units(self):
        return 0.0, float(np.exp(self._units[0]))

    def predict(self, X, return_std=False, return_quantiles=None):
        """Posterior mean of the standard deviation of y; on request also quantiles and more.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict.
        return_std : bool, default=False
            Also return the standard deviation of a new target under the posterior predictive
            distribution: the root of the posterior mean of exp(2 f), which is larger than the
            posterior mean of exp(f).
        return_quantiles : sequence of float, default=None
            Also return quantiles of a new target, for these probabilities between 0 and 1.

        Returns
        -------
        scale_mean : ndarray of shape (n_samples,)
            Posterior means of exp(f). The mean of a new target itself is zero.
        y_std : ndarray of shape (n_samples,)
            Only with `return_std`.
        y_quantiles : ndarray of shape (n_quantiles, n_samples)
            Only with `return_quantiles`.
        """
        X = validate_rows_to_predict(self, X)
        scale = self._predictor.expectation(mean_of_exp, X, self.n_jobs, self._units[0])[0]
        return predict_targets(self, X, return_std, return_quantiles, point=scale)

    def exceedance_proba(self, X, threshold):
        """Posterior probability that the standard deviation of y is above a threshold.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict.
        threshold : float
            Positive; in units of y.

        Returns
        -------
        ndarray of shape (n_samples,)
            Probabilities.
        """
        X = validate_rows_to_predict(self, X)
        log_threshold = np.log(check_in("threshold", threshold, "(0, inf)"))
        return exceedance(self, X, log_threshold, self._units[0])

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
            Natural logs of the density of each row alone, per unit of y; minus infinity if even the
            log is below the range of double precision.
        """
        X = validate_rows_to_predict(self, X)
        y = check_rows("y", y, len(X))
        with np.errstate(over="ignore"):  # a target that far out has no density
            targets = y / np.exp(self._units[0])
        (log_p,) = self._predictor.log_predictive([targets], X, self.n_jobs)
        return log_p + self._log_density_shift()

    def score(self, X, y, sample_weight=None):
        """Mean log predictive density; larger is better.

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
            Natural log; minus infinity if that of any row is.
        """
        log_p = self.log_predictive_density(X, y)
        return float(np.average(log_p, weights=check_weights(sample_weight, len(log_p))))


def _warn_about_mean(standardized: np.ndarray, weight: np.ndarray | None, scale: float) -> None:
    """Say that targets, given in units of their root mean square, are not near zero on average."""
    mean = float(np.average(standardized, weights=weight))
    sd = np.sqrt(max(1.0 - mean**2, 0.0))
    df = len(standardized) - 1
    # Of few targets the mean may be larger than the standard deviation by chance.
    if df > 0 and np.abs(mean) > sd * max(1.0, stdtrit(df, 1.0 - 1e-5) / np.sqrt(df)):
        warn(
            f"y has mean {mean * scale:.4g} and standard deviation {sd * scale:.4g}, but the model "
            "assumes targets with mean zero, and would take the mean for a part of their scale: "
            "subtract it from y before fit.",
        )
