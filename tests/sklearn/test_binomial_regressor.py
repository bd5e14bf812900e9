"""Regression of successes in trials: the same as its single trials, and what it predicts."""

from unittest import SkipTest

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import gammaln, ndtr
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.utils.estimator_checks import estimator_checks_generator

from skgpmcmc import BayesianGPBinomialRegressor, BayesianGPClassifier
from skgpmcmc.likelihoods import Logit, Poisson, Probit, PsychometricProbit

from ..helpers import in_one_test, short_chains

RNG = np.random.default_rng(0)
X = np.linspace(0.0, 4.0, 12)[:, None]
TRIALS = RNG.integers(2, 12, 12)
Y = RNG.binomial(TRIALS, 0.5 + 0.4 * np.sin(2.0 * X[:, 0]))
FIXED = ConstantKernel(2.0, "fixed") * RBF(0.8, "fixed")
QUICK = {"n_chains": 2, "n_draws": 60, "target_ess": None, "random_state": 0}


@pytest.fixture(scope="module")
def fitted():
    with short_chains():
        return BayesianGPBinomialRegressor(FIXED, **QUICK).fit(X, Y, trials=TRIALS)


class OneTrial(BayesianGPBinomialRegressor):
    """One trial in each row, as the targets of scikit-learn's checks are any numbers."""

    def fit(self, X, y, sample_weight=None, trials=None):
        if y is not None:
            y = np.asarray(y)
            if np.issubdtype(y.dtype, np.number):
                y = np.where(np.isfinite(y), y > 1.0, y)
        return super().fit(X, y, sample_weight=sample_weight, trials=trials)

    def score(self, X, y, sample_weight=None, trials=None):
        return super().score(X, (np.asarray(y) > 1.0).astype(float), sample_weight, trials)


@short_chains()
def test_one_trial_in_each_row_passes_the_checks_of_scikit_learn():
    quick = {"sampler": "sa", "priors": "paper", "n_chains": 1, "n_warmup": 1, "n_draws": 3}
    failed = []
    for estimator, check in estimator_checks_generator(OneTrial(**quick)):
        name = getattr(check, "func", check).__name__
        try:
            check(estimator)
        except SkipTest:
            continue
        except Exception as error:
            failed.append(f"{name}: {error}")
    # Targets of this check are objects, which the class above leaves as they are.
    assert [text for text in failed if not text.startswith("check_dtype_object")] == []


@in_one_test("method", ["ep", "laplace"])
def test_evidence_is_that_of_the_single_trials_times_the_ways_to_order_them(method):
    single = np.concatenate(
        [np.arange(n) < k for k, n in zip(Y, TRIALS, strict=True)]
    )  # successes first
    approximation = "laplace" if method == "laplace" else "ep"
    settings = {**QUICK, "approximation": approximation}
    with short_chains():
        counts = BayesianGPBinomialRegressor(FIXED, **settings).fit(X, Y, trials=TRIALS)
        rows = BayesianGPClassifier(FIXED, **settings).fit(np.repeat(X, TRIALS, axis=0), single)
    theta = np.empty(0)
    ways = gammaln(TRIALS + 1.0) - gammaln(Y + 1.0) - gammaln(TRIALS - Y + 1.0)
    found = counts.log_evidence(method, theta).value
    assert found == pytest.approx(rows.log_evidence(method, theta).value + ways.sum(), abs=1e-5)


@pytest.mark.statistical
@in_one_test("likelihood", ["binomial", "binomial_logit"])
def test_posterior_is_that_of_the_single_trials(likelihood):
    single = np.concatenate([np.arange(n) < k for k, n in zip(Y, TRIALS, strict=True)])
    link = "logit" if likelihood == "binomial_logit" else "probit"
    counts = BayesianGPBinomialRegressor(
        likelihood=likelihood, target_ess=2000, random_state=0
    ).fit(X, Y, trials=TRIALS)
    rows = BayesianGPClassifier(likelihood=link, target_ess=2000, random_state=1).fit(
        np.repeat(X, TRIALS, axis=0), single
    )
    assert_allclose(counts.predict(X), rows.predict_proba(X)[:, 1], atol=0.015)
    error = np.hypot(counts.diagnostics_.mcse_mean, rows.diagnostics_.mcse_mean)
    gap = counts.theta_samples_.mean(axis=(0, 1)) - rows.theta_samples_.mean(axis=(0, 1))
    assert np.all(np.abs(gap) < 5.0 * error)


