"""The sparse prior: density, gradient, margins and draws; whom it is for, and where tau goes."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.integrate import quad
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from skgpmcmc.approximations import EP, Exact, Laplace
from skgpmcmc.hyperposterior import HyperPosterior
from skgpmcmc.likelihoods import Gaussian, NegativeBinomial, Probit, Softmax
from skgpmcmc.model import (
    ClasswiseGP,
    HyperPrior,
    LatentGP,
    Observations,
    column_widths,
    default_hyperprior,
    make_covariance,
    smooth_kernel,
)
from skgpmcmc.model.hyperpriors import LOG_SCALE_LIMIT
from skgpmcmc.setup.emulator.gp import find_flattening

from ...helpers import P_LIMIT, finite_difference, in_one_test, relative_error, toy_classes

WIDTHS = np.array([0.5, 3.0])
#: Names of a model whose length-scales stand between others; "shrinkage" comes last.
NAMES = ["k1__constant_value", "k2__length_scale", "k2__length_scale", "noise_scale"]
GAMMA, LOGNORMAL = stats.gamma(1.1, scale=10.0), stats.lognorm(1.0, scale=0.3)


@pytest.fixture(scope="module")
def prior():
    laws = {"k1__constant_value": GAMMA, "noise_scale": LOGNORMAL}
    return HyperPrior(NAMES, laws, shrunk={"k2__length_scale": WIDTHS})


@pytest.fixture(scope="module")
def draws(prior):
    rng = np.random.default_rng(5)
    return np.array([prior.sample(rng) for _ in range(1500)])


def hierarchical(theta):
    """Log density of theta: one distribution of scipy after the other, and the Jacobian."""
    value, tau = np.exp(theta), np.exp(theta[-1])
    rho = (WIDTHS / value[1:3]) ** 2
    of_lengths = stats.halfcauchy.logpdf(rho, scale=tau) + np.log(2.0 * rho / value[1:3])
    total = stats.halfcauchy.logpdf(tau, scale=0.1) + of_lengths.sum()
    return total + GAMMA.logpdf(value[0]) + LOGNORMAL.logpdf(value[3]) + theta.sum()


# --- density --------------------------------------------------------------------------------------


def test_sparse_prior_density_equals_that_of_the_hierarchy(prior, draws):
    far = np.array([[0.0, 30.0, -30.0, 1.0, 20.0], [1.0, -20.0, -20.0, 0.0, -40.0]])
    theta = np.concatenate([draws[:200], far])
    expected = [hierarchical(row) for row in theta]
    assert_allclose(prior.log_prob(theta), expected, rtol=1e-11)
    assert prior.names == (*NAMES, "shrinkage")


def test_sparse_prior_gradient_and_curvature_equal_finite_differences(prior, draws):
    for theta in draws[:20]:
        value, gradient = prior.value_and_gradient(theta)
        assert value == pytest.approx(prior.log_prob(theta), rel=1e-14)
        expected = finite_difference(prior.log_prob, theta)
        assert_allclose(gradient, expected, rtol=1e-6, atol=1e-8)
        second = np.diag(finite_difference(prior.gradient, theta))
        assert_allclose(prior.curvature(theta), np.maximum(-second, 0.0), rtol=1e-5, atol=1e-8)


def test_sparse_prior_of_a_batch_equals_that_of_its_rows(prior, draws):
    batch = draws[:5].copy()
    batch[1, 1], batch[3, -1] = LOG_SCALE_LIMIT + 1.0, np.nan
    value, gradient = prior.value_and_gradient(batch)
    assert_array_equal(np.isfinite(value), [True, False, True, False, True])
    for row, theta in enumerate(batch):
        expected, slope = prior.value_and_gradient(theta)
        assert_allclose(value[row], expected, rtol=1e-13)
        assert_allclose(gradient[row], slope, rtol=1e-13)


def test_sparse_prior_depends_on_lengths_in_units_of_column_widths(prior, draws):
    other = HyperPrior(NAMES, prior.distributions, shrunk={"k2__length_scale": [5e4, 3e-6]})
    shift = np.array([0.0, np.log(1e5), np.log(1e-6), 0.0, 0.0])
    assert_allclose(other.log_prob(draws + shift), prior.log_prob(draws), rtol=1e-11)


def test_kernels_of_several_classes_share_one_tau():
    names = ["length_scale"] * 4  # two features, two classes
    prior = HyperPrior(names, {}, shrunk={"length_scale": WIDTHS})
    theta = np.array([0.1, 0.4, -0.3, 0.8, -2.0])
    rho = np.tile(WIDTHS, 2) ** 2 * np.exp(-2.0 * theta[:4])
    expected = (stats.halfcauchy.logpdf(rho, scale=np.exp(-2.0)) + np.log(2.0 * rho)).sum()
    expected += stats.halfcauchy.logpdf(np.exp(-2.0), scale=0.1) - 2.0
    assert prior.log_prob(theta) == pytest.approx(expected, rel=1e-12)
    assert list(prior.table) == ["length_scale[0]", "length_scale[1]", "shrinkage"]


# --- margins and draws ----------------------------------------------------------------------------


def test_draws_of_the_sparse_prior_follow_its_margins(prior, draws):
    """And, given tau, the half-Cauchy distribution: both length-scales, independently."""
    for j, law in enumerate(prior.laws):
        assert stats.kstest(np.exp(draws[:, j]), law.cdf).pvalue > P_LIMIT
    rho = (WIDTHS / np.exp(draws[:, 1:3])) ** 2
    given = stats.halfcauchy.cdf(rho / np.exp(draws[:, -1:]))
    assert stats.kstest(given.ravel(), "uniform").pvalue > P_LIMIT
    assert stats.spearmanr(*given.T).pvalue > P_LIMIT
    assert stats.spearmanr(given[:, 0], draws[:, -1]).pvalue > P_LIMIT


@in_one_test("log_length", [-12.0, -1.0, 0.2, 1.1, 1.1512925464970228, 1.2, 4.0, 12.0])
def test_margin_of_a_length_scale_is_the_integral_over_tau(prior, log_length):
    """The one at the median, in units of the width, is where its formula is 0 / 0."""
    length, law = WIDTHS[0] * np.exp(log_length), prior.laws[1]

    def joint(log_tau):
        """Density of the length-scale and of log tau."""
        rho, tau = np.exp(-2.0 * log_length), np.exp(log_tau)
        of_length = stats.halfcauchy.pdf(rho, scale=tau) * 2.0 * rho / length
        return of_length * stats.halfcauchy.pdf(tau, scale=0.1) * tau

    middle = [np.log(0.1), -2.0 * log_length]
    expected, _ = quad(joint, -60.0, 60.0, points=middle, limit=200, epsabs=0.0, epsrel=1e-9)
    assert law.pdf(length) == pytest.approx(expected, rel=1e-7)
    assert law.logpdf(length) == pytest.approx(np.log(expected), abs=1e-7)


def test_quantiles_of_the_margin_invert_its_distribution_function(prior):
    law = prior.laws[2]
    q = np.array([1e-12, 1e-6, 0.05, 0.4999, 0.5, 0.95, 1.0 - 1e-6])
    assert_allclose(law.cdf(law.ppf(q)), q, rtol=1e-9)
    assert_allclose(law.sf(law.ppf(q)), 1.0 - q, rtol=1e-9)
    assert law.median() == pytest.approx(3.0 / np.sqrt(0.1), rel=1e-12)
    below, _ = quad(law.pdf, 0.0, 2.0)
    assert law.cdf(2.0) == pytest.approx(below, abs=1e-8)
    assert pickle.loads(pickle.dumps(law)).ppf(0.3) == law.ppf(0.3)


def test_bounds_of_the_sparse_prior_hold_all_draws(prior, draws):
    low, high = prior.bounds.T
    assert np.all((low < draws.min(axis=0)) & (draws.max(axis=0) < high))
    assert_allclose(prior.laws[1].cdf(np.exp(low[1])), 1e-12, rtol=1e-6)


def test_description_of_theta_lists_length_scales_and_shrinkage(prior):
    found = prior.describe(np.log([4.0, 0.5, 2.0, 0.3, 0.1]))
    assert found["k2__length_scale"] == pytest.approx([0.5, 2.0])
    assert found["shrinkage"] == pytest.approx(0.1)


# --- widths ---------------------------------------------------------------------------------------


def test_column_widths_are_twice_the_largest_distance_from_the_median():
    X = np.random.default_rng(0).uniform(size=(50, 4)) * [1.0, 100.0, 1.0, 1.0]
    X[:, 2], X[:, 3] = 7.0, np.arange(50) % 10 == 0
    widths = column_widths(X)
    own = 2.0 * np.abs(X[:, :2] - np.median(X[:, :2], axis=0)).max(axis=0)
    assert_allclose(widths[:2], own)
    assert_array_equal(widths[2:], 1.0)
    assert_allclose(column_widths(X * 1e-3 + 5.0), [*widths[:2] * 1e-3, 1.0, 1e-3], rtol=1e-9)


# --- whom it is for -------------------------------------------------------------------------------

X = np.random.default_rng(0).uniform(size=(12, 2))


def sparse(kernel, priors="sparse", likelihood=None):
    return default_hyperprior(make_covariance(kernel, X), likelihood or Probit(), priors)


def test_only_length_scales_per_feature_have_the_sparse_prior():
    lengths = np.array([1.0, 2.0])
    kernel = ConstantKernel() * RBF(lengths) + Matern(lengths) + RBF(1.0) + WhiteKernel()
    kernel += Matern(lengths, "fixed")
    prior, usual = sparse(kernel), sparse(kernel, None)
    assert prior.names == (*usual.names, "shrinkage")
    shrunk = {"k1__k1__k1__k1__k2__length_scale", "k1__k1__k1__k2__length_scale"}
    assert set(usual.distributions) - set(prior.distributions) == shrunk
    for name, law in prior.distributions.items():
        assert law.ppf(0.3) == usual.distributions[name].ppf(0.3)


def test_mapping_of_priors_may_make_length_scales_sparse():
    given = {"k2__length_scale": "sparse", "noise_scale": GAMMA}
    prior = sparse(smooth_kernel(2, ard=True), given, Gaussian())
    assert prior.distributions["noise_scale"] is GAMMA
    assert prior.names[-1] == "shrinkage"
    assert prior.table.origins["noise_scale"] == "given"


@in_one_test(
    ("kernel", "priors"),
    [
        (smooth_kernel(2), "sparse"),
        (ConstantKernel() * RBF([1.0, 1.0], "fixed"), "sparse"),
        (WhiteKernel(), "sparse"),
        (smooth_kernel(2), {"k2__length_scale": "sparse"}),
        (smooth_kernel(2, ard=True), {"k1__constant_value": "sparse"}),
    ],
)
def test_sparse_prior_refuses_a_kernel_without_length_scales_per_feature(kernel, priors):
    with pytest.raises(ValueError, match=r"priors=.*sparse.* every feature.*kernel=.*ard=True"):
        sparse(kernel, priors)


def test_table_of_priors_has_each_length_scale_and_the_shrinkage():
    table = sparse(smooth_kernel(2, ard=True)).table
    assert list(table) == [
        "k1__constant_value", "k2__length_scale[0]", "k2__length_scale[1]", "shrinkage",
    ]  # fmt: skip
    lines = str(table).splitlines()
    assert lines[2].endswith("sparse: (width / length-scale)^2 is half-Cauchy(shrinkage)")
    assert "HalfCauchy(median 0.1, 90 % " in lines[4]
    assert table["shrinkage"].median() == pytest.approx(0.1)


# --- theta has three parts ------------------------------------------------------------------------


def gp(likelihood, y, kind=LatentGP, n_kernels=1, **fields):
    covariance = make_covariance(smooth_kernel(2, ard=True), X)
    prior = default_hyperprior(covariance, likelihood, "sparse", n_kernels)
    return kind(covariance, Observations(likelihood, y), prior, **fields)


def test_tau_belongs_neither_to_the_kernel_nor_to_the_likelihood():
    model = gp(NegativeBinomial(2.0), np.arange(12.0))
    assert model.start[-1] == pytest.approx(np.log(0.1))
    assert len(model.start) == len(model.hyperprior.names) == 5
    theta = np.array([0.1, 0.2, 0.3, 0.4, 0.5])
    assert_array_equal(model.kernel_thetas(theta), [theta[:3]])
    assert model.likelihood_at(theta).shape == pytest.approx(np.exp(0.4))
    assert_array_equal(model.pad(np.ones(4)), [1.0, 1.0, 1.0, 1.0, 0.0])
    assert_array_equal(find_flattening(model, 0.005)[[0, 3, 4]], 0.0)


@in_one_test("separate", [False, True])
def test_tau_belongs_to_no_class(separate):
    y, n_kernels = np.arange(12.0) % 3, 3 if separate else 1
    model = gp(Softmax(3), y, ClasswiseGP, n_kernels, separate=separate)
    theta = np.arange(len(model.start), dtype=float)
    assert len(theta) == 3 * n_kernels + 1
    assert model.hyperprior.names[-1] == "shrinkage"
    expected = theta[:-1].reshape(n_kernels, 3)
    assert_array_equal(model.kernel_thetas(theta), expected)
    assert_array_equal(model.prior_at(theta).priors[2].theta, expected[-1])
    assert model.observations_at(theta) is model.observations


@in_one_test(
    ("likelihood", "approximation"),
    [(Gaussian(0.3), Exact()), (Probit(), EP()), (Probit(), Laplace()), (Softmax(3), Laplace()),
     (NegativeBinomial(2.0), EP())],
    ids=["exact", "ep", "laplace", "softmax", "negative binomial"],
)  # fmt: skip
def test_the_gradient_of_the_evidence_is_zero_for_tau(likelihood, approximation):
    y = toy_classes(12, 2, seed=3)[1]
    if likelihood.n_functions > 1:
        model = gp(likelihood, np.arange(12.0) % 3, ClasswiseGP, 3, separate=True)
    else:
        model = gp(likelihood, y + 1.0 if likelihood.name == NegativeBinomial.name else y)
    theta = model.start + np.linspace(0.2, -0.2, len(model.start))
    precise = approximation.with_tolerance()

    def log_density(t):
        return precise.fit(model, t).log_evidence + model.hyperprior.log_prob(t)

    expected = finite_difference(log_density, theta)
    point = HyperPosterior(model, precise).at(theta)
    assert relative_error(point.gradient, expected) < 1e-5
    assert point.evidence_gradient[-1] == 0.0
