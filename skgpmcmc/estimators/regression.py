"""Fully Bayesian Gaussian-process regression."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.callback import with_callbacks
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from .._params import check_flag, check_in
from ..likelihoods import Gaussian, Likelihood, StudentT
from ..model import Observations
from . import _validation as check
from ._data import (
    check_numbers,
    check_rows,
    in_units_of_y,
    power_of_two,
    root_mean_square,
    rows_to_predict,
    validated,
    weighted_rows,
)
from ._docs import documented
from ._latent import OneLatentFunction

#: Where chains may start: the noise of normalized targets.
_NOISE_START = 0.3
#: Largest size of numbers that are squared, and multiplied with others of their kind.
_LARGEST = 1e100
#: What to do about targets that a likelihood does not know.
_REMEDY = (
    " normalize_y=True has standardized them: use normalize_y=False for a likelihood that does not "
    "take every number."
)


@documented
@dataclass(eq=False, repr=False)
class BayesianGPRegressor(RegressorMixin, OneLatentFunction):
    """Gaussian-process regression that averages over noise and hyper-parameters by MCMC.

    The latent function is integrated out in closed form (``sampler="collapsed"``), so that chains
    move on the hyper-parameters alone; Student-t noise is sampled by pseudo-marginal MCMC.

    Parameters
    ----------
    %(kernel)s
    %(priors)s, or ``"noise_scale"``
    likelihood : {"gaussian", "student_t"} or Likelihood, default="gaussian"
        Law of the noise, whose scale is inferred (``"noise_scale"``, in units of the normalized
        targets). "student_t" is robust to outliers, and needs ``sampler="pm"``.
    sampler : {"collapsed", "pm", "marginal", "sa", "aa", "asis", "surr", "khr", \
            "discretizing", "tempered"} or Sampler, default="collapsed"
        "collapsed": the latent function is integrated out, exact. "discretizing" and "tempered":
        the same; theta moves along a cheap approximation of its posterior. "pm":
        pseudo-marginal, exact, for any likelihood. "marginal": theta from the approximate
        marginal posterior. The others update f and theta alternately: exact and slow, for
        comparisons. Or a configured object from `skgpmcmc.samplers`.
    %(approximation)s
    alpha : float, default=0.0
        Known noise variance that is added for every row, in units of y squared.
    normalize_y : bool, default=True
        Subtract the mean of y and divide by its standard deviation. Predictions, densities and
        latent values are in the units of y all the same; hyper-parameters are those of the
        normalized targets.
    %(schedule)s

    Attributes
    ----------
    %(attributes)s

    Warns
    -----
    ConvergenceWarning
        If a hyper-parameter has not converged; the message names it and the remedy.

    References
    ----------
    .. [1] Rasmussen, C. E. & Williams, C. K. I. (2006). Gaussian Processes for Machine Learning.

    Examples
    --------
    >>> import numpy as np
    >>> from skgpmcmc import BayesianGPRegressor
    >>> X = np.linspace(0.0, 4.0, 30)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(30)
    >>> reg = BayesianGPRegressor(random_state=0).fit(X, y)
    >>> mean, std = reg.predict(X, return_std=True)
    >>> reg.hyperparameter_names_
    ['k1__constant_value', 'k2__length_scale', 'noise_scale']
    """

    _likelihoods: ClassVar[dict[str, type[Likelihood]]] = {
        "gaussian": Gaussian,
        "student_t": StudentT,
    }
    _samplers = ("collapsed", *OneLatentFunction._samplers)

    kernel: Any = None
    _: KW_ONLY
    ard: bool = False
    priors: Any = None
    likelihood: Any = "gaussian"
    sampler: Any = "collapsed"
    approximation: Any = "auto"
    n_importance: int | str = "auto"
    alpha: float = 0.0
    normalize_y: bool = True
    n_chains: int = 4
    n_warmup: int | str = "auto"
    n_draws: int = 2000
    max_predict_draws: int | str | None = "auto"
    predict_cache_bytes: int = 2**29
    target_ess: float | None = 400.0
    max_rhat: float = 1.01
    random_state: Any = None
    n_jobs: int | None = None
    verbose: int = 0
    warm_start: bool = False

    @with_callbacks
    def fit(self, X, y, sample_weight=None, noise_variance=None):
        """Sample the posterior.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training inputs.
        y : array-like of shape (n_samples,)
            Targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Powers of the rows' likelihoods: an integer weight is a repeated row, and a row of
            weight zero is left out.
        noise_variance : array-like of shape (n_samples,), default=None
            Known noise variance of each row, in units of y squared, that is added to the inferred
            one.

        Returns
        -------
        BayesianGPRegressor
            Itself, fitted.

        Raises
        ------
        ValueError
            For impossible data or parameters; an earlier fit stays untouched.
        MemoryError
            If the machine has too little memory for so many rows.
        """
        X, y, features = validated(self, X, y, y_numeric=True)
        rows = None
        if noise_variance is not None:
            rows = check_rows("noise_variance", noise_variance, len(X), "not negative")
        weight, X, y, rows = weighted_rows(sample_weight, X, y.astype(float), rows)
        shift, scale = self._normalization(y, weight)
        likelihood = self._resolved_likelihood(scale, rows)
        targets = _standardized(y, shift, scale)
        check.check_targets(targets, likelihood, remedy=_REMEDY if self.normalize_y else "")
        run = self._sample(X, Observations(likelihood, targets, None, weight))
        return self._finish(X, run, features, units=(shift, scale))

    def _normalization(self, y: np.ndarray, weight: np.ndarray | None) -> tuple[float, float]:
        """Shift and scale of the targets."""
        if not check_flag("normalize_y", self.normalize_y):
            _check_size(y)
            return 0.0, 1.0
        if np.ptp(y / 2.0) == 0.0:  # an average may be off by a rounding, which is no scale
            return float(y[0]), 1.0
        unit = power_of_two(y)
        inside = y / unit
        center = float(np.average(inside, weights=weight))
        return unit * center, unit * root_mean_square(inside - center, weight)

    def _resolved_likelihood(self, scale: float, rows: np.ndarray | None) -> Likelihood:
        remedy = " For one variance per row use fit(X, y, noise_variance=...)."
        alpha = check_in("alpha", self.alpha, "[0, inf)", remedy)
        if isinstance(self.likelihood, str) and self.likelihood == "gaussian":
            row_variance = None if rows is None else _normalized_variance(rows, scale)
            alpha = float(_normalized_variance(alpha, scale))
            return Gaussian(_NOISE_START, alpha=alpha, row_variance=row_variance)
        if rows is not None or alpha > 0.0:
            raise ValueError(
                "alpha and noise_variance are variances of Gaussian noise; with likelihood="
                f"{self.likelihood!r} leave them out."
            )
        return check.resolve_likelihood(self.likelihood, self._likelihoods)

    @cached_property
    def latent_samples_(self):
        """Draws of the latent function; where chains integrate it out, made when asked for.

        Returns
        -------
        ndarray of shape (n_chains, n_draws, n_train)
            In units of y; the same whatever `n_jobs` is.
        """
        check_is_fitted(self)
        return in_units_of_y(self._with_latent_draws().f, *self._units)

    def _log_density_shift(self):
        return -float(np.log(self._units[1]))

    def predict(self, X, return_std=False, return_quantiles=None):
        """Posterior predictive mean, and what else is asked for.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict.
        return_std : bool, default=False
            Return the standard deviation of a new target, too, noise included.
        return_quantiles : sequence of float, default=None
            Probabilities, between 0 and 1, of the quantiles of a new target to return, too.

        Returns
        -------
        y_mean : ndarray of shape (n_samples,)
            Mean, in units of y.
        y_std : ndarray of shape (n_samples,)
            Only with `return_std`.
        y_quantiles : ndarray of shape (n_quantiles, n_samples)
            Only with `return_quantiles`.
        """
        X = rows_to_predict(self, X)
        shift, scale = self._units
        if return_std:
            mean, var = self._predictor.target_moments(X, self.n_jobs)
            results = [(mean, shift), (np.sqrt(var), 0.0)]
        else:
            results = [(self._predictor.target_mean(X, self.n_jobs), shift)]
        if return_quantiles is not None:
            probabilities = np.atleast_1d(check_numbers("return_quantiles", return_quantiles))
            if probabilities.ndim != 1 or not np.all((probabilities > 0) & (probabilities < 1)):
                raise ValueError(
                    "return_quantiles must be probabilities between 0 and 1; got "
                    f"{return_quantiles!r}."
                )
            results.append((self._predictor.target_quantiles(probabilities.tolist(), X), shift))
        results = [in_units_of_y(values, own, scale) for values, own in results]
        return results[0] if len(results) == 1 else tuple(results)

    def sample_y(self, X, n_samples=1, random_state=None):
        """Draw new targets from the posterior predictive, jointly over the rows of X.

        Parameters
        ----------
        X : array-like of shape (n_samples_X, n_features)
            Rows at which targets are drawn.
        n_samples : int, default=1
            Number of draws for each row.
        random_state : int, RandomState instance or None, default=None
            Seed of the draws.

        Returns
        -------
        ndarray of shape (n_samples_X, n_samples)
            In units of y; noise of one scale in each column.
        """
        X = rows_to_predict(self, X)
        rng = self._joint_stream(X, "n_samples", n_samples, random_state)
        return in_units_of_y(self._predictor.sample_targets(X, n_samples, rng).T, *self._units)

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
            Natural logs, per unit of y, point by point; minus infinity where even the log is below
            all numbers.
        """
        X = rows_to_predict(self, X)
        y = check_rows("y", y, len(X))
        targets = _standardized(y, *self._units)
        log_p = self._predictor.log_predictive([targets], X, self.n_jobs)[0]
        return log_p + self._log_density_shift()

    def score(self, X, y, sample_weight=None):
        """Share of the variance of y that the mean explains (R2).

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
            At most 1; a constant prediction of the mean of y has 0.
        """
        predicted = self.predict(X)
        y = check_rows("y", y, len(predicted))
        unit = power_of_two(y)  # R2 has none, and its squares may overflow
        with np.errstate(over="ignore", invalid="ignore"):  # looked for in the next line
            score = float(r2_score(y / unit, predicted / unit, sample_weight=sample_weight))
        if not np.isfinite(score):
            row = int(np.argmax(np.abs(predicted / unit)))
            raise ValueError(
                f"R2 overflows, as the prediction for row {row} of X is {predicted[row]:g}, out of "
                "all proportion to y: check the units of that row, or leave it out."
            )
        return score


