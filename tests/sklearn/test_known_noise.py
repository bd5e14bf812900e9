"""Regression whose noise is known, for all rows or for each, and regression without noise."""

import pickle
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from skgpmcmc import (
    BayesianGPClassifier,
    BayesianGPCountRegressor,
    BayesianGPOrdinalClassifier,
    BayesianGPRegressor,
    BayesianGPVolatilityRegressor,
)
from skgpmcmc.likelihoods import Gaussian, Poisson, StudentT

from ..helpers import in_one_test, short_chains

#: With free hyper-parameters "aa" is the sampler whose set-up takes no time.
QUICK = {"n_chains": 2, "n_warmup": 5, "n_draws": 12, "target_ess": None, "random_state": 0}
FIXED = ConstantKernel(2.0, "fixed") * RBF(0.8, "fixed")
FREE = ConstantKernel(2.0, "fixed") * RBF(0.8)
N = 12
X = np.linspace(0.0, 4.0, N)[:, None]
Y = 20.0 + 4.0 * np.sin(2.0 * X[:, 0])
X_NEW = np.array([[-1.0], [0.3], [2.0], [6.0]])
VARIANCE = np.linspace(0.05, 1.0, N)
#: Four measurements with a standard deviation of ten.
PLACES, LARGE = np.arange(4.0)[:, None], np.array([10_000.0, 14_000.0, 17_000.0, 20_000.0])


def regressor(**settings):
    return BayesianGPRegressor(**{**QUICK, **settings})


def closed_form(kernel, X, y, variance, X_new):
    """Mean and standard deviation of f by scikit-learn's regressor."""
    peer = GaussianProcessRegressor(kernel, alpha=variance, optimizer=None).fit(X, y)
    return peer.predict(X_new, return_std=True)


# --- what is known is all there is ----------------------------------------------------------------

SAID = {
    "noise": ({"noise": "known"}, {"noise_variance": np.full(4, 100.0)}),
    "object": ({"likelihood": Gaussian(0.0, fixed=True)}, {"noise_variance": np.full(4, 100.0)}),
    "object with rows": (
        {"likelihood": Gaussian(0.0, fixed=True, row_variance=np.full(4, 100.0))},
        {},
    ),
}


@short_chains()
def test_known_noise_does_not_depend_on_the_spread_of_y():
    """However it is said: the noise is 10, and not a share of the spread of y."""
    predictions = []
    for settings, arguments in SAID.values():
        est = regressor(kernel=FREE, **settings).fit(PLACES, LARGE, **arguments)
        assert est.hyperparameter_names_ == ["k2__length_scale"]
        predictions.append(est.predict(PLACES, return_std=True))
    for mean, std in predictions:
        assert_allclose(mean, LARGE, atol=5.0)
        assert_allclose(std, 10.0, rtol=0.02)
        assert_array_equal((mean, std), predictions[0])


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("variance", [VARIANCE, np.full(N, 1e-3)], ids=["rows", "small"])
def test_predictions_at_fixed_theta_equal_the_closed_form(normalize, variance):
    est = regressor(kernel=FIXED, noise="known", alpha=0.02, normalize_y=normalize)
    est.fit(X, Y, noise_variance=variance)
    shift, scale = est._units
    mean, std = closed_form(
        FIXED, X, (Y - shift) / scale, (variance + 0.02) / scale**2, np.concatenate([X, X_NEW])
    )
    found, spread = est.predict(np.concatenate([X, X_NEW]), return_std=True)
    assert_allclose(found, shift + scale * mean, rtol=1e-6)
    expected = np.sqrt((scale * std) ** 2 + 0.02)
    assert_allclose(spread, expected, rtol=1e-6)
    at = np.linspace(10.0, 30.0, N + 4)
    density = est.log_predictive_density(np.concatenate([X, X_NEW]), at)
    assert_allclose(density, stats.norm(found, spread).logpdf(at), rtol=1e-8)
    quantiles = est.predict(X_NEW, return_quantiles=[0.05, 0.5, 0.9])[1]
    law = stats.norm(found[N:], spread[N:])
    assert_allclose(quantiles, law.ppf([[0.05], [0.5], [0.9]]), rtol=1e-7)
    _, cov = est.predict(X_NEW, return_cov=True)
    assert_allclose(np.diagonal(cov), spread[N:] ** 2, rtol=1e-6)
    f = est.latent_mean_and_variance(X_NEW)[1]
    assert_allclose(spread[N:] ** 2, f + 0.02, rtol=1e-8)
    drawn = est.sample_y(X_NEW, 4000, random_state=0)
    assert_allclose(drawn.std(axis=1), spread[N:], rtol=0.06)


