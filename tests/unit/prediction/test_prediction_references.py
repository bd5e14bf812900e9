"""Predictions against closed forms and quadrature: weights, scales and noise each have a place."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.special import logsumexp, ndtr
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skgpmcmc import (
    BayesianGPClassifier,
    BayesianGPCountRegressor,
    BayesianGPRegressor,
    BayesianGPVolatilityRegressor,
)
from skgpmcmc.approximations import Exact
from skgpmcmc.likelihoods import Gaussian, Logit
from skgpmcmc.model import LatentGP, Observations, default_hyperprior, make_covariance
from skgpmcmc.prediction.densities import find_density_arrays
from skgpmcmc.prediction.predictor import Predictor
from skgpmcmc.prediction.strategy import Integrated, OwnLatent
from skgpmcmc.run.leave_one_out import GivenRows, leave_one_out
from skgpmcmc.run.records import Draws

from ...helpers import P_LIMIT, Z_LIMIT, exact_posterior, make_model, z_score

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

RNG = np.random.default_rng(0)
N = 6
X = np.linspace(0.0, 2.0, N)[:, None]
X_NEW = np.array([[0.3], [1.1], [4.0]])
Y = 5.0 + np.sin(2.0 * X[:, 0]) + 0.2 * RNG.standard_normal(N)
WEIGHT = np.array([4.0, 1.0, 1.0, 0.5, 1.0, 2.0])
COUNTS = np.array([9.0, 5.0, 6.0, 4.0, 1.0, 0.0])
QUICK = {"n_chains": 1, "n_warmup": 0, "n_draws": 8, "random_state": 0, "sampler": "aa"}
FIXED = ConstantKernel(1.0, "fixed") * RBF(1.0, "fixed")
#: A latent function that is nothing: predictions are those of the center alone.
FLAT = ConstantKernel(1e-12, "fixed") * RBF(1.0, "fixed")
FAR = np.array([[50.0]])


# --- draws that differ in their noise and in their weights ----------------------------------------

NOISE = np.array([0.02, 0.3, 2.0])
SHARE = np.array([0.1, 0.2, 0.7])


def predictor(strategy):
    """Three draws whose noise differs, and of which the last stands for most of the posterior."""
    covariance = make_covariance(FIXED, X)
    likelihood = Gaussian(0.7)  # where chains might have started
    y = Y - Y.mean()
    model = LatentGP(
        covariance, Observations(likelihood, y), default_hyperprior(covariance, likelihood, "paper")
    )
    theta = np.log(NOISE)[:, None]
    f = np.stack([y, y + 1.0, y - 3.0])
    return Predictor(
        model, theta, f, 10.0 * SHARE, find_density_arrays(model, Exact(), theta), strategy
    )


def components(used):
    """Mean and variance of a target at each new row for every draw, by dense algebra; (3, 3)."""
    K, cross, means, variances = FIXED(X), FIXED(X, X_NEW), [], []
    for noise, f in zip(NOISE, used.f, strict=True):
        A, target = (
            (K, f)
            if isinstance(used.strategy, OwnLatent)
            else (K + noise**2 * np.eye(N), used.model.y)
        )
        projection = np.linalg.solve(A, cross)
        means.append(projection.T @ target)
        variances.append(1.0 - np.einsum("im,im->m", cross, projection) + noise**2)
    return np.array(means), np.array(variances)


@pytest.fixture(params=[Integrated(), OwnLatent()], ids=["collapsed", "own"])
def used(request):
    return predictor(request.param)


def test_target_quantiles_are_those_of_the_mixture(used):
    means, variances = components(used)
    for probability in (0.05, 0.4, 0.9):
        (quantile,) = used.target_quantiles([probability], X_NEW)
        below = SHARE @ ndtr((quantile - means) / np.sqrt(variances))
        assert_allclose(below, probability, atol=1e-6)


def test_targets_are_drawn_from_the_mixture(used):
    means, variances = components(used)
    draws = used.sample_targets(X_NEW, 2000, np.random.default_rng(1))
    for row in range(len(X_NEW)):

        def cdf(y, row=row):
            z = (y[:, None] - means[:, row]) / np.sqrt(variances[:, row])
            return ndtr(z) @ SHARE

        assert stats.kstest(draws[:, row], cdf).pvalue > P_LIMIT


def test_moments_of_targets_are_those_of_the_mixture(used):
    means, variances = components(used)
    mean, variance = used.target_moments(X_NEW)
    assert_allclose(mean, SHARE @ means, rtol=1e-6)
    assert_allclose(used.target_mean(X_NEW), mean, rtol=1e-12)
    assert_allclose(variance, SHARE @ (variances + means**2) - (SHARE @ means) ** 2, rtol=1e-6)


def test_densities_of_targets_are_those_of_the_mixture(used):
    means, variances = components(used)
    y = np.array([0.1, -2.0, 1.5])
    expected = np.log(SHARE @ stats.norm(means, np.sqrt(variances)).pdf(y))
    assert_allclose(used.log_predictive([y], X_NEW)[0], expected, rtol=1e-6)


def test_draws_of_targets_have_the_predicted_deviation():
    reg = BayesianGPRegressor(FIXED, **QUICK).fit(X, Y)
    mean, std = reg.predict(X_NEW, return_std=True)
    deviations = reg.sample_y(X_NEW, 4000, 0) - mean[:, None]
    for row in range(len(X_NEW)):
        assert abs(z_score(deviations[row], 0.0)) < Z_LIMIT
        assert abs(z_score(deviations[row] ** 2, std[row] ** 2)) < Z_LIMIT


# --- units of y -----------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [3.0, 0.01])
def test_known_noise_scales_with_the_square_of_units_of_y(scale):
    """Targets in other units, with their noise in those units, are the same problem."""

    def fitted(unit):
        reg = BayesianGPRegressor(FIXED, alpha=0.3 * unit**2, **QUICK)
        return reg.fit(X, unit * Y, noise_variance=unit**2 * np.linspace(0.1, 2.0, N))

    one, other = fitted(1.0), fitted(scale)
    assert_allclose(other.theta_samples_, one.theta_samples_, rtol=1e-8)
    mean, std = one.predict(X_NEW, return_std=True)
    scaled_mean, scaled_std = other.predict(X_NEW, return_std=True)
    assert_allclose(scaled_mean, scale * mean, rtol=1e-6)
    assert_allclose(scaled_std, scale * std, rtol=1e-6)


def test_known_noise_enters_the_model_in_normalized_units():
    rows = np.linspace(0.1, 2.0, N)
    reg = BayesianGPRegressor(FIXED, alpha=0.3, **QUICK).fit(X, Y, noise_variance=rows)
    likelihood, row_of = reg._predictor.model.likelihood, reg._rows.row_of
    _, scale = reg._units  # which `tests/unit/estimators/test_noise.py` tests
    assert_allclose(likelihood.row_variance[row_of], rows / scale**2, rtol=1e-12)
    assert likelihood.alpha == pytest.approx(0.3 / scale**2, rel=1e-12)


# --- centers --------------------------------------------------------------------------------------


def test_prediction_far_from_the_data_is_the_weighted_mean_of_y():
    reg = BayesianGPRegressor(FIXED, **QUICK).fit(X, Y, sample_weight=WEIGHT)
    assert reg.predict(FAR)[0] == pytest.approx(np.average(Y, weights=WEIGHT), rel=1e-10)
    variance = np.average((Y - np.average(Y, weights=WEIGHT)) ** 2, weights=WEIGHT)
    assert reg.latent_mean_and_variance(FAR)[1][0] == pytest.approx(variance, rel=1e-10)


def test_prediction_far_from_the_data_is_the_weighted_rate_of_counts():
    exposure = np.array([1.0, 2.0, 0.5, 1.0, 3.0, 1.0])
    est = BayesianGPCountRegressor(FLAT, likelihood="poisson", **QUICK)
    est.fit(X, COUNTS, sample_weight=WEIGHT, exposure=exposure)
    expected = (WEIGHT @ COUNTS) / (WEIGHT @ exposure)
    assert est.predict(FAR)[0] == pytest.approx(expected, rel=1e-6)


def test_prediction_far_from_the_data_is_the_weighted_volatility():
    y = Y - 5.0
    est = BayesianGPVolatilityRegressor(FLAT, **QUICK).fit(X, y, sample_weight=WEIGHT)
    expected = np.sqrt(np.average(y**2, weights=WEIGHT))
    assert est.predict(FAR)[0] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("mean", "warns"), [(150.0, True), (-3.0, True), (0.0, False), (0.4, False)]
)
def test_volatility_warns_if_the_mean_of_y_is_not_zero(mean, warns, recwarn):
    noise = np.random.default_rng(2).standard_normal(30)
    x = np.linspace(0.0, 1.0, 30)[:, None]
    BayesianGPVolatilityRegressor(FLAT, **QUICK).fit(x, mean + (noise - noise.mean()))
    said = [str(w.message) for w in recwarn if w.category is UserWarning]
    assert len(said) == warns
    if warns:
        assert f"y has mean {mean:.4g} and standard deviation {noise.std():.4g}" in said[0]
        assert "subtract it from y" in said[0]


# --- volatility -----------------------------------------------------------------------------------


def test_predicted_volatility_is_the_mean_of_exp_f():
    """E exp(f*) = exp(m + v / 2) given each draw of f, m and v by dense algebra."""
    y = 0.01 * (Y - 5.0)
    est = BayesianGPVolatilityRegressor(FIXED, max_predict_draws=None, **QUICK).fit(X, y)
    center = 0.5 * np.log(np.mean(y**2))
    cross = FIXED(X, X_NEW)
    projection = np.linalg.solve(FIXED(X), cross)
    mean = center + (est.latent_samples_[0] - center) @ projection
    var = 1.0 - np.einsum("im,im->m", cross, projection)
    assert_allclose(est.predict(X_NEW), np.exp(mean + 0.5 * var).mean(axis=0), rtol=1e-5)
    # Densities by quadrature over f*.
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    f = mean[..., None] + np.sqrt(var)[:, None] * nodes
    target = np.array([0.004, -0.01, 0.02])
    density = stats.norm(0.0, np.exp(f)).pdf(target[:, None]) @ weights / weights.sum()
    expected = np.log(density.mean(axis=0))
    assert_allclose(est.log_predictive_density(X_NEW, target), expected, rtol=1e-4)


# --- leave-one-out --------------------------------------------------------------------------------


def test_leave_one_out_follows_units_of_y_and_weights():
    """The density of a row of weight w, per unit of y, has the scale to the power -w."""
    settings = {**QUICK, "n_draws": 40}

    def fitted(unit):
        return BayesianGPRegressor(FIXED, **settings).fit(X, unit * Y, sample_weight=WEIGHT)

    one, other = fitted(1.0).loo(), fitted(100.0).loo()
    assert_allclose(other.elpd_i, one.elpd_i - WEIGHT * np.log(100.0), atol=1e-8)
    assert_allclose(other.pareto_k, one.pareto_k, atol=1e-8)


def test_leave_one_out_of_a_softmax_is_that_of_fits_without_the_row():
    """Two classes are a logit of the difference of two functions: p(y_i | y_-i) by quadrature."""
    x, y = np.array([[0.0], [0.7], [1.5]]), np.array([0, 1, 1])
    kernel = ConstantKernel(1.0, "fixed") * RBF(1.0, "fixed")
    clf = BayesianGPClassifier(
        kernel, multi_class="softmax", n_chains=2, n_warmup=0, n_draws=150, random_state=0
    ).fit(x, y)
    K = 2.0 * kernel(x) + 2e-8 * np.eye(3)
    signs = np.where(y == 1, 1.0, -1.0)
    whole = exact_posterior(K, signs, Logit())[0]
    for i in range(3):
        rest = np.delete(np.arange(3), i)
        without = exact_posterior(K[np.ix_(rest, rest)], signs[rest], Logit())[0]
        # The harmonic mean of 300 draws, of bounded weights: a standard error of about 0.02.
        assert clf.loo().elpd_i[i] == pytest.approx(whole - without, abs=0.08)


def test_leave_one_out_of_equal_weights_has_no_tail_fit():
    """Equal weights have no tail to fit: plain importance sampling, and k says so."""
    model = make_model([[0.0], [1.0], [2.0]], [1.0, -1.0, 1.0])
    rng = np.random.default_rng(0)
    moving, still = (
        rng.standard_normal((2, 100, 3)),
        np.repeat(rng.standard_normal((2, 1, 3)), 100, 1),
    )
    f = np.where([True, False, False], moving, still)
    draws = Draws(np.zeros((2, 100, 2)), f, [], None)
    result = leave_one_out(model, draws, GivenRows(np.arange(3), np.ones(3)))
    log_lik = model.observations.log_prob(f.reshape(200, 3).T)
    plain = np.log(200.0) - logsumexp(-log_lik, axis=1)
    assert np.isinf(result.pareto_k[1:]).all()
    assert np.isfinite(result.pareto_k[0])
    assert_allclose(result.elpd_i[1:], plain[1:], rtol=1e-12)
    assert np.isfinite([result.elpd, result.p_loo, result.se]).all()


def test_leave_one_out_names_a_row_without_density():
    model = make_model([[0.0], [1.0], [2.0]], [1.0, -1.0, 1.0])
    f = np.random.default_rng(0).standard_normal((2, 100, 3))
    f[1, 3, 1] = 1e200  # log Phi(-1e200) is below all numbers
    draws, given = Draws(np.zeros((2, 100, 2)), f, [], None), GivenRows(np.arange(3), np.ones(3))
    with pytest.raises(ValueError, match="loo: row 1 of the training data has no finite"):
        leave_one_out(model, draws, given)
