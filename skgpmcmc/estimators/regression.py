"""Fully Bayesian Gaussian-process regression."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.callback import with_callbacks
from sklearn.metrics import r2_score

from .._params import check_flag, check_in
from ..likelihoods.base import Likelihood
from ..likelihoods.censored import CensoredGaussian
from ..likelihoods.gaussian import Gaussian
from ..likelihoods.student_t import StudentT
from ..model.kernels import default_kernel
from ..prediction.summary import forget_rows
from ..samplers.base import Sampler
from . import _validation as check
from ._average import fit_average, kernels_to_average
from ._censoring import Censoring
from ._data import (
    check_rows,
    check_weights,
    find_power_of_two,
    to_units_of_y,
    validate,
    validate_rows_to_predict,
)
from ._docs import document
from ._latent import OneLatentFunction, require_joint_memory
from ._named import names_methods
from ._noise import (
    LARGEST_FACTOR,
    add_numerical_noise,
    center_and_scale,
    make_gaussian_noise,
    normalize_noise,
)
from ._parameters import ModelParameters
from ._predictive import (
    Curve,
    check_probabilities,
    exceedance,
    predict_targets,
    unwrap_single,
)

#: What to do about targets that a likelihood does not know.
_REMEDY = (
    " normalize_y=True has standardized them: use normalize_y=False for a likelihood that does not "
    "take every number."
)


@dataclass(eq=False, repr=False, kw_only=True)
class _RegressorParameters(ModelParameters):
    """Parameters of the model that only this estimator has."""

    likelihood: str | Likelihood = "gaussian"
    alpha: float = 0.0
    noise: str = "inferred"
    normalize_y: bool = True


@names_methods
@document
@dataclass(eq=False, repr=False, kw_only=True)
class BayesianGPRegressor(RegressorMixin, OneLatentFunction, _RegressorParameters):
    """Gaussian-process regression that averages over noise and hyper-parameters by MCMC.

    With Gaussian noise, the latent function f is integrated out in closed form, and the chains
    sample only the hyper-parameters. With other noise, such as Student's t, the sampler is
    pseudo-marginal MCMC. Both are exact.

    %(groups)s

    Targets that are only known to lie in an interval, such as those below a limit of detection, are
    given by the `censored_to` of ``fit``.

    Parameters
    ----------
    %(kernel)s, plus ``Linear()`` without `ard` and named `priors`
    %(priors)s, or ``"noise_scale"``
    likelihood : {"gaussian", "student_t"} or Likelihood, default="gaussian"
        Distribution of the noise; "student_t" is robust to outliers. The scale of the noise is
        inferred (hyper-parameter ``"noise_scale"``, in units of the normalized targets), unless
        `noise` says otherwise.
    alpha : float, default=0.0
        Known noise variance, the same for every row, that is added to the inferred one; in units of
        y squared. Only with Gaussian noise.
    noise : {"inferred", "known", "none"}, default="inferred"
        "inferred": the standard deviation of the noise is a hyper-parameter, and `alpha` and the
        `noise_variance` of ``fit`` are added to its square. "known": these two are all the noise.
        "none": targets without noise, such as results of a simulation; the function passes them at
        a thousandth of their standard deviation, or less. Only with Gaussian noise. See
        :ref:`known-noise`, also for the noise of new targets.
    normalize_y : bool, default=True
        Subtract the mean of y and divide by its standard deviation. Predictions, densities and
        latent values are still in units of y; hyper-parameters are those of normalized targets.
    %(run)s
    sampler : {"auto", "collapsed", "pm", "marginal", "sa", "aa", "asis", "surr", "khr", \
            "discretizing", "tempered"} or Sampler, default="auto"
        "auto" is "collapsed" for Gaussian noise without censored targets, and "pm" otherwise.
        "collapsed": f is integrated out in closed form, exact. "pm": pseudo-marginal MCMC, exact
        for any likelihood. "marginal": hyper-parameters theta from their approximate marginal
        posterior, not exact. "discretizing" and "tempered": exact, with proposals from a cheap
        posterior. The others update f and theta alternately: exact, but slow. Or an object from
        `skgpmcmc.samplers`. See :doc:`/samplers`.
    %(advanced)s

    Attributes
    ----------
    %(attributes)s

    Warns
    -----
    %(warns)s

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
    ['k1__k1__constant_value', 'k1__k2__length_scale', 'k2__slope_variance', 'noise_scale']
    """

    _default_kernel = staticmethod(default_kernel)
    _likelihoods: ClassVar[dict[str, type[Likelihood]]] = {
        "gaussian": Gaussian,
        "student_t": StudentT,
    }
    _samplers = ("auto", "collapsed", *OneLatentFunction._samplers)

    sampler: str | Sampler = "auto"

    @with_callbacks
    def fit(self, X, y, sample_weight=None, noise_variance=None, censored_to=None):
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
            Known noise variance of each row; in units of y squared. It is added to the inferred
            one, or is all the noise (see `noise`). Only with Gaussian noise.
        censored_to : array-like of shape (n_samples,), default=None
            For targets that are only known to lie between two numbers: y is one end, and this is
            the other. It is -inf where a target is at most y (left-censored, such as below a limit
            of detection), inf where it is at least y (right-censored), and NaN or y itself where y
            is the target. Only with Gaussian noise. Predictions are those of targets that are not
            censored.

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
        if kernels_to_average(self, X):
            row_data = {"sample_weight": sample_weight, "noise_variance": noise_variance}
            return fit_average(self, X, y, **row_data, censored_to=censored_to)
        X, y, features = validate(self, X, y, y_numeric=True)
        noise = make_gaussian_noise(self.noise, self.likelihood, self.alpha, noise_variance, len(X))
        if censored_to is not None:
            censoring = Censoring.of(y, censored_to)
            noise = censoring.censor(_require_gaussian(noise, self.noise, self.likelihood))
            y = censoring.target
        likelihood = noise or check.resolve_likelihood(self.likelihood, self._likelihoods)
        rows = self._training_rows(X, features, sample_weight, likelihood, y)
        variance = None if noise is None else noise.of_rows(rows.chosen).row_variance
        own = y[rows.chosen].astype(float)
        normalizes = check_flag("normalize_y", self.normalize_y)
        if not normalizes:
            _check_size(own)
        shift, scale = center_and_scale(own, rows.weight, variance)
        spread = 1.0  # standard deviation of y in units of the scale
        if not normalizes:
            shift, scale, spread = 0.0, 1.0, scale
        targets = _standardize(y.astype(float), shift, scale)
        if noise is not None:
            noise = normalize_noise(noise, scale)
            if isinstance(noise, CensoredGaussian):
                low, high = (_standardize(end, shift, scale) for end in (noise.low, noise.high))
                noise = replace(noise, low=low, high=high)
            likelihood = add_numerical_noise(noise, rows, targets, spread)
        remedy = _REMEDY if self.normalize_y else ""
        check.check_targets(targets[rows.kept], likelihood.of_rows(rows.kept), remedy=remedy)
        run = self._sample(rows, features, likelihood, targets[rows.chosen])
        return self._finish(X, rows, run, features, units=(shift, scale))

    def _log_density_shift(self):
        observed = self._predictor.model.observations
        shift = -float(np.log(self._units[1]))
        if isinstance(observed.likelihood, CensoredGaussian):  # a probability has no unit
            return np.where(observed.likelihood.is_censored(observed.y), 0.0, shift)
        return shift

    @property
    def _target_units(self):
        return self._units

    def predict(self, X, return_std=False, return_quantiles=None, return_cov=False, terms=None):
        """Posterior predictive mean; on request also standard deviations, quantiles or covariances.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict.
        return_std : bool, default=False
            Also return the standard deviation of a new target, noise included; see `noise`.
        return_quantiles : sequence of float, default=None
            Also return quantiles of a new target, for these probabilities between 0 and 1.
        return_cov : bool, default=False
            Also return the covariance matrix of new targets at all rows: that of the latent
            function, plus the noise variance on the diagonal. Its diagonal is the square of what
            `return_std` returns.
        terms : sequence of int, default=None
            Predict the sum of these terms of the kernel, by their positions in its sum, instead of
            a new target: all results are those of the function, without noise and without the mean
            of y. See `latent_mean_and_variance`.

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
        if terms is not None:
            return self._predict_terms(X, return_std, return_quantiles, return_cov, terms)
        X = validate_rows_to_predict(self, X)
        if not return_cov:
            return predict_targets(self, X, return_std, return_quantiles)
        mean, covariance = self._joint_moments(X)
        point = to_units_of_y(mean, *self._units)
        found = predict_targets(self, X, False, return_quantiles, point=point)
        _, *quantiles = found if isinstance(found, tuple) else (found,)
        scale = self._units[1]
        return (point, to_units_of_y(scale * covariance, 0.0, scale), *quantiles)

    def _predict_terms(self, X, return_std, return_quantiles, return_cov, terms):
        """Predict what terms of the kernel add to the function."""
        mean, var = self.latent_mean_and_variance(X, return_cov, terms)
        results = [mean]
        if return_std:
            results.append(np.sqrt(var))
        if return_cov:
            results.append(var)
        if return_quantiles is not None:
            predictor, _ = self._predictor_of_terms(terms)
            probabilities = check_probabilities(return_quantiles)
            X = validate_rows_to_predict(self, X)
            quantiles = predictor.latent_quantiles(probabilities, X)
            results.append(to_units_of_y(quantiles, 0.0, self._units[1]))
        return unwrap_single(results)

    def _curve(self, X, probabilities, y):
        mean, targets = self.predict(X, return_quantiles=probabilities)
        function = self._latent_quantiles(validate_rows_to_predict(self, X), probabilities)
        observed = None if y is None else check_rows("y", y, len(y))
        return Curve("y", mean, function, targets, observed)

    def _joint_moments(self, X):
        """Predictive mean and covariance of the encoded targets at all rows."""
        require_joint_memory(len(X))
        f = np.array([-1.0, 0.5])
        likelihood = self._predictor.model.likelihood.at_new_rows()
        if not np.array_equal(likelihood.predictive_moments(f, np.ones(2)).mean, f):
            raise ValueError(
                "return_cov is for noise around the latent function, and the mean of a target is "
                f"not that under the {likelihood.name!r} likelihood: use the covariance of many "
                "draws by sample_y."
            )
        return self._predictor.target_covariance(X)

    def exceedance_proba(self, X, threshold):
        """Posterior probability that the latent function is above a threshold.

        It is the probability for the function without noise. A new target varies around it, so that
        its probability to be above the threshold is nearer to one half.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict.
        threshold : float
            In units of y.

        Returns
        -------
        ndarray of shape (n_samples,)
            Probabilities.
        """
        X = validate_rows_to_predict(self, X)
        threshold = check_in("threshold", threshold, "(-inf, inf)")
        return exceedance(self, X, float(_standardize(threshold, *self._units)))

    def log_predictive_density(self, X, y, censored_to=None):
        """Log of the posterior predictive density of each target.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict.
        y : array-like of shape (n_samples,)
            Targets.
        censored_to : array-like of shape (n_samples,), default=None
            The other ends of the intervals of censored targets, as in `fit`. The result for such a
            row is the log of the probability of its interval.

        Returns
        -------
        ndarray of shape (n_samples,)
            Natural logs of the density of each row alone, per unit of y; minus infinity if even the
            log is below the range of double precision. Where new targets have no noise (see
            `noise`), a sampler that draws f knows no density at the inputs of training rows: use
            "collapsed", which "auto" selects, there.
        """
        X = validate_rows_to_predict(self, X)
        y = check_rows("y", y, len(X))
        censoring = Censoring.of(y, censored_to)
        targets, low, high = (_standardize(part, *self._units) for part in censoring)
        at_new_rows = forget_rows
        if censored_to is not None:
            likelihood = self._predictor.model.likelihood
            _require_gaussian(likelihood.at_new_rows(), self.noise, self.likelihood)
            at_new_rows = Censoring(targets, low, high).censor_new_rows
        log_p = self._predictor.log_predictive([targets], X, self.n_jobs, 0.0, at_new_rows)[0]
        return log_p - np.where(censoring.is_censored, 0.0, np.log(self._units[1]))

    def score(self, X, y, sample_weight=None, censored_to=None):
        """Coefficient of determination (R2) of the predictive mean.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict.
        y : array-like of shape (n_samples,)
            Targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.
        censored_to : array-like of shape (n_samples,), default=None
            The other ends of the intervals of censored targets, as in `fit`. These rows have no
            part in the score: `log_predictive_density` says how well they are predicted.

        Returns
        -------
        float
            At most 1, which is best; predicting the mean of y for every row scores 0.
        """
        predicted = self.predict(X)
        y = check_rows("y", y, len(predicted))
        exact = ~Censoring.of(y, censored_to).is_censored
        if not exact.any():
            raise ValueError(
                "R2 needs targets that are not censored, and censored_to says that all are: use "
                "log_predictive_density."
            )
        y = y[exact]
        predicted = predicted[exact]
        weight = check_weights(sample_weight, len(exact))
        weight = None if weight is None else weight[exact]
        unit = find_power_of_two(y)  # R2 has none, and its squares may overflow
        with np.errstate(over="ignore", invalid="ignore"):  # looked for in the next line
            score = float(r2_score(y / unit, predicted / unit, sample_weight=weight))
        if not np.isfinite(score):
            row = int(np.argmax(np.abs(predicted / unit)))
            raise ValueError(
                f"R2 overflows, as the prediction for row {row} of X is {predicted[row]:g}, out of "
                "all proportion to y: check the units of that row, or leave it out."
            )
        return score


