"""Priors of what the user leaves out: ours, and those of the papers."""

import copy
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.spatial.distance import pdist, squareform
from sklearn.gaussian_process import kernels as sklearn_kernels
from sklearn.gaussian_process.kernels import (
    RBF,
    CompoundKernel,
    ConstantKernel,
    DotProduct,
    Exponentiation,
    ExpSineSquared,
    Hyperparameter,
    Kernel,
    Matern,
    NormalizedKernelMixin,
    PairwiseKernel,
    Product,
    RationalQuadratic,
    StationaryKernelMixin,
    Sum,
    WhiteKernel,
)

from skgpmcmc import BayesianGPClassifier, BayesianGPCountRegressor, BayesianGPRegressor
from skgpmcmc.likelihoods import (
    Gaussian,
    NegativeBinomial,
    OrdinalProbit,
    Poisson,
    PsychometricProbit,
    Softmax,
    StudentT,
    ZeroInflatedNegativeBinomial,
    ZeroInflatedPoisson,
)
from skgpmcmc.model import (
    PriorTable,
    default_hyperprior,
    default_priors,
    length_bounds,
    make_covariance,
    paper_prior,
    period_bounds,
    smooth_kernel,
)
from skgpmcmc.model.kernels import check_kernel
from skgpmcmc.samplers import PseudoMarginal

from ...helpers import in_one_test, short_chains

X = np.random.default_rng(0).standard_normal((40, 3))
QUICK = {
    **{"n_chains": 2, "n_warmup": 2, "n_draws": 4, "n_importance": 2, "random_state": 0},
    **{"sampler": PseudoMarginal(moves="random_walk"), "approximation": "laplace"},
}


def log_moments(law):
    """Mean and standard deviation of the log of a log-normal law."""
    assert law.dist.name == "lognorm"
    return np.log(law.median()), np.log(law.ppf(stats.norm.cdf(1.0)) / law.median())


def prior_of(kernel, name, inputs=X, likelihood=None):
    return default_priors(kernel, inputs, likelihood)[name]


# --- the papers' ----------------------------------------------------------------------------------


@in_one_test(
    ("name", "mean", "variance"),
    [
        *((own, 11.0, 110.0) for own in ("constant_value", "k1__k2__constant_value")),
        *((own, 11.0, 110.0) for own in ("noise_level", "k2__sigma_0")),
        # Exponential, with the rate 1 / sqrt(d).
        *((own, np.sqrt(3.0), 3.0) for own in ("length_scale", "k1__length_scale", "periodicity")),
    ],
)
def test_paper_prior_of_scales_and_lengths_has_the_published_moments(name, mean, variance):
    prior = paper_prior(name, X)
    assert (prior.mean(), prior.var()) == pytest.approx((mean, variance))


def test_paper_prior_of_other_hyperparameters_is_of_order_one():
    assert_allclose(log_moments(paper_prior("k2__alpha", X)), (0.0, 1.0), atol=1e-12)
    prior = paper_prior("threshold", X, positive=False)
    assert (prior.mean(), prior.std()) == (0.0, 3.0)


# --- ours: every kernel ---------------------------------------------------------------------------

LOW, HIGH = length_bounds(X)
SIZE = np.sqrt(np.median((X**2).sum(axis=1)))
SPREAD = np.median(np.linalg.norm(X - np.median(X, axis=0), axis=1))


def between(low, high):
    """Log-normal with 1 % beyond each end: mean and standard deviation of the log."""
    return 0.5 * np.log(low * high), np.log(high / low) / (2.0 * stats.norm.ppf(0.99))


