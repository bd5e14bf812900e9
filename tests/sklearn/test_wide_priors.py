"""Priors under which chains go where hardly anything can be computed."""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skgpmcmc import BayesianGPClassifier, BayesianGPCountRegressor, BayesianGPVolatilityRegressor
from skgpmcmc.likelihoods import NegativeBinomial, OrdinalProbit
from skgpmcmc.samplers import PseudoMarginal

from ..helpers import short_chains

#: The median of this variance is exp(693).
WIDE = {"k1__constant_value": stats.pareto(0.001)}
SHORT = {"n_chains": 2, "n_warmup": 3, "n_draws": 13, "n_importance": 4, "target_ess": None}
SHORT |= {"approximation": "laplace"}
WALK = PseudoMarginal(moves="random_walk")


@short_chains()
def test_prediction_error_names_theta_at_which_f_cannot_be_drawn():
    column = [-0.132, 0.105, 0.362, 0.947, -1.265, 0.042, -0.219, -0.732]
    X, y = np.column_stack([np.full(8, 3.0), column]), np.array([0, 1, 0, 2, 3, 2, 0, 2])
    messages = []
    for seed in range(4):  # a chain may have been at values where predictions are fine, or overflow
        model = BayesianGPCountRegressor(
            priors=WIDE, sampler=WALK, max_predict_draws=3, random_state=seed, **SHORT
        ).fit(X, y)
        try:
            assert np.isfinite(model.predict(X[:2])).all()
        except ValueError as error:
            messages.append(str(error))
    known = re.compile(r"where a chain has been|beyond double precision")
    assert all(map(known.search, messages))
    wanted = re.compile(r"(?s)'k1__constant_value': .*where a chain has been.*use priors")
    assert any(map(wanted.search, messages))


@short_chains()
def test_estimates_that_are_zero_have_an_infinite_noise():
    X = np.random.default_rng(0).standard_normal((8, 15))
    y = np.array([0, 0, 1, 0, 0, 1, 2, 1])
    noises = [
        BayesianGPCountRegressor(
            likelihood="poisson",
            priors=WIDE,
            sampler=WALK,
            max_predict_draws=3,
            random_state=seed,
            **SHORT,
        )
        .fit(X, y)
        .diagnostics_.log_likelihood_sd
        for seed in range(4)
    ]
    assert np.isinf(noises).any()  # and no warning, which would be an error here
    assert not np.isnan(noises).any()


@short_chains()
def test_identical_rows_under_a_wide_prior_give_finite_probabilities():
    """K is of rank one, and has a density however large it is."""
    model = BayesianGPClassifier(multi_class="softmax", priors=WIDE, random_state=0, **SHORT)
    model.fit(np.full((3, 2), 3.0), [0, 1, 2])
    proba = model.predict_proba(np.full((3, 2), 3.0))
    assert np.isfinite(proba).all()
    assert_allclose(proba, proba[:1].repeat(3, axis=0), rtol=1e-9)
    f = model.latent_samples_
    assert_allclose(f, f[:, :, :1].repeat(3, axis=2), rtol=1e-9)  # of each class


def test_class_beyond_double_precision_has_probability_zero():
    likelihood = OrdinalProbit(thresholds=(-145.7, 2.64e19, 2.64e19))
    y, weight = np.array([0.0, 2.0, 3.0]), np.array([1.0, 0.26, 0.75])
    log_z = likelihood.weighted_tilted_moments(y, weight, np.zeros(3), np.full(3, 1.0)).log_z
    assert np.isfinite(log_z[0])
    assert not (log_z[1:] > -1e10).any()  # and no warning, which would be an error here


# --- a variance that is large and fixed -----------------------------------------------------------

ROWS = np.linspace(-2.0, 2.0, 30)[:, None]
RATE = np.exp(1.0 + np.sin(2.0 * ROWS[:, 0]))
_RNG = np.random.default_rng(3)
TARGETS = {"counts": _RNG.poisson(RATE), "returns": RATE * _RNG.standard_normal(30)}
TARGETS["returns"] -= TARGETS["returns"].mean()
EXPONENTIAL = {
    "poisson": (BayesianGPCountRegressor(likelihood="poisson"), "counts"),
    "negative_binomial": (
        BayesianGPCountRegressor(likelihood=NegativeBinomial(5.0, fixed=True)),
        "counts",
    ),
    "volatility": (BayesianGPVolatilityRegressor(), "returns"),
}


@short_chains()
def of_variance(variance, model, targets, length_scale=1.0):
    kernel = ConstantKernel(variance, "fixed") * RBF(length_scale, "fixed")
    model = clone(model).set_params(kernel=kernel, n_chains=2, n_draws=60, random_state=0)
    return model.fit(ROWS, targets)


@pytest.fixture(scope="module", params=EXPONENTIAL)
def wide(request):
    """A model whose variance is 10^6, one whose variance is 1000, and the targets of both."""
    estimator, kind = EXPONENTIAL[request.param]
    y = TARGETS[kind]
    return of_variance(1e6, estimator, y), of_variance(1e3, estimator, y), y


def averages(model, y, rows):
    """All that is said of some rows, one line for each number."""
    X = ROWS[rows]
    mean, std, quantiles = model.predict(X, return_std=True, return_quantiles=[0.1, 0.9])
    density = model.log_predictive_density(X, y[rows])
    found = [mean, std, *quantiles, density, *model.latent_mean_and_variance(X)]
    if hasattr(model, "predict_count_proba"):
        found += [*model.predict_count_proba(X, [0, 1, 5]).T]
    return np.array(found)


def test_draw_without_weight_does_not_enter_averages(wide):
    """Prior draws reach f = 2000, whose weight is zero and whose exponential overflows."""
    model, moderate, y = wide
    rows = np.arange(0, 30, 4)
    together = averages(model, y, rows)
    assert np.isfinite(together).all()
    # Rounding is in proportion to the prior standard deviation of f.
    assert_allclose(averages(model, y, rows[[4]])[:, 0], together[:, 4], rtol=1e-7, atol=1e-7)
    assert_array_equal(model.predict(ROWS[rows]), together[0])
    mean, std = together[:2]
    # A wider prior bends f more at the ends: next to one of them by 0.48, with thousands of draws.
    inner = slice(1, -1)
    assert_allclose(np.log(mean / moderate.predict(ROWS[rows]))[inner], 0.0, atol=0.7)
    assert_allclose(np.log(mean / RATE[rows])[inner], 0.0, atol=1.0)
    assert np.isfinite(model.score(ROWS, y))
    assert np.abs(model.sample_y(ROWS[rows], 50)).max() < 20.0 * std.max()


def test_prediction_that_overflows_far_from_the_data_names_the_row(wide):
    message = r"row 1 of X, \[50.\], comes out as inf: the latent function is of the size of 1e\+03"
    with pytest.raises(ValueError, match=message):
        wide[0].predict([[0.1], [50.0]])


def test_quantiles_of_counts_are_zero_where_the_rate_is_zero():
    """f is of the size of -1000 there, and a search upwards must not end at infinite counts."""
    y = np.where(ROWS[:, 0] > 0.5, 3, 0)
    model = of_variance(1e8, BayesianGPCountRegressor(likelihood="poisson"), y, 0.3)
    mean, quantiles = model.predict(ROWS, return_quantiles=[0.2, 0.9])
    assert_allclose(quantiles[:, mean < 1e-3], 0.0)
    assert (mean < 1e-3).sum() > 10
    assert np.all(quantiles[1, mean > 1.0] >= 3.0)