@short_chains()
def test_average_over_kernels_draws_targets_with_the_noise_of_new_rows():
    est = regressor(kernel=[FIXED, FIXED], noise="known", alpha=0.02)
    est.fit(X, Y, noise_variance=VARIANCE)
    drawn = est.sample_y(X_NEW, 4000, random_state=0)
    _, std = est.predict(X_NEW, return_std=True)
    assert_allclose(drawn.std(axis=1), std, rtol=0.06)


def replicates():
    """Several rows at each of five sites, whose noise differs from site to site and row to row."""
    rng = np.random.default_rng(3)
    sites = np.linspace(0.0, 3.0, 5)[:, None]
    at = np.repeat(np.arange(5), [1, 4, 2, 5, 3])
    variance = rng.uniform(0.5, 2.0, 15) * np.array([0.01, 0.5, 0.1, 1.0, 0.05])[at]
    y = 2.0 + np.sin(sites[at, 0]) + np.sqrt(variance) * rng.standard_normal(15)
    return sites, at, y, variance


def test_replicates_give_the_predictions_of_their_weighted_means():
    sites, at, y, variance = replicates()
    precision = np.bincount(at, 1.0 / variance)
    mean = np.bincount(at, y / variance) / precision
    settings = {"noise": "known", "normalize_y": False}
    one_by_one = regressor(kernel=FIXED, **settings).fit(sites[at], y, noise_variance=variance)
    means = regressor(kernel=FIXED, **settings).fit(sites, mean, noise_variance=1.0 / precision)
    new = np.linspace(-1.0, 4.0, 7)[:, None]
    for found, expected in zip(
        one_by_one.predict(new, return_std=True), means.predict(new, return_std=True), strict=True
    ):
        assert_allclose(found, expected, rtol=1e-10)
    target = np.linspace(0.0, 4.0, 7)
    densities = [est.log_predictive_density(new, target) for est in (one_by_one, means)]
    assert_allclose(*densities, rtol=1e-10)
    # Whatever theta: what rows say of one another within a site is no matter of f.
    within = stats.norm(mean[at], np.sqrt(variance)).logpdf(y).sum()
    within -= stats.norm(0.0, precision**-0.5).logpdf(0.0).sum()
    free = regressor(**settings, sampler="aa", n_draws=1, n_warmup=0)
    with short_chains():
        rows = clone(free).fit(sites[at], y, noise_variance=variance)
        ends = clone(free).fit(sites, mean, noise_variance=1.0 / precision)
    # The linear part is around the mean of the sites, however many rows each of them has.
    for theta in ([1.0, 1.0, 1.0], [0.3, 2.0, 5.0], [9.0, 0.2, 0.1]):
        gap = [est.log_evidence("ep", theta=theta).value for est in (rows, ends)]
        assert gap[0] - gap[1] == pytest.approx(within, abs=1e-10)


@short_chains()
def test_noise_variances_of_a_likelihood_object_are_in_units_of_y():
    """As the arguments of the estimator; its noise_scale is a hyper-parameter, as in a kernel."""
    settings = {"kernel": FIXED, "alpha": 0.1}
    known = Gaussian(0.3, fixed=True, alpha=0.2, row_variance=0.5 * VARIANCE)
    own = regressor(likelihood=known, **settings).fit(X, Y, noise_variance=0.5 * VARIANCE)
    shift, scale = own._units
    variance = (0.3 + VARIANCE) / scale**2 + 0.3**2
    mean, std = closed_form(FIXED, X, (Y - shift) / scale, variance, X_NEW)
    found, spread = own.predict(X_NEW, return_std=True)
    assert_allclose(found, shift + scale * mean, rtol=1e-8)
    assert_allclose(spread, np.sqrt(scale**2 * (std**2 + 0.3**2) + 0.3), rtol=1e-8)
    of_rows = Gaussian(0.3, row_variance=VARIANCE)
    inferred = regressor(kernel=FIXED, sampler="aa", likelihood=of_rows).fit(X, Y)
    by_name = regressor(kernel=FIXED, sampler="aa").fit(X, Y, noise_variance=VARIANCE)
    assert_array_equal(inferred.theta_samples_, by_name.theta_samples_)
    assert_array_equal(inferred.predict(X), by_name.predict(X))