LENGTH = between(LOW, HIGH)
VARIANCE, NOISE, NUMBER = (np.log(4.0), 2.0), (2.0 * np.log(0.3), 3.0), (0.0, 1.0)
#: What each hyper-parameter is: mean and standard deviation of the log of its prior.
MEANINGS = [
    (ConstantKernel(), {"constant_value": VARIANCE}),
    (WhiteKernel(), {"noise_level": NOISE}),
    (RBF(), {"length_scale": LENGTH}),
    (RBF(np.ones(3)), {"length_scale": between(LOW / np.sqrt(3.0), HIGH)}),
    (Matern(), {"length_scale": LENGTH}),
    (RationalQuadratic(), {"length_scale": LENGTH, "alpha": NUMBER}),
    (ExpSineSquared(), {"length_scale": NUMBER, "periodicity": between(*period_bounds(X))}),
    (DotProduct(), {"sigma_0": (np.log(SIZE), 1.0)}),
    (
        PairwiseKernel(metric="rbf"),
        {"gamma": (-np.log(2.0) - 2.0 * LENGTH[0], 2.0 * LENGTH[1])},
    ),
    (PairwiseKernel(metric="laplacian"), {"gamma": (-LENGTH[0] - 0.5 * np.log(3.0), LENGTH[1])}),
    (PairwiseKernel(metric="chi2"), {"gamma": (-LENGTH[0] - 0.5 * np.log(3.0), LENGTH[1])}),
    (PairwiseKernel(metric="poly"), {"gamma": (-2.0 * np.log(SIZE), 2.0)}),
    (PairwiseKernel(metric="polynomial"), {"gamma": (-2.0 * np.log(SIZE), 2.0)}),
    (PairwiseKernel(metric="sigmoid"), {"gamma": (-2.0 * np.log(SIZE), 2.0)}),
    (PairwiseKernel(metric="linear"), {"gamma": NUMBER}),
    (PairwiseKernel(metric="cosine"), {"gamma": NUMBER}),
    (PairwiseKernel(metric="additive_chi2"), {"gamma": NUMBER}),
    # A variance to the power p is a variance.
    (Exponentiation(ConstantKernel(), 2), {"kernel__constant_value": (np.log(2.0), 1.0)}),
    (Exponentiation(WhiteKernel(), 2), {"kernel__noise_level": (np.log(0.3), 1.5)}),
    (Sum(RBF(), WhiteKernel()), {"k1__length_scale": LENGTH, "k2__noise_level": NOISE}),
    # A constant has the inverse unit of what it multiplies.
    (
        Product(ConstantKernel(), DotProduct()),
        {
            "k1__constant_value": (np.log(4.0) - 2.0 * np.log(SPREAD), 2.0),
            "k2__sigma_0": (np.log(SIZE), 1.0),
        },
    ),
]


@in_one_test("kernel, meanings", MEANINGS)
def test_default_priors_follow_the_meaning_of_each_hyperparameter(kernel, meanings):
    priors = default_priors(kernel, X)
    assert set(priors) == set(meanings)
    for name, expected in meanings.items():
        assert_allclose(log_moments(priors[name]), expected, rtol=1e-12, atol=1e-12)


def test_every_kernel_of_scikit_learn_has_a_rule_for_default_priors():
    kinds = {
        kind
        for kind in vars(sklearn_kernels).values()
        if isinstance(kind, type) and issubclass(kind, Kernel) and not kind.__abstractmethods__
    }
    known = {type(part) for kernel, _ in MEANINGS for part in [kernel, *parts_of(kernel)]}
    assert kinds - known == {CompoundKernel}
    with pytest.raises(ValueError, match="must be a scalar-valued covariance"):
        check_kernel(CompoundKernel([RBF()]), 3)


def parts_of(kernel):
    return [part for part in kernel.get_params().values() if isinstance(part, Kernel)]