@short_chains()
def test_likelihood_of_a_single_trial_serves_counts():
    """Probabilities stay between the rate of guesses and one minus that of lapses."""
    quick = {**QUICK, "sampler": "sa", "n_chains": 1, "n_warmup": 10}
    observer = PsychometricProbit(0.3, 0.1, infer_lapse=False)
    model = BayesianGPBinomialRegressor(FIXED, likelihood=observer, **quick)
    model.fit(X, Y, trials=TRIALS)
    p, (low, high) = model.predict(X, return_quantiles=[0.001, 0.999])
    assert np.all((low > 0.3) & (low < p) & (p < high) & (high < 0.9))
    assert_array_equal(model.exceedance_proba(X, 0.2), 1.0)
    assert_array_equal(model.exceedance_proba(X, 0.95), 0.0)
    _, std, quantiles = model.predict(X, TRIALS, return_std=True, return_quantiles=[0.05, 0.95])
    draws = model.sample_y(X, 4000, trials=TRIALS)
    assert_allclose(std, draws.std(axis=1), rtol=0.15)
    assert np.all(np.abs(quantiles - np.quantile(draws, [0.05, 0.95], axis=1)) <= 1.0)
    for one, name in ((Probit(), "binomial"), (Logit(), "binomial_logit")):
        own, plain = (
            BayesianGPBinomialRegressor(FIXED, likelihood=likelihood, **quick).fit(
                X, Y, trials=TRIALS
            )
            for likelihood in (one, name)
        )
        assert_array_equal(own.latent_samples_, plain.latent_samples_)


def test_quantiles_of_probabilities_are_over_the_rates_of_lapses_too():
    """Each draw has a rate of its own; the one that the chains start at is far from all of them."""
    settings = {**QUICK, "sampler": "sa", "n_chains": 1, "n_warmup": 50, "max_predict_draws": None}
    model = BayesianGPBinomialRegressor(
        FIXED, likelihood=PsychometricProbit(0.1, 0.001), **settings
    )
    trials = np.full(len(X), 200.0)
    with short_chains():
        model.fit(X, np.rint(0.7 * trials), trials=trials)
    # Given the odds o of a lapse, the probability of a success is 0.1 + 0.9 Phi(f) / (1 + o).
    odds = np.exp(model.theta_samples_[0, :, -1:])
    p = 0.1 + 0.9 * ndtr(model.latent_samples_[0]) / (1.0 + odds)
    assert odds.min() > 0.01
    mean, quantiles = model.predict(X, return_quantiles=[0.1, 0.9])
    assert_allclose(mean, p.mean(axis=0), rtol=1e-3)
    for own, probability in zip(quantiles, (0.1, 0.9), strict=True):
        assert_allclose(np.mean(p <= own, axis=0), probability, atol=0.03)
    for threshold in (0.05, 0.7, 0.999):
        above = model.exceedance_proba(X, threshold)
        assert_allclose(above, np.mean(p > threshold, axis=0), atol=0.01)


def test_probabilities_average_those_of_the_latent_draws(fitted):
    p = ndtr(fitted.sample_latent(X, 4000, random_state=0))
    mean, std, quantiles = fitted.predict(X, return_std=True, return_quantiles=(0.1, 0.9))
    error = p.std(axis=1) / np.sqrt(2 * 60)  # of the draws of the fit
    assert np.all(np.abs(mean - p.mean(axis=1)) < 4.0 * error)
    assert_allclose(std, p.std(axis=1), rtol=0.15)
    for quantile, share in zip(quantiles, (0.1, 0.9), strict=True):
        assert_allclose(np.mean(p <= quantile[:, None], axis=1), share, atol=0.06)
    above = fitted.exceedance_proba(X, 0.4)
    assert_allclose(above, np.mean(p > 0.4, axis=1), atol=0.06)


def test_numbers_of_successes_have_the_moments_of_their_draws(fitted):
    draws = fitted.sample_y(X, 6000, random_state=0, trials=TRIALS)
    assert np.all((draws >= 0) & (draws <= TRIALS[:, None]))
    mean, std, quantiles = fitted.predict(
        X, trials=TRIALS, return_std=True, return_quantiles=(0.1, 0.5)
    )
    assert_allclose(mean, TRIALS * fitted.predict(X))
    assert_allclose(mean, draws.mean(axis=1), atol=0.3)
    assert_allclose(std, draws.std(axis=1), rtol=0.1)
    proba = fitted.predict_count_proba(X, np.arange(12), trials=TRIALS)
    assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-8)
    assert_allclose(proba @ np.arange(12), mean, rtol=1e-7)
    below = np.cumsum(proba, axis=1)
    for quantile, share in zip(quantiles.astype(int), (0.1, 0.5), strict=True):
        assert_array_equal(quantile, np.argmax(below >= share, axis=1))
    log_p = fitted.log_predictive_density(X, Y, trials=TRIALS)
    assert_allclose(np.exp(log_p), proba[np.arange(12), Y], rtol=1e-8)


