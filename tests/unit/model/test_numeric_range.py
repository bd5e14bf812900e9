"""Numbers at the ends of double precision: a finite result, or an error that names the row."""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.special import gammaln
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern

from skgpmcmc import (
    BayesianGPClassifier,
    BayesianGPCountRegressor,
    BayesianGPOrdinalClassifier,
    BayesianGPPoissonRegressor,
    BayesianGPRegressor,
    BayesianGPVolatilityRegressor,
)
from skgpmcmc.approximations import GaussianApproximation, Sites
from skgpmcmc.importance.interpolated import _site_coordinates
from skgpmcmc.likelihoods import Logit, NegativeBinomial, OrdinalProbit, Poisson, Volatility
from skgpmcmc.model import make_covariance
from skgpmcmc.numerics.linalg import NotPositiveDefiniteError

from ...helpers import NO_THETA, given_model, in_one_test

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

RNG = np.random.default_rng(0)
N = 6
X = np.linspace(0.0, 2.0, N)[:, None]
F = np.sin(2.0 * X[:, 0])
Y = F + 0.2 * RNG.standard_normal(N)
COUNTS = np.array([3.0, 5.0, 6.0, 4.0, 1.0, 0.0])
#: The sampler without warm-up of its own, for a few draws at fixed hyper-parameters.
QUICK = {"n_chains": 1, "n_warmup": 0, "n_draws": 6, "random_state": 0}
FIXED = ConstantKernel(1.0, "fixed") * RBF(1.0, "fixed")
LINEAR = DotProduct(1.0, "fixed")
IN_TURN = {**QUICK, "sampler": "aa"}
ROWS = np.array([[1.0], [1e200], [-1e200]])
BOTH_NAMED = r"row 1 of X, \[1.e\+200\], comes out as (nan|inf).*(overflows|is of the size of)"


def linear(cls, y, **settings):
    return cls(LINEAR, **{**IN_TURN, **settings}).fit(X, y)


# --- targets of any size --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ordinary():
    return BayesianGPRegressor(FIXED, **IN_TURN).fit(X, Y)


@pytest.mark.parametrize("scale", [1e200, 1e-200, 2.0**1022, 2.0**-1000])
def test_draws_do_not_depend_on_the_size_of_targets(ordinary, scale):
    """Normalized targets are the same, and so are the draws; a power of two not even rounds."""
    reg = BayesianGPRegressor(FIXED, **IN_TURN).fit(X, scale * Y)
    mean, std, quantiles = ordinary.predict(X, return_std=True, return_quantiles=[0.1, 0.8])
    scaled = reg.predict(X, return_std=True, return_quantiles=[0.1, 0.8])
    for found, expected in zip(scaled, (mean, std, quantiles), strict=True):
        assert_allclose(found / scale, expected, rtol=1e-6)
    assert_allclose(reg.sample_y(X, 3, 0) / scale, ordinary.sample_y(X, 3, 0), rtol=1e-6)
    assert_allclose(reg.sample_latent(X, 3, 0) / scale, ordinary.sample_latent(X, 3, 0), rtol=1e-5)
    assert_allclose(reg.latent_samples_ / scale, ordinary.latent_samples_, rtol=1e-6)
    density = reg.log_predictive_density(X, scale * Y)
    assert_allclose(density + np.log(scale), ordinary.log_predictive_density(X, Y), atol=1e-6)
    assert reg.score(X, scale * Y) == pytest.approx(ordinary.score(X, Y), abs=1e-6)


@pytest.mark.parametrize("scale", [1e200, 1e300])
def test_variance_that_overflows_in_units_of_y_is_refused(scale):
    reg = BayesianGPRegressor(FIXED, **IN_TURN).fit(X, scale * Y)
    with pytest.raises(ValueError, match=r"overflows in the units of y.*divide y by a power"):
        reg.latent_mean_and_variance(X)


def test_constant_target_has_scale_one_despite_rounding():
    reg = BayesianGPRegressor(FIXED, **IN_TURN).fit(X, np.full(N, 0.1))
    assert reg._units == (0.1, 1.0)


def test_target_out_of_reach_has_log_density_minus_infinity(ordinary):
    """Minus infinity is the log of a density that is below all numbers, and so is its log."""
    assert_array_equal(ordinary.log_predictive_density(X[:2], [1e200, -1e308]), -np.inf)


@pytest.mark.parametrize("scale", [1e200, 1e-200])
def test_volatility_follows_targets_of_any_size(scale):
    def fitted(y):
        return BayesianGPVolatilityRegressor(FIXED, **{**IN_TURN, "n_draws": 26}).fit(X, y)

    y = Y - Y.mean()
    one, other = fitted(y), fitted(scale * y)
    assert_allclose(other.predict(X) / scale, one.predict(X), rtol=1e-6)
    assert other.score(X, scale * y) + np.log(scale) == pytest.approx(one.score(X, y), abs=1e-6)
    assert_allclose(other.loo().elpd_i + np.log(scale), one.loo().elpd_i, atol=1e-6)