CONSTANT, LINEAR = ConstantKernel(), DotProduct()
#: Kernels, the name of a constant in each, and the power of X in its unit.
UNITS = [
    (CONSTANT * RBF(), "k1__constant_value", 0),
    (LINEAR * CONSTANT, "k2__constant_value", -2),
    (CONSTANT * RBF() * LINEAR, "k1__k1__constant_value", -2),
    (CONSTANT * LINEAR**2, "k1__constant_value", -4),
    ((CONSTANT * LINEAR) ** 2, "kernel__k1__constant_value", -2),
    (CONSTANT * (CONSTANT + LINEAR), "k1__constant_value", -2),
    (CONSTANT * (CONSTANT + LINEAR), "k2__k1__constant_value", 2),
    (CONSTANT * (CONSTANT * RBF() + CONSTANT * LINEAR), "k1__constant_value", 0),
    (CONSTANT * (CONSTANT * RBF() + CONSTANT * LINEAR), "k2__k2__k1__constant_value", -2),
    (CONSTANT * CONSTANT * LINEAR, "k1__k1__constant_value", -2),
    (CONSTANT * CONSTANT * LINEAR, "k1__k2__constant_value", 0),
    (CONSTANT * PairwiseKernel(), "k1__constant_value", -2),
    (CONSTANT + LINEAR, "k1__constant_value", 0),  # has no scale of its own
    (CONSTANT * (RBF() + LINEAR), "k1__constant_value", 0),  # nor has this
    ((CONSTANT + LINEAR) * RBF(), "k1__k1__constant_value", 0),
    (RBF() * (CONSTANT + LINEAR), "k2__k1__constant_value", 0),
    (ConstantKernel(1.0, "fixed") * LINEAR * CONSTANT, "k2__constant_value", -2),
]


@in_one_test("kernel, name, degree", UNITS)
def test_default_prior_of_a_constant_has_the_unit_of_its_kernel(kernel, name, degree):
    median, log_sd = log_moments(prior_of(kernel, name))
    power = 2.0 if isinstance(kernel, Exponentiation) else 1.0
    expected = np.log(4.0) / power + degree * np.log(SPREAD)
    assert_allclose((median, log_sd), (expected, 2.0 / power))


class OwnRBF(RBF):
    """A known kernel with one more hyper-parameter."""

    def __init__(self, length_scale=1.0, length_scale_bounds=(1e-5, 1e5), other=1.0):
        super().__init__(length_scale, length_scale_bounds)
        self.other = other

    @property
    def hyperparameter_other(self):
        return Hyperparameter("other", "numeric", (1e-5, 1e5))


class OwnKernel(StationaryKernelMixin, NormalizedKernelMixin, Kernel):
    """A kernel that is not known, with names that are."""

    def __init__(self, length_scale=1.0, constant_value=1.0):
        self.length_scale = length_scale
        self.constant_value = constant_value

    @property
    def hyperparameter_length_scale(self):
        return Hyperparameter("length_scale", "numeric", (1e-5, 1e5))

    @property
    def hyperparameter_constant_value(self):
        return Hyperparameter("constant_value", "numeric", (1e-5, 1e5))

    def __call__(self, X, Y=None, eval_gradient=False):
        return RBF(self.length_scale)(X, Y, eval_gradient)


def test_subclass_of_a_kernel_has_the_default_priors_of_its_parent():
    priors = default_priors(CONSTANT * OwnRBF(), X)
    assert_allclose(log_moments(priors["k2__length_scale"]), LENGTH)
    assert_allclose(log_moments(priors["k2__other"]), NUMBER, atol=1e-12)
    assert priors.origins["k2__other"] == "default of no unit: class OwnRBF is not known"


def test_unknown_kernel_class_has_default_priors_without_unit():
    priors = default_priors(CONSTANT * OwnKernel(), X)
    for name in ("k2__length_scale", "k2__constant_value"):
        assert_allclose(log_moments(priors[name]), NUMBER, atol=1e-12)
        assert priors.origins[name] == "default of no unit: class OwnKernel is not known"


# --- ours: likelihoods ----------------------------------------------------------------------------


class OwnCounts(Poisson):
    """An own likelihood whose parameter has a name that is taken."""

    @property
    def parameters(self):
        return NegativeBinomial(2.0).parameters


def of_likelihood(likelihood):
    """Priors of its parameters alone."""
    return default_priors(ConstantKernel(1.0, "fixed"), X, likelihood)