def _standardize(y: np.ndarray | float, shift: float, scale: float) -> np.ndarray:
    """Return ``(y - shift) / scale``; infinite only where that is beyond double precision."""
    unit = find_power_of_two(np.array([scale]))
    with np.errstate(over="ignore"):  # a target that far out has no density
        return np.asarray((y / unit - shift / unit) / (scale / unit))


def _require_gaussian(noise: Likelihood | None, kind: str, likelihood: object) -> Gaussian:
    """Return the noise of censored targets, or raise an error if it cannot be that."""
    if not isinstance(noise, Gaussian) or kind == "none":
        raise ValueError(
            "censored_to is for targets with Gaussian noise; with "
            f"likelihood={likelihood!r} and noise={kind!r} leave it out, or use "
            'likelihood="gaussian" and noise="inferred".'
        )
    return noise


def _check_size(y: np.ndarray) -> None:
    """Refuse targets whose squares leave the range of double precision."""
    size = np.max(np.abs(y))
    if size > 0.0 and not 1.0 / LARGEST_FACTOR < size < LARGEST_FACTOR:
        row = int(np.argmax(np.abs(y)))
        raise ValueError(
            f"y is out of range: its largest absolute value, in row {row}, is {abs(y[row]):g}, "
            "whose square is beyond double precision. Use normalize_y=True, or multiply y by a "
            "power of ten."
        )