NOT_NORMALIZED = BayesianGPRegressor(FIXED, normalize_y=False, **IN_TURN)
NOT_CENTERED = BayesianGPVolatilityRegressor(FIXED, center=False, **IN_TURN)
QUADRATIC = BayesianGPRegressor(DotProduct() ** 2, **QUICK)


@in_one_test(
    ("est", "rows", "y", "message"),
    [
        (NOT_NORMALIZED, X, 1e200 * Y, r"y is out of range.* row \d.*normalize_y=True"),
        (NOT_NORMALIZED, X, 1e-200 * Y, r"y is out of range.* row \d.*normalize_y=True"),
        (NOT_CENTERED, X, 1e200 * Y, r"root mean square of .*center=True"),
        (NOT_CENTERED, X, 1e-200 * Y, r"root mean square of .*center=True"),
        (
            BayesianGPRegressor(FIXED, alpha=1.0, **IN_TURN),
            *(X, 1e-200 * Y, r"alpha or noise_variance is 1, out of all proportion"),
        ),
        *(
            (BayesianGPRegressor(**QUICK), 0.5 * size * X, Y, r"X has the value .* in row 5 of col")
            for size in (1e160, 1e200, 1.7e308)
        ),
        (QUADRATIC, np.maximum(X - 1.0, 0.0) * 1e40, Y, r"kernel=.* has the variance .* at row 3"),
        (
            BayesianGPCountRegressor(),
            *(X[:4], [1.0, 2.0, 1e300, 0.0], r"y has the count 1e\+300 in row 2, .* logarithms"),
        ),
    ],
)
def test_training_data_out_of_range_are_refused_with_the_reason(est, rows, y, message):
    with pytest.raises(ValueError, match=message):
        est.fit(rows, y)


# --- inputs of any size ---------------------------------------------------------------------------


@in_one_test("nu", [0.5, 1.5, 2.5, np.inf])
@in_one_test("length_scale", [1.0, np.ones(2)], ids=["isotropic", "ard"])
def test_stationary_kernels_are_zero_at_infinite_distances(nu, length_scale):
    """The polynomial of a Matern kernel must not meet its exponential as infinity times zero."""
    kernel = ConstantKernel(2.0) * Matern(length_scale, nu=nu)
    covariance = make_covariance(kernel, np.ones((3, 2)))
    far = np.array([[1e160, 0.0], [-1e160, 0.0], [1.0, 1.0]])
    expected = 2.0 * np.array([[0.0, 0.0, 1.0]] * 3)
    assert_array_equal(covariance.cross(kernel.theta, far), expected)
    assert_allclose(covariance.square(kernel.theta, far), 2.0 * np.eye(3))


def test_predictions_far_from_the_data_return_to_the_prior():
    kernel = ConstantKernel(1.0, "fixed") * Matern(1.0, "fixed", nu=1.5)
    reg = BayesianGPRegressor(kernel, **IN_TURN).fit(X, Y)
    rows = np.array([[1e160], [-1e160], [1.7e308]])
    mean, _, quantiles = reg.predict(rows, return_std=True, return_quantiles=[0.5])
    assert_allclose(mean, Y.mean(), rtol=1e-12)
    assert_allclose(quantiles[0], Y.mean(), rtol=1e-6)
    assert_allclose(reg.latent_mean_and_variance(rows)[1], Y.var(), rtol=1e-12)
    assert np.isfinite(reg.sample_y(rows, 2, 0)).all()
    assert np.isfinite(reg.sample_latent(rows, 2, 0)).all()


# --- rows out of reach: every method of every estimator -------------------------------------------


@pytest.fixture(scope="module")
def estimators():
    classes = np.array([0, 1, 0, 1, 2, 2])
    return {
        "regression": linear(BayesianGPRegressor, Y, sampler="collapsed"),
        "student_t": linear(BayesianGPRegressor, Y, likelihood="student_t"),
        "poisson": linear(BayesianGPPoissonRegressor, COUNTS),
        "negative_binomial": linear(BayesianGPCountRegressor, COUNTS),
        "ordinal": linear(BayesianGPOrdinalClassifier, classes),
        "volatility": linear(BayesianGPVolatilityRegressor, Y - Y.mean()),
        "probit": linear(BayesianGPClassifier, classes % 2),
        "logit": linear(BayesianGPClassifier, classes % 2, likelihood="logit"),
        "one_vs_rest": linear(BayesianGPClassifier, classes),
    }


NAMES = [
    *("regression", "student_t", "poisson", "negative_binomial", "ordinal", "volatility"),
    *("probit", "logit", "one_vs_rest"),
]


