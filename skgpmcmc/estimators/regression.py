"""Fully Bayesian Gaussian-process regression."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.callback import with_callbacks
from sklearn.metrics import r2_score

from .._params import check_flag, check_in
from ..likelihoods import Gaussian, Likelihood, StudentT
from . import _validation as check
from ._data import (
    check_rows,
    in_units_of_y,
    power_of_two,
    root_mean_square,
    rows_to_predict,
    validated,
)
from ._docs import documented
from ._latent import OneLatentFunction, require_joint_memory
from ._named import names_methods
from ._predictive import predicted

#: Where chains may start: the noise of normalized targets.
_NOISE_START = 0.3
#: Largest size of numbers that are squared, and multiplied with others of their kind.
_LARGEST = 1e100
#: What to do about targets that a likelihood does not know.
_REMEDY = (
    " normalize_y=True has standardized them: use normalize_y=False for a likelihood that does not "
    "take every number."
)


@names_methods
@documented
@dataclass(eq=False, repr=False)
class BayesianGPRegressor(RegressorMixin, OneLatentFunction):
    """Gaussian-process regression that averages over noise and hyper-parameters by MCMC.

    With Gaussian noise, the latent function is integrated out in closed form, and the Markov chains
    sample only the hyper-parameters. With other noise, such as Student's t, the sampler is
    pseudo-marginal MCMC. Both are exact.

    Parameters
    ----------
    %(kernel)s
    %(priors)s, or ``"noise_scale"``
    likelihood : {"gaussian", "student_t"} or Likelihood, default="gaussian"
        Distribution of the noise. Its scale is inferred (hyper-parameter ``"noise_scale"``, in
        units of the normalized targets). "student_t" is robust to outliers.
    sampler : {"auto", "collapsed", "pm", "marginal", "sa", "aa", "asis", "surr", "khr", \
            "discretizing", "tempered"} or Sampler, default="auto"
        "auto" is "collapsed" for Gaussian noise, and "pm" otherwise. "collapsed": integrates the
        latent function out in closed form; exact, only for Gaussian noise. "pm": pseudo-marginal
        MCMC, exact for any likelihood. "discretizing" and "tempered": exact; proposals of theta
        come from a cheap approximation of its posterior, and f is integrated out if the noise is
        Gaussian. "marginal": samples theta from the approximate marginal posterior. The others
        update f and theta alternately; they are exact but slow, and meant for comparisons. Or a
        configured object from `skgpmcmc.samplers`.
    %(approximation)s
    alpha : float, default=0.0
        Known noise variance, the same for every row, that is added to the inferred one; in units of
        y squared. Only with Gaussian noise.
    normalize_y : bool, default=True
        Subtract the mean of y and divide by its standard deviation. Predictions, densities and
        latent values are still in the units of y; hyper-parameters are those of the normalized
        targets.
    %(schedule)s

    Attributes
    ----------
    %(attributes)s

    Warns
    -----
    ConvergenceWarning
        If a hyper-parameter has not converged; the message names it and says what to do.

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
    _samplers = ("auto", "collapsed", *OneLatentFunction._samplers)

    kernel: Any = None
    _: KW_ONLY
    ard: bool = False
    priors: Any = None
    likelihood: Any = "gaussian"
    sampler: Any = "auto"
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
    checkpoint: Any = None
    max_time: float | None = None
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
            Weights of the rows. The likelihood of a row is raised to the power of its weight: an
            integer weight is equivalent to repeating the row, weight zero to leaving it out.
        noise_variance : array-like of shape (n_samples,), default=None
            Known noise variance of each row that is added to the inferred one; in units of y
            squared. Only with Gaussian noise.

        Returns
        -------
        BayesianGPRegressor
            The fitted estimator itself.

        Raises
        ------
        ValueError
            If the data or a parameter are invalid. The results of an earlier fit are kept.
        MemoryError
            If the machine has too little memory for this number of rows.
        """
        X, y, features = validated(self, X, y, y_numeric=True)
        variance = None
        if noise_variance is not None:
            variance = check_rows("noise_variance", noise_variance, len(X), "not negative")
        _check_row_variance(self.likelihood, len(X))
        of_rows = self._resolved_likelihood(1.0, variance)  # whose scale tells no rows apart
        rows = self._training_rows(X, sample_weight, of_rows, y)
        shift, scale = self._normalization(y[rows.chosen].astype(float), rows.weight)
        likelihood = self._resolved_likelihood(scale, variance)
        targets = _standardized(y.astype(float), shift, scale)
        remedy = _REMEDY if self.normalize_y else ""
        check.check_targets(targets[rows.kept], likelihood.of_rows(rows.kept), remedy=remedy)
        run = self._sample(rows, rows.observed(likelihood, targets[rows.chosen]))
        return self._finish(X, rows, run, features, units=(shift, scale))

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
        """Likelihood of all rows, where `rows` are their variances in units of y squared."""
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

    def _log_density_shift(self):
        return -float(np.log(self._units[1]))

    @property
    def _target_units(self):
        return self._units

    def predict(self, X, return_std=False, return_quantiles=None, return_cov=False):
        """Posterior predictive mean; on request also standard deviations, quantiles or covariances.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict.
        return_std : bool, default=False
            Also return the standard deviation of a new target, noise included.
        return_quantiles : sequence of float, default=None
            Also return quantiles of a new target, for these probabilities between 0 and 1.
        return_cov : bool, default=False
            Also return the covariance matrix of new targets at all rows: that of the latent
            function, plus the noise variance on the diagonal. Its diagonal is the square of what
            `return_std` returns.

        Returns
        -------
        y_mean : ndarray of shape (n_samples,)
            Mean, in units of y.
        y_std : ndarray of shape (n_samples,)
            Only with `return_std`.
        y_cov : ndarray of shape (n_samples, n_samples)
            Only with `return_cov`; in units of y squared.
        y_quantiles : ndarray of shape (n_quantiles, n_samples)
            Only with `return_quantiles`.

        Raises
        ------
        RuntimeError
            If both `return_std` and `return_cov` are True, as in scikit-learn.
        ValueError
            If a prediction overflows, or if `return_cov` is True and the mean of a target is not
            the latent function.
        """
        if return_std and return_cov:
            raise RuntimeError("At most one of return_std and return_cov can be asked for.")
        X = rows_to_predict(self, X)
        if not return_cov:
            return predicted(self, X, return_std, return_quantiles)
        mean, covariance = self._joint_moments(X)
        point = in_units_of_y(mean, *self._units)
        found = predicted(self, X, False, return_quantiles, point=point)
        _, *quantiles = found if isinstance(found, tuple) else (found,)
        scale = self._units[1]
        return (point, in_units_of_y(scale * covariance, 0.0, scale), *quantiles)

    def _joint_moments(self, X):
        """Predictive mean and covariance of the encoded targets at all rows."""
        require_joint_memory(len(X))
        f, likelihood = np.array([-1.0, 0.5]), self._predictor.model.likelihood.at_new_rows()
        if not np.array_equal(likelihood.predictive_moments(f, np.ones(2)).mean, f):
            raise ValueError(
                "return_cov is for noise around the latent function, and the mean of a target is "
                f"not that under the {likelihood.name!r} likelihood: use the covariance of many "
                "draws by sample_y."
            )
        return self._predictor.target_covariance(X)

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
        X = rows_to_predict(self, X)
        y = check_rows("y", y, len(X))
        targets = _standardized(y, *self._units)
        log_p = self._predictor.log_predictive([targets], X, self.n_jobs)[0]
        return log_p + self._log_density_shift()

    def score(self, X, y, sample_weight=None):
        """Coefficient of determination (R2) of the predictive mean.

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
            At most 1, which is best; predicting the mean of y for every row scores 0.
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


def _check_row_variance(likelihood: Any, n_rows: int) -> None:
    """Refuse variances that an object has of other rows."""
    if isinstance(likelihood, Gaussian) and likelihood.row_variance is not None:
        check_rows("likelihood.row_variance", likelihood.row_variance, n_rows, "not negative")


def _check_size(y: np.ndarray) -> None:
    """Refuse targets whose squares leave the range of double precision."""
    size = np.max(np.abs(y))
    if size > 0.0 and not 1.0 / _LARGEST < size < _LARGEST:
        row = int(np.argmax(np.abs(y)))
        raise ValueError(
            f"y is out of range: its largest absolute value, in row {row}, is {abs(y[row]):g}, "
            "whose square is beyond double precision. Use normalize_y=True, or multiply y by a "
            "power of ten."
        )
