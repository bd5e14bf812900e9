"""Fully Bayesian Gaussian-process regression of counts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.callback import with_callbacks
from sklearn.metrics import d2_tweedie_score

from .._params import check_choice, check_flag, check_in
from ..likelihoods.base import Likelihood
from ..likelihoods.counts import NegativeBinomial, Poisson
from ..likelihoods.zero_inflated import (
    ZeroInflated,
    ZeroInflatedNegativeBinomial,
    ZeroInflatedPoisson,
)
from . import _validation as check
from ._average import fit_average, kernels_to_average
from ._data import check_numbers, check_rows, validate, validate_rows_to_predict
from ._dispersion import warn_of_overdispersion
from ._docs import document
from ._latent import OneLatentFunction
from ._named import names_methods
from ._parameters import ModelParameters
from ._predictive import (
    Curve,
    check_probabilities,
    exceedance,
    mean_of_exp,
    moments_of_exp,
    predict_targets,
    unwrap_single,
)

#: Numbers beyond are not counted one by one any more.
_LARGEST_COUNT = 1e15


@dataclass(eq=False, repr=False, kw_only=True)
class _CountParameters(ModelParameters):
    """Parameters of the model that only this estimator has."""

    likelihood: str | Likelihood = "negative_binomial"
    center: bool = True
    fractional_counts: str = "error"


@names_methods
@document
@dataclass(eq=False, repr=False, kw_only=True)
class BayesianGPCountRegressor(RegressorMixin, OneLatentFunction, _CountParameters):
    """Gaussian-process regression of counts, averaging over hyper-parameters by MCMC.

    The log of the rate is a Gaussian process f: a count has the mean ``exposure * exp(f)``.

    %(groups)s

    Parameters
    ----------
    %(kernel)s
    %(priors)s, or ``"shape"`` of the negative binomial distribution
    likelihood : {"negative_binomial", "poisson", "zero_inflated_negative_binomial", \
            "zero_inflated_poisson"} or Likelihood, default="negative_binomial"
        "negative_binomial" allows for overdispersion, that is, a larger variance than that of
        Poisson counts with the same mean. The inferred ``"shape"`` says how much larger: the
        variance is mu + mu^2 / shape for the mean mu. "poisson" assumes that there is none, as
        `BayesianGPPoissonRegressor` does by default. The zero-inflated forms have additional zeros:
        a count is zero with a probability pi, whatever its rate is, and ``"zero_odds"``,
        pi / (1 - pi), is inferred. The mean is then (1 - pi) * exposure * exp(f).
    center : bool, default=True
        Add the log of the average rate, sum(y) / sum(exposure), to f. Far from the data, the
        predicted rate then returns to the average rate, and not to one.
    fractional_counts : {"error", "allow"}, default="error"
        What to do with counts that are not integers: raise an error, or extend the log likelihood
        to any y >= 0; that of Poisson counts is then ``y log mu - mu - log Gamma(y + 1)``.
    %(run)s
    %(pm)s
    %(advanced)s

    Attributes
    ----------
    %(attributes)s

    Warns
    -----
    %(warns)s

    See Also
    --------
    BayesianGPPoissonRegressor : The same with Poisson counts, and a check that they are.

    Examples
    --------
    >>> import numpy as np
    >>> from skgpmcmc import BayesianGPCountRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = np.linspace(0.0, 4.0, 40)[:, None]
    >>> y = rng.poisson(np.exp(1.0 + np.sin(2.0 * X[:, 0])))
    >>> reg = BayesianGPCountRegressor(random_state=0).fit(X, y)
    >>> reg.predict_count_proba(X[:2], [0, 1, 2]).shape
    (2, 3)
    >>> rate, interval = reg.predict_rate(X, return_quantiles=[0.05, 0.95])
    >>> interval.shape
    (2, 40)
    """

    _likelihoods: ClassVar[dict[str, type[Likelihood]]] = {
        "poisson": Poisson,
        "negative_binomial": NegativeBinomial,
        "zero_inflated_poisson": ZeroInflatedPoisson,
        "zero_inflated_negative_binomial": ZeroInflatedNegativeBinomial,
    }

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        tags.regressor_tags.poor_score = True
        return tags

    @with_callbacks
    def fit(self, X, y, sample_weight=None, exposure=None):
        """Sample the posterior.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training inputs.
        y : array-like of shape (n_samples,)
            Counts.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows. The likelihood of a row is raised to the power of its weight: an
            integer weight is equivalent to repeating the row, weight zero to leaving it out.
        exposure : array-like of shape (n_samples,), default=None
            Positive: the time, area or population that each count refers to; None is one.

        Returns
        -------
        BayesianGPCountRegressor
            The fitted estimator itself.

        Raises
        ------
        ValueError
            If the data or a parameter are invalid. The results of an earlier fit are kept.
        MemoryError
            If the machine has too little memory for this number of rows.
        """
        if kernels_to_average(self, X):
            return fit_average(self, X, y, sample_weight=sample_weight, exposure=exposure)
        X, y, features = validate(self, X, y, y_numeric=True)
        choices = ("error", "allow")
        fractional = check_choice("fractional_counts", self.fractional_counts, choices) == "allow"
        likelihood = check.resolve_likelihood(self.likelihood, self._likelihoods)
        if fractional and hasattr(likelihood, "fractional"):
            likelihood = replace(likelihood, fractional=True)
        exposure = self._exposure(exposure, len(X))
        rows = self._training_rows(X, features, sample_weight, likelihood, y, exposure)
        self._check_counts(y[rows.kept], likelihood)
        if y[rows.kept].max() > _LARGEST_COUNT:
            row = int(np.argmax(y[rows.kept]))
            raise ValueError(
                f"y has the count {y[rows.kept][row]:g} in row {row}, and double precision cannot "
                f"tell counts above {_LARGEST_COUNT:g} apart: fit BayesianGPRegressor to their "
                "logarithms."
            )
        y = y[rows.chosen].astype(float)
        exposure = exposure[rows.chosen]
        weight = rows.weight
        center = 0.0
        if check_flag("center", self.center):
            # Half a count more, for there may be none.
            total = np.sum(y if weight is None else weight * y)
            shares = exposure if weight is None else weight * exposure
            center = float(np.log(max(total, 0.5) / np.sum(shares)))
        run = self._sample(rows, features, likelihood, y, offset=center + np.log(exposure))
        return self._finish(X, rows, run, features, units=(center, 1.0))

    def _check_counts(self, y: np.ndarray, likelihood: Likelihood, name: str = "y") -> None:
        remedy = ' Use fractional_counts="allow" for counts that are averages.'
        check.check_targets(y, likelihood, name, remedy if np.all(y >= 0.0) else "")

    @staticmethod
    def _exposure(exposure, n_rows: int) -> np.ndarray:
        if exposure is None:
            return np.ones(n_rows)
        return check_rows("exposure", exposure, n_rows, "positive")

    def _offset(self, exposure, n_rows: int) -> np.ndarray:
        return self._units[0] + np.log(self._exposure(exposure, n_rows))

    def _require_rate(self, method: str) -> None:
        """Raise an error if exp(f) is not the mean of counts that are no additional zeros."""
        likelihood = self._predictor.model.likelihood
        part = likelihood.part if isinstance(likelihood, ZeroInflated) else likelihood
        # At their start values, parameters may leave the mean as it is by chance.
        values = np.array([parameter.start for parameter in part.parameters])
        f = np.array([-1.0, 0.5])
        try:
            mean = part.with_parameters(values + 0.3).predictive_moments(f, np.zeros(2)).mean
        except NotImplementedError:
            mean = np.nan
        if not np.allclose(mean, np.exp(f), rtol=1e-6):
            raise ValueError(
                f"{method} is for likelihoods whose predictive_moments have the mean exp(f), and "
                f"likelihood {likelihood.name!r} has another mean or none: use predict for the "
                "mean of a count, or latent_mean_and_variance for f."
            )

    def predict(self, X, exposure=None, return_std=False, return_quantiles=None):
        """Predictive mean of the counts; on request also standard deviations or quantiles.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict.
        exposure : array-like of shape (n_samples,), default=None
            Positive; None is one, so that the mean is the rate per unit of exposure.
        return_std : bool, default=False
            Also return the standard deviation of a new count: it includes both the uncertainty of
            the rate and the variation of counts around it.
        return_quantiles : sequence of float, default=None
            Also return quantiles of a new count, for these probabilities between 0 and 1.

        Returns
        -------
        y_mean : ndarray of shape (n_samples,)
            Posterior mean of the rate, times exposure; with a zero-inflated likelihood also times
            the probability that a count is not an additional zero.
        y_std : ndarray of shape (n_samples,)
            Only with `return_std`.
        y_quantiles : ndarray of shape (n_quantiles, n_samples)
            Only with `return_quantiles`: the smallest counts whose cumulative probability is at
            least the given one.
        """
        X = validate_rows_to_predict(self, X)
        return predict_targets(
            self, X, return_std, return_quantiles, self._offset(exposure, len(X))
        )

    def predict_rate(self, X, exposure=None, return_std=False, return_quantiles=None):
        """Posterior mean of the rate; on request also its standard deviations or quantiles.

        The rate is the mean of new counts with the same columns; with a zero-inflated likelihood,
        the mean of those that are not additional zeros. Single counts vary around it, also by their
        overdispersion: `predict` returns their standard deviations and quantiles.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict.
        exposure : array-like of shape (n_samples,), default=None
            Positive: the rate is multiplied by it. None is one: the rate per unit of exposure.
        return_std : bool, default=False
            Also return the posterior standard deviation of the rate.
        return_quantiles : sequence of float, default=None
            Also return posterior quantiles of the rate, for these probabilities between 0 and 1.

        Returns
        -------
        rate_mean : ndarray of shape (n_samples,)
            Posterior mean of the rate, times exposure.
        rate_std : ndarray of shape (n_samples,)
            Only with `return_std`.
        rate_quantiles : ndarray of shape (n_quantiles, n_samples)
            Only with `return_quantiles`.

        Raises
        ------
        ValueError
            If an argument is invalid, or if the mean of a count is not exp(f) under a likelihood of
            your own.
        """
        X = validate_rows_to_predict(self, X)
        self._require_rate("predict_rate")
        offset = self._offset(exposure, len(X))
        if check_flag("return_std", return_std):
            mean, square = self._predictor.expectation(moments_of_exp, X, self.n_jobs, offset)
            results = [mean, np.sqrt(np.maximum(square - mean**2, 0.0))]
        else:
            results = [self._predictor.expectation(mean_of_exp, X, self.n_jobs, offset)[0]]
        if return_quantiles is not None:
            chosen = check_probabilities(return_quantiles)
            quantiles = self._latent_quantiles(X, chosen) + (offset - self._units[0])
            results.append(np.exp(quantiles))
        return unwrap_single(results)

    def exceedance_proba(self, X, threshold, exposure=None):
        """Posterior probability that the rate is above a threshold.

        The rate is the mean of new counts with the same columns. For the probability that a new
        count is above a threshold, add up `predict_count_proba`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict.
        threshold : float
            Positive; counts per unit of exposure, or with `exposure` counts.
        exposure : array-like of shape (n_samples,), default=None
            Positive: the rate is multiplied by it. None is one.

        Returns
        -------
        ndarray of shape (n_samples,)
            Probabilities.

        Raises
        ------
        ValueError
            If an argument is invalid, or if the mean of a count is not exp(f) under a likelihood of
            your own.
        """
        X = validate_rows_to_predict(self, X)
        self._require_rate("exceedance_proba")
        log_threshold = np.log(check_in("threshold", threshold, "(0, inf)"))
        return exceedance(self, X, log_threshold, self._offset(exposure, len(X)))

    def _curve(self, X, probabilities, y, exposure=None):
        own = self._exposure(exposure, np.size(exposure))
        typical = np.full(len(X), np.median(own))
        mean, rate = self.predict_rate(X, return_quantiles=probabilities)
        _, counts = self.predict(X, exposure=typical, return_quantiles=probabilities)
        label = "Count" if exposure is None else "Count per unit of exposure"
        observed = None if y is None else check_rows("y", y, len(y)) / own
        return Curve(label, mean, rate, counts / typical, observed)

    def sample_y(self, X, n_samples=1, random_state=0, exposure=None):
        """Draw new counts from the posterior predictive distribution, jointly over the rows of X.

        Parameters
        ----------
        X : array-like of shape (n_samples_X, n_features)
            Rows at which counts are drawn.
        n_samples : int, default=1
            Number of draws for each row. `sample_latent` says how many of them are distinct.
        random_state : int, RandomState instance or None, default=0
            Seed of the draws.
        exposure : array-like of shape (n_samples_X,), default=None
            Positive; None is one.

        Returns
        -------
        ndarray of shape (n_samples_X, n_samples)
            Counts. All rows of a column come from the same hyper-parameters and latent function.
        """
        X = validate_rows_to_predict(self, X)
        offset = self._offset(exposure, len(X))
        return self._sample_y(X, n_samples, random_state, offset)

    def predict_count_proba(self, X, counts, exposure=None):
        """Posterior predictive probabilities of counts.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict.
        counts : array-like of shape (n_counts,)
            Counts whose probabilities to return.
        exposure : array-like of shape (n_samples,), default=None
            Positive; None is one.

        Returns
        -------
        ndarray of shape (n_samples, n_counts)
            Probabilities.
        """
        X = validate_rows_to_predict(self, X)
        counts = np.atleast_1d(check_numbers("counts", counts))
        if counts.ndim != 1:
            raise ValueError(f"counts must be one-dimensional; got shape {counts.shape}.")
        self._check_counts(counts, self._predictor.model.likelihood, "counts")
        offset = self._offset(exposure, len(X))
        candidates = [np.full(len(X), count) for count in counts]
        return np.exp(self._predictor.log_predictive(candidates, X, self.n_jobs, offset)).T

    def log_predictive_density(self, X, y, exposure=None):
        """Log of the posterior predictive probability of each count.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict.
        y : array-like of shape (n_samples,)
            Counts.
        exposure : array-like of shape (n_samples,), default=None
            Positive; None is one.

        Returns
        -------
        ndarray of shape (n_samples,)
            Natural logs of the probability of each row alone; minus infinity if even the log is
            below the range of double precision.
        """
        X = validate_rows_to_predict(self, X)
        y = check_rows("y", y, len(X))
        self._check_counts(y, self._predictor.model.likelihood)
        offset = self._offset(exposure, len(X))
        return self._predictor.log_predictive([y], X, self.n_jobs, offset)[0]

    def score(self, X, y, sample_weight=None, exposure=None):
        """Fraction of the Poisson deviance explained by the predictive mean (D2).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict.
        y : array-like of shape (n_samples,)
            Counts.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.
        exposure : array-like of shape (n_samples,), default=None
            Positive; None is one.

        Returns
        -------
        float
            At most 1, which is best; predicting the mean count for every row scores 0.
        """
        predicted = self.predict(X, exposure=exposure)
        if np.any(predicted == 0.0):
            row = int(np.argmin(predicted))
            raise ValueError(
                f"The predicted mean of the count for row {row} of X underflows to zero, and the "
                "deviance contains its logarithm: check the units of that row, or leave it out."
            )
        return float(d2_tweedie_score(y, predicted, sample_weight=sample_weight, power=1))


@names_methods
@document
@dataclass(eq=False, repr=False, kw_only=True)
class BayesianGPPoissonRegressor(BayesianGPCountRegressor):
    """Gaussian-process regression of Poisson counts, averaging over hyper-parameters by MCMC.

    The log of the rate is a Gaussian process f: a count has the Poisson distribution with the mean
    ``exposure * exp(f)``, so that its variance is its mean. Most real counts vary more. Then the
    rate has to follow single counts, and its intervals are not reliable: `fit` warns of it, and
    `BayesianGPCountRegressor` allows for it.

    %(groups)s

    Parameters
    ----------
    %(kernel)s
    %(priors)s
    likelihood : {"poisson", "negative_binomial"} or Likelihood, default="poisson"
        As in `BayesianGPCountRegressor`, whose default is "negative_binomial".
    center : bool, default=True
        Add the log of the average rate, sum(y) / sum(exposure), to f. Far from the data, the
        predicted rate then returns to the average rate, and not to one.
    fractional_counts : {"error", "allow"}, default="error"
        What to do with counts that are not integers: raise an error, or extend the log likelihood
        to any y >= 0; that of Poisson counts is then ``y log mu - mu - log Gamma(y + 1)``.
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
        If negative binomial counts explain the data clearly better than Poisson counts. For kernels
        without a gradient in their hyper-parameters this is not examined.

    See Also
    --------
    BayesianGPCountRegressor : The same, by default with negative binomial counts.

    Examples
    --------
    >>> import numpy as np
    >>> from skgpmcmc import BayesianGPPoissonRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = np.linspace(0.0, 4.0, 40)[:, None]
    >>> y = rng.poisson(np.exp(1.0 + np.sin(2.0 * X[:, 0])))
    >>> reg = BayesianGPPoissonRegressor(random_state=0).fit(X, y)
    >>> rate, std = reg.predict_rate(X, return_std=True)
    >>> rate.shape
    (40,)
    """

    likelihood: str | Likelihood = "poisson"

    def _finish(self, *args, **kwargs):
        super()._finish(*args, **kwargs)
        if isinstance(self._predictor.model.likelihood, Poisson):
            warn_of_overdispersion(self)
        return self