def calls(est):
    """Every public prediction of an estimator, as functions of new rows."""
    y = [0.0, 1.0, 1.0] if not hasattr(est, "classes_") else est.classes_[[0, 1, 1]]
    found = {
        "predict": est.predict,
        "log_predictive_density": lambda rows: est.log_predictive_density(rows, y),
        "score": lambda rows: est.score(rows, y),
    }
    for name in ("predict_proba", "predict_log_proba", "latent_mean_and_variance", "sample_latent"):
        if hasattr(est, name) and (name[0] == "p" or not hasattr(est, "estimators_")):
            found[name] = getattr(est, name)
    if not hasattr(est, "classes_"):
        found["std"] = lambda rows: est.predict(rows, return_std=True)[1]
        found["quantiles"] = lambda rows: est.predict(rows, return_quantiles=[0.1, 0.9])[1]
        found["sample_y"] = lambda rows: est.sample_y(rows, 2, 0)
    if isinstance(est, BayesianGPRegressor):
        found["covariance"] = lambda rows: est.predict(rows, return_cov=True)[1]
    if isinstance(est, BayesianGPCountRegressor):
        found["count_proba"] = lambda rows: est.predict_count_proba(rows, [0, 4, 1e9])
    return found


#: What ends in minus infinity where it is below all numbers.
LOGS = ("log_predictive_density", "predict_log_proba")


@in_one_test("size", [1e20, 1e200, 1.7e308])
@pytest.mark.parametrize("name", NAMES)
def test_rows_out_of_reach_get_a_finite_prediction_or_are_named(estimators, name, size):
    rows = np.array([[1.0], [size], [-size]])
    est = estimators[name]
    for method, call in calls(est).items():
        values, refusal = outcome(call, rows)
        if refusal:
            assert re.search(r"row [12] of X.*leave it out", refusal), (method, refusal)
        logs = method in LOGS or (name, method) == ("volatility", "score")
        assert (np.isfinite(values) | (np.isneginf(values) & logs)).all(), (method, values)


def outcome(call, rows):
    """Values, in a row, or none and the message of a ValueError; warnings are errors here."""
    try:
        return np.concatenate([np.ravel(part) for part in np.atleast_1d(call(rows))]), ""
    except ValueError as error:
        return np.empty(0), str(error)


@in_one_test("name", NAMES)
def test_error_of_a_row_out_of_reach_names_the_first_row_and_the_reason(estimators, name):
    for method in ("log_predictive_density", "predict"):
        if name in ("regression", "student_t") and method == "predict":
            continue  # a mean of 1e199 is a number
        with pytest.raises(ValueError, match=BOTH_NAMED):
            calls(estimators[name])[method](ROWS)


def test_rate_of_counts_that_overflows_far_from_the_data_is_refused(estimators):
    rows = np.array([[1.0], [1e6], [-1e6]])
    with pytest.raises(ValueError, match=r"prediction for row [12] .*latent function is of the"):
        estimators["poisson"].predict(rows)
    assert np.isfinite(estimators["poisson"].predict(rows[:1])).all()


def test_score_of_counts_with_a_predicted_mean_of_zero_is_refused(estimators):
    est = estimators["poisson"]
    far = np.array([[1e6], [-1e6]])
    rows = far[[np.argmin(est.latent_mean_and_variance(far)[0])]]
    assert_array_equal(est.predict(rows), 0.0)
    with pytest.raises(ValueError, match=r"mean of the count for row 0"):
        est.score(rows, [2.0])


# --- counts ---------------------------------------------------------------------------------------


@in_one_test("log_shape", [-5.0, 0.0, 3.0, 10.0, 20.0, 45.0, 300.0, 1e4])
@in_one_test("f", [-3.0, 1.5])
def test_probabilities_of_negative_binomial_counts_sum_to_one(log_shape, f):
    likelihood = NegativeBinomial().with_parameters(np.array([log_shape]))
    log_p = likelihood.log_prob(np.arange(50_000.0), np.array(f))
    assert (log_p <= 1e-12).all()
    rest = stats.nbinom(likelihood.shape, likelihood.shape / (likelihood.shape + np.exp(f)))
    tail = rest.sf(49_999) if log_shape < 0.0 else 0.0
    assert np.exp(log_p).sum() + tail == pytest.approx(1.0, abs=1e-9)


@in_one_test("shape", [0.01, 1.0, 14.0, 16.0, 1e3])
def test_negative_binomial_agrees_with_the_textbook(shape):
    y, f = np.array([0.0, 0.5, 1.0, 7.0, 15.0, 400.0])[:, None], np.linspace(-5.0, 8.0, 9)
    textbook = gammaln(y + shape) - gammaln(shape) - gammaln(y + 1.0)
    textbook = textbook - (y + shape) * np.log(shape + np.exp(f)) + shape * np.log(shape) + y * f
    found = NegativeBinomial(shape, fractional=True).log_prob(y, f)
    assert_allclose(found, textbook, rtol=1e-10, atol=1e-10)