@short_chains()
@in_one_test("noise", ["inferred", "known", "none"])
def test_predictions_follow_the_units_of_y(noise):
    def fitted(unit):
        given = {} if noise == "none" else {"noise_variance": unit**2 * VARIANCE}
        alpha = 0.0 if noise == "none" else 0.1 * unit**2
        est = regressor(kernel=FREE, noise=noise, alpha=alpha, sampler="aa", max_predict_draws=None)
        return est.fit(X, unit * Y, **given)

    one, other, power = fitted(1.0), fitted(1000.0), fitted(1024.0)
    assert_array_equal(power.theta_samples_, one.theta_samples_)
    assert_allclose(other.theta_samples_, one.theta_samples_, rtol=1e-6, atol=1e-6)
    assert_allclose(other.predict(X_NEW), 1000.0 * one.predict(X_NEW), rtol=1e-6)
    # The logs of densities are per unit of y.
    at = one.predict(X_NEW)
    found = power.log_predictive_density(X_NEW, 1024.0 * at)
    assert_allclose(found, one.log_predictive_density(X_NEW, at) - np.log(1024.0), rtol=1e-10)
    assert_allclose(power.latent_samples_, 1024.0 * one.latent_samples_, rtol=1e-12)


# --- no noise -------------------------------------------------------------------------------------


def simulated(X):
    return 7.0 + 3.0 * np.sin(2.0 * X[:, 0]) * np.cos(X[:, 1])


@pytest.fixture(scope="module")
def simulator():
    """Thirty runs of a smooth function of two inputs."""
    runs = np.random.default_rng(1).uniform(-1.5, 1.5, (30, 2))
    return runs, simulated(runs)


@pytest.mark.parametrize("kernel", [RBF(), Matern(nu=2.5)], ids=["rbf", "matern"])
def test_fit_without_noise_interpolates_a_simulator(kernel, simulator):
    """Warnings are errors here: the chains of a default fit converge."""
    runs, y = simulator
    est = BayesianGPRegressor(ConstantKernel() * kernel, noise="none", random_state=0).fit(runs, y)
    mean, std = est.predict(runs, return_std=True)
    assert np.abs(mean - y).max() < 1e-3 * y.std()
    assert std.max() < 1.1e-3 * y.std()
    new = np.random.default_rng(2).uniform(-1.2, 1.2, (200, 2))
    mean, std = est.predict(new, return_std=True)
    z = (mean - simulated(new)) / std
    assert np.sqrt(np.mean((mean - simulated(new)) ** 2)) < 0.1 * y.std()
    assert np.abs(z).max() < 6.0


@pytest.mark.parametrize("normalize", [True, False])
def test_numerical_noise_is_a_share_of_the_variance_of_y(normalize):
    for constant in (1.0, 1e4):  # whatever the kernel's own variance is
        kernel = ConstantKernel(constant, "fixed") * Matern(0.8, "fixed", nu=2.5)
        est = regressor(kernel=kernel, noise="none", normalize_y=normalize).fit(X, Y)
        shift, scale = est._units
        noise = 1e-6 * Y.var() / scale**2
        mean, std = closed_form(kernel, X, (Y - shift) / scale, noise, X_NEW)
        found, spread = est.predict(X_NEW, return_std=True)
        assert_allclose(found, shift + scale * mean, rtol=1e-6)
        assert_allclose(spread, scale * std, rtol=1e-5)
        assert_allclose(spread**2, est.latent_mean_and_variance(X_NEW)[1], rtol=1e-10)


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("arguments", [("none", {}), ("known", {"noise_variance": VARIANCE})])
@short_chains()
def test_constant_target_without_noise_is_predicted(arguments, normalize):
    noise, given = arguments
    est = regressor(kernel=FREE, noise=noise, normalize_y=normalize)
    est.fit(X, np.full(N, 5.0), **given)
    mean, std = est.predict(X, return_std=True)
    assert_allclose(mean, 5.0, atol=0.01 if noise == "none" else 0.6)
    assert np.isfinite(std).all()