def test_default_priors_of_likelihoods_have_their_stated_moments():
    for noise in (Gaussian(), StudentT()):
        assert_allclose(log_moments(of_likelihood(noise)["noise_scale"]), (np.log(0.3), 1.5))
    counts = of_likelihood(NegativeBinomial(2.0))["shape"]
    assert_allclose(log_moments(counts), (np.log(10.0), 3.0))
    inflated = of_likelihood(ZeroInflatedNegativeBinomial())
    assert_allclose(log_moments(inflated["shape"]), (np.log(10.0), 3.0))
    for own in (inflated, of_likelihood(ZeroInflatedPoisson())):
        assert_allclose(log_moments(own["zero_odds"]), (np.log(0.2), 2.0))
    psychometric = of_likelihood(PsychometricProbit(0.1, infer_guess=True))
    for name in ("guess_odds", "lapse_odds"):
        assert_allclose(log_moments(psychometric[name]), (np.log(0.03), 1.0))
    degrees = of_likelihood(StudentT(infer_df=True))["df"]
    assert (degrees.mean(), degrees.std()) == pytest.approx((20.0, np.sqrt(200.0)))
    ordinal = of_likelihood(OrdinalProbit([-1.0, 1.0]))
    assert_allclose(log_moments(ordinal["threshold_gap"]), NUMBER, atol=1e-12)
    assert (ordinal["threshold"].mean(), ordinal["threshold"].std()) == (0.0, 3.0)


def test_custom_likelihood_does_not_get_the_prior_of_another():
    priors = of_likelihood(OwnCounts())
    assert_allclose(log_moments(priors["shape"]), NUMBER, atol=1e-12)
    assert priors.origins["shape"] == "default of no unit: class OwnCounts is not known"


# --- ours: units ----------------------------------------------------------------------------------

#: Kernels whose prior and whose likelihood do not depend on the unit of X, the number of features,
#: and the power of X in the unit of each hyper-parameter.
WITH_UNITS = [
    (CONSTANT * RBF(), 3, [0, 1]),
    (CONSTANT * RBF(np.ones(3)), 3, [0, 1, 1, 1]),
    (CONSTANT * Matern(nu=1.5), 3, [0, 1]),
    (CONSTANT * RationalQuadratic(), 3, [0, 0, 1]),
    (CONSTANT * ExpSineSquared(), 1, [0, 0, 1]),
    (CONSTANT * PairwiseKernel(metric="rbf"), 3, [0, -2]),
    (CONSTANT * PairwiseKernel(metric="laplacian"), 3, [0, -1]),
    (CONSTANT * PairwiseKernel(metric="poly"), 3, [0, -2]),
    (CONSTANT * LINEAR, 3, [-2, 1]),
    ((CONSTANT * LINEAR) ** 2, 3, [-2, 1]),
    (CONSTANT * (CONSTANT * LINEAR), 3, [0, -2, 1]),
    (CONSTANT * PairwiseKernel(metric="linear"), 3, [-2, 0]),
    (CONSTANT * RBF() + CONSTANT * LINEAR + WhiteKernel(), 3, [0, 1, -2, 1, 0]),
    (CONSTANT * (CONSTANT + LINEAR) * RationalQuadratic(), 3, [-2, 2, 1, 0, 1]),
    ((CONSTANT * Matern() + ExpSineSquared()) ** 2, 1, [0, 1, 0, 1]),
]


@in_one_test("kernel, d, degrees", WITH_UNITS)
@pytest.mark.parametrize("exponent", [-6, 3, 9])
def test_posterior_under_default_priors_does_not_depend_on_units_of_X(kernel, d, degrees, exponent):
    scale, likelihood = 10.0**exponent, Gaussian()
    X_own, y = X[:20, :d], np.sin(X[:20, 0]) + 0.3 * X[:20, 1]

    def log_posterior(inputs, theta):
        covariance = make_covariance(kernel, inputs)
        K = covariance.matrix(theta[:-1])
        K[np.diag_indices(len(K))] += np.exp(2.0 * theta[-1])
        evidence = stats.multivariate_normal(cov=K).logpdf(y)
        return default_hyperprior(covariance, likelihood).log_prob(theta), evidence

    prior = default_hyperprior(make_covariance(kernel, X_own), likelihood)
    theta = prior.sample(np.random.default_rng(1))
    theta[-1] = np.log(0.5)
    moved = theta + np.log(scale) * np.array([*degrees, 0])
    expected = log_posterior(X_own, theta)
    assert np.isfinite(expected).all()
    assert_allclose(log_posterior(scale * X_own, moved), expected, rtol=0.0, atol=1e-10)