def test_negative_binomial_of_an_enormous_shape_equals_poisson():
    y, f = np.array([0.0, 1.0, 9.0, 1e4])[:, None], np.linspace(-5.0, 9.0, 8)
    near = NegativeBinomial(1e18)
    assert_allclose(near.log_prob(y, f), Poisson().log_prob(y, f), rtol=1e-9)
    slopes = near.parameter_derivatives(y, f).log_prob[0]
    assert_allclose(slopes, 0.0, atol=1e-8)


@in_one_test("y", [1e9, 1e17, 1e100])
def test_probability_of_a_huge_count_at_its_mode_follows_stirling(y):
    """Stirling's formula: 1 / sqrt(2 pi y)."""
    expected = -0.5 * np.log(2.0 * np.pi * y)
    assert Poisson().log_prob(y, np.log(y)) == pytest.approx(expected, rel=1e-9)
    assert NegativeBinomial(1e300).log_prob(y, np.log(y)) == pytest.approx(expected, rel=1e-9)


@in_one_test("shape", [1e12, 1e17, 1e200])
def test_predictive_probabilities_of_counts_of_enormous_shape_sum_to_one(shape):
    """As a Pareto prior on the shape has it, and no data denies."""
    log_p = NegativeBinomial(shape).log_predictive(np.arange(120.0), 1.0, 0.3)
    assert np.exp(log_p).sum() == pytest.approx(1.0, abs=1e-9)


# --- other integrals ------------------------------------------------------------------------------


def test_class_between_close_thresholds_far_away_has_density_times_width():
    """Its probability is the density times the width, where both ends round to one number."""
    likelihood = OrdinalProbit((0.0, 1.0))
    log_p = likelihood.log_predictive(1.0, 1e19, 1e38)
    assert log_p == pytest.approx(-0.5 * np.log(2.0 * np.pi) - 0.5 - np.log(1e19), rel=1e-12)


def test_mode_between_two_neighboring_doubles_is_no_error():
    """Of exp(f) with f near 1e19 doubles see nothing but zero and overflow."""
    log_p = Poisson().log_predictive(0.0, np.array([1.8e19, 0.5]), np.array([1e36, 1.0]))
    assert np.isfinite(log_p[1])
    assert np.isnan(log_p[0]) or log_p[0] == pytest.approx(stats.norm.logcdf(-18.0), rel=1e-6)


@in_one_test("mean", [-1e17, -1.0129292738462907e18, -3e19])
def test_tilted_moments_are_right_where_doubles_are_coarser_than_the_logit(mean):
    """f near 0 is a difference of two large numbers: the density is one or nothing there."""
    sd = 3.556729380765498e17
    expected = stats.norm.logcdf(mean / sd)
    log_z = Logit().tilted_moments(np.ones(1), np.array([mean]), np.array([sd**2])).log_z
    assert_allclose(log_z, expected, rtol=1e-3)


@pytest.mark.parametrize("likelihood", [Poisson(), Volatility()], ids=lambda law: law.name)
def test_log_predictive_without_latent_spread_equals_log_prob(likelihood):
    """The slope at the mean overflows, and a spread of zero takes it away."""
    mean = np.array([2e3, 1.0, -2e3])
    log_p = likelihood.log_predictive(3.0, mean, 0.0)
    with np.errstate(over="ignore"):
        expected = likelihood.log_prob(np.array(3.0), mean)
    assert np.isneginf(expected).sum() == 1
    assert_allclose(log_p, expected, rtol=1e-12)


def test_sites_without_precision_have_finite_coordinates():
    """Rows of next to no weight leave none."""
    coordinates = _site_coordinates(Sites(np.zeros(3), np.zeros(3)))
    assert np.isfinite(coordinates).all()


@in_one_test("precision", [0.1, 1e-5])
def test_matrix_with_a_negative_eigenvalue_is_refused_as_covariance(precision):
    """B = I + W^1/2 K W^1/2 has a factor, and K a negative eigenvalue."""
    prior = given_model([[1.0, 5.0], [5.0, 1.0]], np.ones(2)).prior_at(NO_THETA)
    prior_variance = prior.K.diagonal()
    q = GaussianApproximation(prior, Sites(np.zeros(2), np.full(2, precision)))
    if precision > 0.05:
        with pytest.raises(NotPositiveDefiniteError, match=r"negative eigenvalue|no covariance"):
            _ = q.marginal_variance
    else:  # it does not show
        assert_allclose(q.marginal_variance, prior_variance, rtol=1e-3)