def test_quantiles_of_millions_of_successes_are_those_of_the_probability(fitted):
    """Counts that are looked for must not run into the trials of an encoded target.

    Their distribution is an average over draws, each with a narrow distribution. So it has steps,
    of one draw in 120 or in 200, between which any count is a quantile.
    """
    n = np.full(12, 5e7)
    shares = np.array([0.05, 0.5, 0.95])
    _, low = fitted.predict(X, return_quantiles=shares - 0.014)
    _, high = fitted.predict(X, return_quantiles=shares + 0.014)
    _, of_counts = fitted.predict(X, trials=n, return_quantiles=shares)
    assert (low <= of_counts / n).all()
    assert (of_counts / n <= high).all()


def test_score_is_the_explained_share_of_the_deviance(fitted):
    assert 0.2 < fitted.score(X, Y, trials=TRIALS) < 1.0
    share = np.full(12, Y.sum() / TRIALS.sum())
    same = fitted.score(X, np.zeros(12), trials=TRIALS)
    assert same == 0.0
    fitted_share = type("Constant", (BayesianGPBinomialRegressor,), {"predict": lambda *_: share})
    assert fitted_share().score(X, Y, trials=TRIALS) == pytest.approx(0.0, abs=1e-12)


@short_chains()
def test_beta_binomial_rows_vary_more_than_binomial_ones():
    settings = {**QUICK, "likelihood": "beta_binomial", "sampler": "asis", "n_warmup": 50}
    settings |= {"n_draws": 40, "n_chains": 1}
    model = BayesianGPBinomialRegressor(FIXED, **settings).fit(X[::2], Y[::2], trials=TRIALS[::2])
    assert model.hyperparameter_names_ == ["precision"]
    p, of_p = model.predict(X, return_std=True)
    n = np.full(len(X), 50)
    mean, std = model.predict(X, trials=n, return_std=True)
    assert_allclose(mean, n * p)
    binomial = np.sqrt(n * (p - p**2 - of_p**2) + n**2 * of_p**2)
    assert np.all(std > 1.02 * binomial)
    draws = model.sample_y(X, 4000, random_state=0, trials=n)
    assert_allclose(std, draws.std(axis=1), rtol=0.12)
    few, levels = X[:3], [0.05, 0.5, 0.95]
    trials = np.array([1, 20, 50])
    _, quantiles = model.predict(few, trials=trials, return_quantiles=levels)
    at_most = np.cumsum(model.predict_count_proba(few, np.arange(51), trials=trials), axis=1)
    for level, own in zip(levels, quantiles.astype(int), strict=True):
        assert np.all(at_most[np.arange(3), own] >= level)
        assert np.all((own == 0) | (at_most[np.arange(3), own - 1] < level))
    sampled = np.quantile(model.sample_y(few, 4000, trials=trials), levels, axis=1)
    assert_allclose(quantiles, sampled, atol=2.0)
    with pytest.raises(ValueError, match="at most 1000 trials; got 1001 in row 0"):
        model.predict(few[:1], trials=[1001], return_quantiles=[0.5])


BAD = [
    ({"y": Y + 0.5}, "integers from 0 to the number of trials"),
    ({"y": TRIALS + 1}, "got [0-9]+ of [0-9]+ in row 0"),
    ({"trials": None, "y": np.full(12, 3)}, "Give the numbers of trials as trials="),
    ({"trials": TRIALS + 0.5}, "trials must be whole numbers"),
    ({"trials": np.zeros(12)}, "trials must be finite and positive"),
    ({"trials": TRIALS[1:]}, "trials must have one number per row of X"),
    ({"trials": np.full(12, 1e9)}, "trials must be whole numbers up to 67108863"),
]


@in_one_test("change, message", BAD)
def test_impossible_numbers_are_refused(change, message):
    data = {"y": Y, "trials": TRIALS} | change
    with pytest.raises(ValueError, match=message):
        BayesianGPBinomialRegressor(**QUICK).fit(X, data["y"], trials=data["trials"])


def test_arguments_of_predictions_are_checked(fitted):
    with pytest.raises(ValueError, match="likelihood must be one of successes in trials"):
        BayesianGPBinomialRegressor(likelihood=Poisson(), **QUICK).fit(X, Y, trials=TRIALS)
    for threshold in (0.0, 1.0, [0.5], np.nan):
        with pytest.raises(ValueError, match=r"threshold must be a number in \(0, 1\)"):
            fitted.exceedance_proba(X, threshold)
    with pytest.raises(ValueError, match="counts must be a list of integers"):
        fitted.predict_count_proba(X, [0.5])


@short_chains()
def test_averages_over_kernels_take_trials():
    average = BayesianGPBinomialRegressor([FIXED, ConstantKernel(1.0, "fixed")], **QUICK)
    average.fit(X, Y, trials=TRIALS)
    assert average.kernel_weights_.sum() == pytest.approx(1.0)
    mean, quantiles = average.predict(X, trials=TRIALS, return_quantiles=(0.5,))
    assert np.all(np.abs(quantiles[0] - mean) < 2.0)
    assert average.sample_y(X, 3, trials=TRIALS).shape == (12, 3)