# --- ours: lengths --------------------------------------------------------------------------------


def test_length_bounds_are_distances_between_rows():
    D = np.sort(squareform(pdist(X)), axis=1)
    low, high = length_bounds(X)
    width = 2.0 * np.linalg.norm(X - np.median(X, axis=0), axis=1).max()
    assert low == pytest.approx(0.5 * np.median(D[:, 5]))  # column 0 is the row itself
    assert high == pytest.approx(3.0 * width)
    assert period_bounds(X) == pytest.approx((2.0 * low, width))


def test_length_bounds_per_feature_allow_for_a_single_feature():
    low, high = length_bounds(X)
    assert length_bounds(X, per_feature=True) == pytest.approx((low / np.sqrt(3.0), high))
    prior = prior_of(smooth_kernel(3, ard=True), "k2__length_scale")
    assert prior.cdf(low / np.sqrt(3.0)) == pytest.approx(0.01)
    assert prior.sf(high) == pytest.approx(0.01)


@in_one_test("scale", [1e-6, 1e3, 1e9])
def test_length_bounds_follow_the_scale_of_the_inputs(scale):
    bounds = scale * np.array(length_bounds(X))
    assert_allclose(length_bounds(scale * X), bounds, rtol=1e-12)
    assert_allclose(length_bounds(scale * (X + 5.0)), bounds, rtol=1e-12)


@in_one_test("scale", [1e-300, 1e-160, 1e-30, 1e30, 1e100, 1e153])
def test_inputs_of_any_size_have_length_bounds(scale):
    low, high = length_bounds(scale * X)
    assert 1e-15 <= low < high <= 2e15
    for kernel in (RBF(), ExpSineSquared(), CONSTANT * LINEAR, PairwiseKernel(metric="rbf")):
        for law in default_priors(kernel, scale * X).values():
            assert np.isfinite(law.logpdf(law.median()))


def test_length_bounds_count_equal_rows_once():
    assert_allclose(length_bounds(np.vstack([X, X[:7], X])), length_bounds(X))


@in_one_test("n_copies", [6, 7])
def test_length_bounds_count_rows_equal_but_for_rounding_once(n_copies):
    rows = np.random.default_rng(2).standard_normal((40, 1))
    copies = np.repeat(rows, n_copies, axis=0)
    copies += 1e-9 * np.random.default_rng(3).standard_normal(copies.shape)
    assert_allclose(length_bounds(copies), length_bounds(rows), rtol=0.02)


@in_one_test("far", [[1e4], [1e9], [-1e4, 1e5, 1e6]])
def test_few_outlying_rows_hardly_change_length_bounds(far):
    rows = np.random.default_rng(2).standard_normal((40, 1))
    low, high = length_bounds(np.vstack([rows, np.array(far)[:, None]]))
    expected = length_bounds(rows)
    assert low == pytest.approx(expected[0], rel=0.2)
    assert expected[1] < high < 3.0 * expected[1]


def test_length_bounds_ignore_distances_of_rounding():
    rows = np.random.default_rng(2).exponential(size=(10, 1))
    noise = 1e-16 * np.random.default_rng(3).standard_normal((300, 1))
    assert_allclose(
        length_bounds(np.vstack([rows, noise])), length_bounds(np.vstack([rows, [[0.0]]])), rtol=0.1
    )


def test_more_rows_allow_shorter_length_scales():
    rng = np.random.default_rng(1)
    few, many = (length_bounds(rng.standard_normal((n, 1))) for n in (20, 500))
    assert many[0] < 0.2 * few[0]


@in_one_test("rows", [np.zeros((1, 2)), np.ones((5, 2)), [[0.0], [1.0]], [[0.0]] * 3])
def test_length_bounds_of_few_rows_are_positive_and_ordered(rows):
    low, high = length_bounds(np.array(rows, dtype=float))
    assert 0.0 < low < high < np.inf


# --- who gets which -------------------------------------------------------------------------------


