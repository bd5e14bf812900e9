"""Fully Bayesian Gaussian-process regression of successes in trials."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from scipy.special import xlogy
from sklearn.base import RegressorMixin
from sklearn.callback import with_callbacks

from .._params import check_flag, check_in
from ..likelihoods.base import Likelihood
from ..likelihoods.bernoulli import Bernoulli, Logit, Probit
from ..likelihoods.binomial import (
    MOST_TRIALS,
    BetaBinomial,
    Binomial,
    RepeatedTrials,
    SuccessLikelihood,
    decode,
    encode,
)
from ..model.kernels import default_kernel
from . import _validation as check
from ._average import fit_average, kernels_to_average
from ._data import (
    check_numbers,
    check_rows,
    check_weights,
    require_legal,
    validate,
    validate_rows_to_predict,
)
from ._docs import document
from ._latent import OneLatentFunction
from ._named import names_methods
from ._parameters import ModelParameters
from ._predictive import Curve, check_probabilities, unwrap_single
from ._probability import find_exceedance, find_probability_quantiles

#: Draws for quantiles of overdispersed numbers of successes.
_MANY_DRAWS = 2000
#: Most trials of a row for quantiles that take the probabilities of all numbers of successes.
_MOST_COUNTED = 1000


@dataclass(eq=False, repr=False, kw_only=True)
class _BinomialParameters(ModelParameters):
    """Parameters of the model that only this estimator has."""

    likelihood: str | Likelihood = "binomial"


@names_methods
@document
@dataclass(eq=False, repr=False, kw_only=True)
class BayesianGPBinomialRegressor(RegressorMixin, OneLatentFunction, _BinomialParameters):
    """Gaussian-process regression of successes in trials, by MCMC.

    A row has k successes in n trials, such as infected among tested people, or correct among all
    answers. The probability of a success is a function of a Gaussian process f. The posterior is
    that of `BayesianGPClassifier` for the single trials, at the price of one row.

    %(groups)s

    Parameters
    ----------
    %(kernel)s, plus ``Linear()`` without `ard` and named `priors`
    %(priors)s, or ``"precision"`` of the beta-binomial distribution
    likelihood : {"binomial", "binomial_logit", "beta_binomial"} or Likelihood, default="binomial"
        "binomial": the probability of a success is Phi(f), the distribution function of the normal
        distribution. "binomial_logit": it is 1 / (1 + exp(-f)). "beta_binomial" allows for
        overdispersion: the probability of each row varies around Phi(f). The inferred
        ``"precision"`` s says how much: the variance of a count is that of a binomial one times
        1 + (n - 1) / (s + 1). An object may also be the likelihood of a single trial, such as
        ``PsychometricProbit(guess=0.5)`` for answers with guesses and lapses.
    %(run)s
    %(pm)s
    %(advanced)s

    Attributes
    ----------
    %(attributes)s

    Warns
    -----
    %(warns)s

    Examples
    --------
    >>> import numpy as np
    >>> from skgpmcmc import BayesianGPBinomialRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = np.linspace(0.0, 4.0, 25)[:, None]
    >>> trials = np.full(25, 20)
    >>> infected = rng.binomial(trials, 0.5 + 0.4 * np.sin(2.0 * X[:, 0]))
    >>> reg = BayesianGPBinomialRegressor(random_state=0).fit(X, infected, trials=trials)
    >>> prevalence, sd = reg.predict(X, return_std=True)
    >>> prevalence.shape
    (25,)
    """

    _default_kernel: ClassVar[Callable[..., Any]] = staticmethod(default_kernel)
    _likelihoods: ClassVar[dict[str, Callable[[], Likelihood]]] = {
        "binomial": Binomial,
        "binomial_logit": partial(Binomial, "logit"),
        "beta_binomial": BetaBinomial,
    }

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        tags.regressor_tags.poor_score = True
        return tags

    @with_callbacks
    def fit(self, X, y, sample_weight=None, trials=None):
        """Sample the posterior.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training inputs.
        y : array-like of shape (n_samples,)
            Numbers of successes.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows. The likelihood of a row is raised to the power of its weight: an
            integer weight is equivalent to repeating the row, weight zero to leaving it out.
        trials : array-like of shape (n_samples,), default=None
            Numbers of trials; None is one trial in each row.

        Returns
        -------
        BayesianGPBinomialRegressor
            The fitted estimator itself.

        Raises
        ------
        ValueError
            If the data or a parameter are invalid. The results of an earlier fit are kept.
        MemoryError
            If the machine has too little memory for this number of rows.
        """
        if kernels_to_average(self, X):
            return fit_average(self, X, y, sample_weight=sample_weight, trials=trials)
        X, y, features = validate(self, X, y, y_numeric=True)
        trials = self._trials(trials, len(X))
        encoded = _encode_successes("y", y, trials)
        likelihood = check.resolve_likelihood(self.likelihood, self._likelihoods)
        if isinstance(likelihood, Bernoulli):
            likelihood = _of_counts(likelihood)
        if not isinstance(likelihood, SuccessLikelihood):
            raise ValueError(
                "likelihood must be one of successes in trials, such as Binomial(); got "
                f"{likelihood!r}."
            )
        likelihood = likelihood.with_trials(trials)
        rows = self._training_rows(X, features, sample_weight, likelihood, encoded)
        run = self._sample(rows, features, likelihood, encoded[rows.chosen])
        return self._finish(X, rows, run, features)

    @staticmethod
    def _trials(trials, n_rows: int) -> np.ndarray:
        if trials is None:
            return np.ones(n_rows)
        trials = check_rows("trials", trials, n_rows, "positive")
        legal = (trials == np.floor(trials)) & (trials <= MOST_TRIALS)
        require_legal(legal, trials, f"trials must be whole numbers up to {MOST_TRIALS}")
        return trials

    def _as_given(self, encoded: np.ndarray) -> np.ndarray:
        return decode(encoded)[0]

    def _law(self) -> SuccessLikelihood:
        likelihood = self._predictor.model.likelihood
        assert isinstance(likelihood, SuccessLikelihood)
        return likelihood

    def predict(self, X, trials=None, return_std=False, return_quantiles=None):
        """Predict the probability of a success, or with `trials` the number of successes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict.
        trials : array-like of shape (n_samples,), default=None
            Numbers of trials. None asks for the probability.
        return_std : bool, default=False
            Also return a standard deviation: with `trials` that of a new number of successes, which
            includes the variation of numbers around their mean; otherwise the posterior standard
            deviation of the probability.
        return_quantiles : sequence of float, default=None
            Also return quantiles of the same quantity, for these probabilities between 0 and 1.

        Returns
        -------
        mean : ndarray of shape (n_samples,)
            Posterior mean of the probability, times `trials` if given.
        std : ndarray of shape (n_samples,)
            Only with `return_std`.
        quantiles : ndarray of shape (n_quantiles, n_samples)
            Only with `return_quantiles`: posterior quantiles of the probability, or the smallest
            numbers of successes whose cumulative probability is at least the given one.
        """
        X = validate_rows_to_predict(self, X)
        if check_flag("return_std", return_std):
            of_counts = trials is not None
            moments = partial(_probability_moments, of_counts=of_counts)
            p, both = self._predictor.expectation(moments, X, self.n_jobs)
        else:
            p = self._predictor.target_mean(X, self.n_jobs)
        law = self._law()
        if trials is None:
            results = [p]
            if return_std:
                results.append(np.sqrt(np.maximum(both - p * p, 0.0)))
            if return_quantiles is not None:
                chosen = check_probabilities(return_quantiles)
                quantiles = find_probability_quantiles(self._predictor, X, chosen, self.n_jobs)
                results.append(quantiles)
            return unwrap_single(results)
        n = self._trials(trials, len(X))
        results = [n * p]
        if return_std:
            # Two trials of a row both succeed with the probability `both`.
            variance = n * (p - both) + n * n * (both - p * p)
            results.append(np.sqrt(np.maximum(variance, 0.0)))
        if return_quantiles is not None:
            chosen = check_probabilities(return_quantiles)
            if isinstance(law, BetaBinomial):
                results.append(self._quantiles_by_counting(chosen, X, n))
            else:
                results.append(self._predictor.target_quantiles(chosen, X, 0.0, n))
        return unwrap_single(results)

    def _curve(self, X, probabilities, y, trials=None):
        own = self._trials(trials, np.size(trials))
        typical = np.full(len(X), np.ceil(np.median(own)))
        mean, function = self.predict(X, return_quantiles=probabilities)
        if isinstance(self._law(), BetaBinomial):
            draws = self.sample_y(X, _MANY_DRAWS, trials=typical)
            successes = np.quantile(draws, probabilities, axis=1)
        else:
            _, successes = self.predict(X, trials=typical, return_quantiles=probabilities)
        observed = None if y is None else check_rows("y", y, len(y)) / own
        return Curve("Share of successes", mean, function, successes / typical, observed)

    def sample_y(self, X, n_samples=1, random_state=0, trials=None):
        """Draw new numbers of successes, jointly over the rows of X.

        Parameters
        ----------
        X : array-like of shape (n_samples_X, n_features)
            Rows at which numbers are drawn.
        n_samples : int, default=1
            Number of draws for each row. `sample_latent` says how many of them are distinct.
        random_state : int, RandomState instance or None, default=0
            Seed of the draws.
        trials : array-like of shape (n_samples_X,), default=None
            Numbers of trials; None is one.

        Returns
        -------
        ndarray of shape (n_samples_X, n_samples)
            Numbers of successes. All rows of a column come from the same hyper-parameters and
            latent function.
        """
        X = validate_rows_to_predict(self, X)
        n = self._trials(trials, len(X))
        rng = self._joint_stream(X, "n_samples", n_samples, random_state)
        at_new_rows = partial(_with_trials, trials=n)
        draws = self._predictor.sample_targets(X, n_samples, rng, 0.0, at_new_rows)
        return self._as_given(draws.T)

    def predict_count_proba(self, X, counts, trials=None):
        """Posterior predictive probabilities of numbers of successes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict.
        counts : array-like of shape (n_counts,)
            Numbers of successes whose probabilities to return.
        trials : array-like of shape (n_samples,), default=None
            Numbers of trials; None is one.

        Returns
        -------
        ndarray of shape (n_samples, n_counts)
            Probabilities; zero for more successes than trials.
        """
        X = validate_rows_to_predict(self, X)
        n = self._trials(trials, len(X))
        counts = np.atleast_1d(check_numbers("counts", counts))
        legal = (counts >= 0.0) & (counts == np.floor(counts))
        if counts.ndim != 1 or not legal.all():
            raise ValueError(f"counts must be a list of integers >= 0; got {counts!r}.")
        return self._count_proba(X, counts, n)

    def _count_proba(self, X, counts, n):
        """Probabilities of numbers of successes (k,) in n trials (m,); (m, k)."""
        candidates = [encode(np.minimum(count, n), n) for count in counts]
        proba = np.exp(self._predictor.log_predictive(candidates, X, self.n_jobs)).T
        return np.where(counts <= n[:, None], proba, 0.0)

    def _quantiles_by_counting(self, probabilities, X, n):
        """Quantiles of numbers of successes in n trials (m,), from the probabilities of all."""
        if n.max() > _MOST_COUNTED:
            row = int(np.argmax(n))
            raise ValueError(
                "return_quantiles of numbers of successes with the beta_binomial likelihood is for "
                f"at most {_MOST_COUNTED} trials; got {n[row]:g} in row {row}. Take quantiles of "
                "sample_y, or leave trials out for quantiles of the probability."
            )
        proba = self._count_proba(X, np.arange(n.max() + 1.0), n)
        at_most = np.cumsum(proba, axis=1)
        found = [np.searchsorted(row, probabilities) for row in at_most]
        return np.minimum(np.transpose(found), n).astype(float)

    def exceedance_proba(self, X, threshold):
        """Posterior probability that the probability of a success is above a threshold.

        The probability of a success is that of the latent function. With ``"beta_binomial"`` it is
        the average over rows with the columns of this row, each of which varies around it.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict.
        threshold : float
            Between 0 and 1.

        Returns
        -------
        ndarray of shape (n_samples,)
            Probabilities.
        """
        X = validate_rows_to_predict(self, X)
        value = np.asarray(check_in("threshold", threshold, "(0, 1)"))
        thresholds = value[None, None, None]
        return find_exceedance(self._predictor, X, thresholds, self.n_jobs)[0]

    def log_predictive_density(self, X, y, trials=None):
        """Log of the posterior predictive probability of each number of successes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict.
        y : array-like of shape (n_samples,)
            Numbers of successes.
        trials : array-like of shape (n_samples,), default=None
            Numbers of trials; None is one.

        Returns
        -------
        ndarray of shape (n_samples,)
            Natural logs of the probability of each row alone.
        """
        X = validate_rows_to_predict(self, X)
        encoded = _encode_successes("y", check_rows("y", y, len(X)), self._trials(trials, len(X)))
        return self._predictor.log_predictive([encoded], X, self.n_jobs)[0]

    def score(self, X, y, sample_weight=None, trials=None):
        """Fraction of the binomial deviance explained by the predicted probabilities (D2).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict.
        y : array-like of shape (n_samples,)
            Numbers of successes.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.
        trials : array-like of shape (n_samples,), default=None
            Numbers of trials; None is one.

        Returns
        -------
        float
            At most 1, which is best; predicting the share of successes for every row scores 0.
            Where all rows have the same share of 0 or 1, the score is 0 unless it is 1.
        """
        p = self.predict(X)
        n = self._trials(trials, len(p))
        k = check_rows("y", y, len(p))
        _encode_successes("y", k, n)
        weight = check_weights(sample_weight, len(p))
        weight = np.ones(len(p)) if weight is None else weight
        deviance = _deviance(k, n, p, weight)
        null = _deviance(k, n, np.full(len(p), weight @ k / (weight @ n)), weight)
        if null == 0.0:
            return float(deviance == 0.0)
        return float(1.0 - deviance / null)


def _of_counts(one: Bernoulli) -> SuccessLikelihood:
    """Return the likelihood of numbers of successes, from that of a single trial."""
    if type(one) is Probit:
        return Binomial("probit")
    return Binomial("logit") if type(one) is Logit else RepeatedTrials(one)


def _with_trials(likelihood: SuccessLikelihood, trials: np.ndarray) -> Likelihood:
    return likelihood.with_trials(trials)


def _encode_successes(name: str, successes: np.ndarray, trials: np.ndarray) -> np.ndarray:
    """Return encoded targets, and refuse numbers of successes that are impossible."""
    legal = (successes >= 0.0) & (successes <= trials) & (successes == np.floor(successes))
    if not legal.all():
        row = int(np.argmin(legal))
        remedy = " Give the numbers of trials as trials=." if np.all(trials == 1.0) else ""
        raise ValueError(
            f"{name} must consist of integers from 0 to the number of trials; got "
            f"{successes[row]:g} of {trials[row]:g} in row {row}.{remedy}"
        )
    return encode(successes, trials)


def _probability_moments(
    likelihood: SuccessLikelihood, mean: np.ndarray, var: np.ndarray, *, of_counts: bool
) -> np.ndarray:
    """Return the probabilities of a success, and of two successes in two trials.

    Two trials of the same row, if `of_counts`; otherwise of two rows at the same input.
    """
    law = likelihood if of_counts else likelihood.without_overdispersion()
    return np.stack(law.success_moments(mean, var))


def _deviance(k: np.ndarray, n: np.ndarray, p: np.ndarray, weight: np.ndarray) -> float:
    """Return the binomial deviance of probabilities, summed over rows."""
    with np.errstate(divide="ignore"):
        of_success = xlogy(k, k / n) - xlogy(k, p)
        of_failure = xlogy(n - k, (n - k) / n) - xlogy(n - k, 1.0 - p)
    return float(2.0 * weight @ (of_success + of_failure))