def _standardized(y: np.ndarray, shift: float, scale: float) -> np.ndarray:
    """Return ``(y - shift) / scale``; infinite only where that is beyond double precision."""
    unit = power_of_two(np.array([scale]))
    with np.errstate(over="ignore"):  # a target that far out has no density
        return (y / unit - shift / unit) / (scale / unit)


def _normalized_variance(variance: Any, scale: float) -> np.ndarray:
    """Return ``variance / scale**2``, whose square may not be a number."""
    with np.errstate(over="ignore", divide="ignore"):  # looked for in the next line
        normalized = np.asarray(variance / scale) / scale
    if not np.all(normalized < _LARGEST):
        raise ValueError(
            f"alpha or noise_variance is {np.max(variance):g}, out of all proportion to y, whose "
            f"standard deviation is {scale:g}: they are in units of y squared."
        )
    return normalized


def _check_size(y: np.ndarray) -> None:
    """Refuse targets whose squares leave the range of double precision."""
    size = np.max(np.abs(y))
    if size > 0.0 and not 1.0 / _LARGEST < size < _LARGEST:
        row = int(np.argmax(np.abs(y)))
        raise ValueError(
            f"y has no size that can be worked with as it is: the largest, in row {row}, is "
            f"{y[row]:g}, whose square is beyond double precision. Use normalize_y=True, or "
            "divide y by a power of ten."
        )