def laws(prior):
    return {name: (law.dist.name, law.args, law.kwds) for name, law in prior.distributions.items()}


def test_names_left_out_of_priors_get_the_default():
    covariance = make_covariance(smooth_kernel(3), X)
    given = stats.halfnorm(scale=2.0)
    prior = default_hyperprior(covariance, Gaussian(), {"noise_scale": given})
    assert prior.distributions["noise_scale"] is given
    defaults = default_priors(covariance.kernel, X, Gaussian())
    for name in covariance.names:
        assert log_moments(prior.distributions[name]) == log_moments(defaults[name])


def test_default_prior_of_a_softmax_variance_is_that_of_the_papers():
    covariance = make_covariance(smooth_kernel(3), X)
    prior = default_hyperprior(covariance, Softmax(3), n_kernels=3)
    assert prior.distributions["k1__constant_value"].mean() == pytest.approx(11.0)
    assert prior.distributions["k2__length_scale"].dist.name == "lognorm"
    squared = prior_of(
        Exponentiation(CONSTANT * RBF(), 2), "kernel__k1__constant_value", X, Softmax(3)
    )
    assert squared.moment(2) == pytest.approx(11.0)
    other = prior_of(OwnKernel(), "constant_value", X, Softmax(3))
    assert_allclose(log_moments(other), NUMBER, atol=1e-12)


def test_priors_paper_gives_every_hyperparameter_the_paper_prior():
    covariance = make_covariance(smooth_kernel(3), X)
    likelihood = OrdinalProbit([-1.0, 1.0])
    prior = default_hyperprior(covariance, likelihood, "paper")
    for name, law in prior.distributions.items():
        expected = paper_prior(name, X, positive=name != "threshold")
        assert (law.dist.name, law.mean()) == (expected.dist.name, expected.mean())
    assert set(prior.distributions) == {*covariance.names, "threshold", "threshold_gap"}
    assert set(prior.origins.values()) == {"paper"}


@pytest.mark.parametrize(
    ("estimator", "y"),
    [
        (BayesianGPClassifier, X[:, 0] > 0.0),
        (BayesianGPRegressor, X[:, 0]),
        (BayesianGPCountRegressor, np.round(np.exp(X[:, 0]))),
    ],
)
@short_chains()
def test_estimators_report_the_priors_in_use(estimator, y):
    def fitted(priors):
        return estimator(priors=priors, **QUICK).fit(X[:16], y[:16])

    ours, papers = fitted(None), fitted("paper")
    assert ours.priors_["k2__length_scale"].dist.name == "lognorm"
    assert papers.priors_["k2__length_scale"].mean() == pytest.approx(np.sqrt(3.0))
    assert papers.priors_["k1__constant_value"].dist.name == "gamma"
    assert not np.array_equal(ours.theta_samples_, papers.theta_samples_)


# --- the table ------------------------------------------------------------------------------------


def fitted_table():
    model = BayesianGPRegressor(
        CONSTANT * RBF(), priors={"noise_scale": stats.halfnorm(scale=2.0)}, **QUICK
    )
    return model.fit(X[:12], X[:12, 0]).priors_


@short_chains()
def test_priors_print_as_a_table():
    priors = fitted_table()
    lines = str(priors).splitlines()
    assert [line.split()[0] for line in lines] == ["hyper-parameter", *priors]
    said = lines[1].split(maxsplit=1)[1]
    assert said.startswith("LogNormal(median 4, 90 % 0.149 to 107) ")
    assert said.endswith(" default: variance")
    assert lines[2].endswith("default: length-scale, from distances of the inputs")
    assert lines[3].split(maxsplit=1)[1].startswith("HalfNormal(median 1.35, 90 % 0.125 to 3.92) ")
    assert lines[3].endswith(" given")
    assert repr(priors) == str(priors)
    assert priors._repr_html_().startswith("<pre>hyper-parameter")
    assert BayesianGPRegressor(priors=priors).get_params()["priors"] is priors
    for same in (copy.deepcopy(priors), pickle.loads(pickle.dumps(priors))):
        assert isinstance(same, PriorTable)
        assert str(same) == str(priors)