def test_equal_inputs_without_noise_must_have_equal_targets():
    doubled, twice = np.concatenate([X, X[3:5]]), np.concatenate([Y, Y[3:5]])
    est = regressor(kernel=FIXED, noise="none").fit(doubled, twice)
    assert_allclose(est.predict(X), Y, atol=1e-3 * Y.std())
    close = twice + np.append(np.zeros(N), [1e-9, -1e-9])  # as sums in another order may be
    assert_allclose(regressor(kernel=FIXED, noise="none").fit(doubled, close).predict(X), Y, atol=1)
    other = twice + np.append(np.zeros(N), [0.0, 1.0])
    message = r'Rows 4 and 13 of X are equal and have no noise.*noise="inferred".*leave one'
    with pytest.raises(ValueError, match=message):
        regressor(noise="none").fit(doubled, other)
    some = np.append(np.full(N, 0.1), [0.1, 0.0])  # one of the two may have none
    known = regressor(kernel=FIXED, noise="known")
    assert np.isfinite(known.fit(doubled, other, noise_variance=some).predict(X)).all()
    some[4] = 0.0
    with pytest.raises(ValueError, match=message):
        known.fit(doubled, other, noise_variance=some)
    known.fit(doubled, other, noise_variance=some, sample_weight=np.append(np.ones(N + 1), 0.0))
    white = FIXED + WhiteKernel(0.1, "fixed")  # every row has a value of its own
    assert np.isfinite(regressor(kernel=white, noise="none").fit(doubled, other).predict(X)).all()


def test_a_row_without_noise_among_others_is_interpolated():
    variance = VARIANCE.copy()
    variance[5] = 0.0
    est = regressor(kernel=FIXED, noise="known").fit(X, Y, noise_variance=variance)
    mean, std = est.predict(X[[5]], return_std=True)
    assert abs(mean[0] - Y[5]) < 1e-3
    assert std[0] < 1.1e-4 * Y.std()


# --- what does not go together --------------------------------------------------------------------


@in_one_test(
    "settings, fit, message",
    [
        ({"noise": "some"}, {}, r"noise must be one of \['inferred', .*; got 'some'"),
        ({"noise": None}, {}, "noise must be one of"),
        ({"noise": "known"}, {}, r'With noise="known".*zero for every row: give alpha, or fit\('),
        ({"noise": "known"}, {"noise_variance": np.zeros(N)}, "zero for every row"),
        (
            {"likelihood": Gaussian(0.0, fixed=True)},
            {},
            r"With likelihood=Gaussian\(noise_scale=0.0, fixed=True.*zero for every row",
        ),
        ({"noise": "none", "alpha": 1.0}, {}, 'noise="none".*use noise="known"'),
        ({"noise": "none"}, {"noise_variance": VARIANCE}, 'noise="none".*use noise="known"'),
        ({"noise": "known", "likelihood": "student_t"}, {}, "noise='known' is for .*'student_t'"),
        ({"noise": "none", "likelihood": StudentT()}, {}, "noise='none' is for .*StudentT"),
        ({"noise": "none", "likelihood": Gaussian()}, {}, "noise='none' is .*use noise=\"inf"),
        ({"noise": "none", "likelihood": Poisson()}, {}, "noise='none' is for "),
        ({"likelihood": Poisson(), "alpha": 1.0}, {}, "variances of Gaussian noise"),
        ({"likelihood": Gaussian(0.0)}, {}, r"likelihood.noise_scale .*\(0, inf\); got 0.0"),
        ({"likelihood": Gaussian(-1.0, fixed=True)}, {}, r"noise_scale .*\[0, inf\); got -1.0"),
        ({"likelihood": Gaussian(alpha=-1.0)}, {}, r"likelihood.alpha must be .*got -1.0"),
        (
            {"likelihood": Gaussian(row_variance=-VARIANCE)},
            {},
            "likelihood.row_variance must be finite and not negative",
        ),
    ],
)
def test_contradictory_settings_of_noise_are_refused(settings, fit, message):
    with pytest.raises(ValueError, match=message):
        regressor(**settings).fit(X, Y, **fit)


# --- all other parts ------------------------------------------------------------------------------


def known_or_none(noise):
    return {} if noise == "none" else {"noise_variance": VARIANCE}


@short_chains()
@in_one_test(
    "noise, sampler",
    product(["known", "none"], ["pm", "marginal", "sa", "aa", "asis", "surr", "khr"]),
)
def test_every_sampler_accepts_known_noise_and_no_noise(noise, sampler):
    est = regressor(kernel=FIXED, noise=noise, sampler=sampler, n_draws=8, n_importance=4)
    est.fit(X, Y, **known_or_none(noise))
    assert est.theta_samples_.shape == (2, 8, 0)
    new = X + 0.1
    mean, std, quantiles = est.predict(new, return_std=True, return_quantiles=[0.1, 0.9])
    found = [mean, std, quantiles, est.log_predictive_density(new, Y), est.sample_y(X, 3, 0)]
    assert all(np.isfinite(values).all() for values in found)
    assert np.isfinite(est.log_evidence("ep").value)


@pytest.fixture(scope="module")
@short_chains()
def fits():
    return {
        noise: regressor(kernel=FREE, noise=noise, n_draws=30).fit(X, Y, **known_or_none(noise))
        for noise in ("known", "none")
    }


@in_one_test("noise", ["known", "none"])
def test_loo_evidence_and_arviz_are_finite_with_known_noise(noise, fits):
    est = pickle.loads(pickle.dumps(fits[noise]))
    assert_array_equal(est.predict(X_NEW), fits[noise].predict(X_NEW))
    assert np.isfinite(est.loo().elpd)
    assert np.isfinite(est.log_evidence().value)
    pytest.importorskip("arviz_base")
    tree = est.to_arviz(posterior_predictive=True)
    assert np.isfinite(tree["posterior_predictive"]["y"].values).all()
    assert next(iter(tree["posterior"].data_vars)) == "k2__length_scale"


@short_chains()
def test_warm_start_refuses_another_noise(fits):
    est = regressor(kernel=FREE, noise="known", n_draws=15, warm_start=True)
    est.fit(X, Y, noise_variance=VARIANCE)
    est.set_params(n_draws=30).fit(X, Y, noise_variance=VARIANCE)
    assert_array_equal(est.theta_samples_, fits["known"].theta_samples_)
    with pytest.raises(ValueError, match="X or y differ from its data, or what goes with"):
        est.fit(X, Y, noise_variance=2.0 * VARIANCE)
    with pytest.raises(ValueError, match=r"\['noise'\] changed since"):
        est.set_params(noise="inferred").fit(X, Y, noise_variance=VARIANCE)


# --- targets that are no numbers ------------------------------------------------------------------

COUNTS = np.arange(float(N))
TARGETS = {
    BayesianGPRegressor: Y,
    BayesianGPCountRegressor: COUNTS,
    BayesianGPVolatilityRegressor: Y - 20.0,
    BayesianGPClassifier: COUNTS % 2.0,
    BayesianGPOrdinalClassifier: COUNTS % 3.0,
}
NOT_FINITE = [
    (np.nan, r"Input y contains NaN\. It is nan in row 3: leave the row out"),
    (np.inf, r"contains infinity or a value too large for dtype\('float64'\)\. It is inf in row 3"),
    (-np.inf, r"It is -inf in row 3"),
]


@pytest.mark.filterwarnings("ignore:A column-vector y:sklearn.exceptions.DataConversionWarning")
@in_one_test("cls, case", product(TARGETS, NOT_FINITE))
def test_targets_that_are_not_finite_are_named_by_their_row(cls, case):
    value, message = case
    y = TARGETS[cls].copy()
    y[[3, 8]] = value
    for given in (y, y.astype(np.float32), y[:, None]):
        with pytest.raises(ValueError, match=message):
            cls().fit(X, given)
