"""Densities, gradients and metrics of theta and of f in their coordinates."""

import pickle
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.stats import multivariate_normal
from sklearn.gaussian_process.kernels import (
    ConstantKernel,
    DotProduct,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)

from skgpmcmc.likelihoods import (
    Gaussian,
    Logit,
    NegativeBinomial,
    OrdinalProbit,
    Poisson,
    Probit,
    StudentT,
    Volatility,
)
from skgpmcmc.model import (
    HyperPrior,
    LatentGP,
    Observations,
    default_hyperprior,
    make_covariance,
    smooth_kernel,
)
from skgpmcmc.numerics.linalg import NotPositiveDefiniteError
from skgpmcmc.parameterizations import (
    AncillaryAugmentation,
    DenseRoot,
    FactorRoot,
    HyperConditional,
    LatentConditional,
    SufficientAugmentation,
    SurrogateData,
)
from skgpmcmc.transitions import HyperUpdate, RandomWalk

from ...helpers import every_pair, finite_difference, in_one_test, relative_error

LIKELIHOODS = {
    "probit": Probit(),
    "logit": Logit(),
    "poisson": Poisson(),
    "negative binomial": NegativeBinomial(1.5),
    "volatility": Volatility(),
    "student-t": StudentT(0.5),
    "ordinal": OrdinalProbit((-0.5, 0.7)),
    "gaussian": Gaussian(0.5),
}
KERNELS = {
    "isotropic": smooth_kernel(2),
    "ard": Matern([1.0, 0.7], nu=1.5) * ConstantKernel(2.0),
    "generic": ConstantKernel(1.5) * RationalQuadratic(0.9, 1.7)
    + DotProduct(0.5)
    + WhiteKernel(0.1),
}
PARAMETERIZATIONS = {
    "sa": SufficientAugmentation(),
    "aa": AncillaryAugmentation(),
    "surr": SurrogateData(),
}

every_parameterization = in_one_test("name", PARAMETERIZATIONS)
every_likelihood = in_one_test("likelihood", LIKELIHOODS)
every_kernel = in_one_test("kernel", KERNELS)

N = 9


def problem(likelihood, kernel="isotropic", rows=None, log_length=None, priors="paper"):
    """Model with offsets and weights, a state, and a stream.

    K is singular where some `rows` are equal, or where the length-scale is very long.
    """
    rng = np.random.default_rng(1)
    X = rng.uniform(0.0, 2.0, size=(N, 2))
    covariance = make_covariance(KERNELS[kernel], X if rows is None else X[rows])
    law = LIKELIHOODS[likelihood]
    offset = np.linspace(-0.2, 0.3, N)
    observations = Observations(law, np.zeros(N), offset)
    model = LatentGP(covariance, observations, default_hyperprior(covariance, law, priors))
    theta = model.start + 0.2
    if log_length is not None:
        theta[1] = log_length
    f = model.prior_at(theta).sample(rng)
    weight = np.linspace(0.5, 1.5, N)
    model = model.with_observations(y=model.observations_at(theta).sample(f, rng), weight=weight)
    return model, model.state_at(theta, f), rng


def points_of(name, model, state, rng):
    """The point at theta as a function of theta, other variables held fixed."""
    parameterization = PARAMETERIZATIONS[name]
    auxiliary = parameterization.auxiliary(model, state, rng)
    return lambda theta: parameterization.relocate(model, auxiliary, model.prior_at(theta))


#: Rows of which some are equal, and rows that next to nothing tells apart: ranks 6, 3 and 1.
SINGULAR = {
    "equal rows": {"rows": [0, 1, 2, 1, 3, 4, 4, 0, 5]},
    "long length-scale": {"log_length": 8.0},
}
every_singular = in_one_test("singular", SINGULAR)
RANKS = {"equal rows": 6, "long length-scale": 3, "one value": 1}


@pytest.mark.parametrize(
    ("name", "likelihood", "kernel", "singular"),
    [
        *(
            (*triple, None)
            for triple in every_pair(tuple(PARAMETERIZATIONS), tuple(LIKELIHOODS), tuple(KERNELS))
        ),
        *product(("aa", "surr"), ("probit", "negative binomial"), ("isotropic",), RANKS),
    ],
)
def test_gradient_in_theta_equals_finite_differences(name, likelihood, kernel, singular):
    """All hyper-parameters, those of the likelihood included."""
    singular_problems = SINGULAR | {"one value": {"log_length": 20.0}}
    model, state, rng = problem(likelihood, kernel, **singular_problems.get(singular, {}))
    theta, at = state.theta + 0.1, points_of(name, model, state, rng)
    assert at(theta).state.prior.rank == RANKS.get(singular, N)
    expected = finite_difference(lambda t: at(t).log_density, theta)
    assert relative_error(at(theta).gradient, expected) < 1e-6


@every_parameterization
@in_one_test("likelihood", ["probit", "negative binomial"])
def test_shrinkage_has_the_gradient_of_the_prior_alone(name, likelihood):
    """It has the gradient of the prior, and its curvature as metric."""
    model, state, rng = problem(likelihood, "ard", priors="sparse")
    at = points_of(name, model, state, rng)
    theta = state.theta + np.linspace(0.1, 0.4, len(state.theta))
    point = at(theta)
    expected = finite_difference(lambda t: at(t).log_density, theta)
    assert relative_error(point.gradient, expected) < 1e-6
    assert_array_equal(at(np.append(theta[:-1], 1.0)).state.f, point.state.f)
    alone = np.zeros(len(theta))
    alone[-1] = model.hyperprior.curvature(theta)[-1]
    assert_allclose(point.metric[-1], alone, rtol=1e-5)
    assert np.isfinite(point.metric_root.matrix).all()


@every_singular
def test_theta_moves_under_singular_K_only_in_whitened_coordinates(singular):
    """At fixed f no other theta is possible there; in whitened coordinates any is."""
    model, state, rng = problem("probit", **SINGULAR[singular])
    walk = RandomWalk(log_scale=-2.0)
    stayed, info = HyperUpdate(SufficientAugmentation(), walk).step(model, state, rng)
    assert stayed is state
    assert info.failed
    assert not info.accepted
    steps = [
        HyperUpdate(AncillaryAugmentation(), walk).step(model, state, rng)[1] for _ in range(20)
    ]
    assert any(info.accepted for info in steps)


@pytest.mark.parametrize("name", ["aa", "surr"])
@every_singular
def test_small_steps_of_theta_move_f_little(name, singular):
    """Also where the rank changes with theta: what is new there has next to no variance."""
    model, state, rng = problem("probit", **SINGULAR[singular])
    conditional = HyperConditional.of(model, PARAMETERIZATIONS[name], state, rng)
    path = [conditional.at(state.theta - [0.0, step]) for step in np.linspace(0.0, 4.0, 401)]
    ranks = [point.state.prior.rank for point in path]
    steps = np.diff([point.state.f for point in path], axis=0)
    assert np.abs(steps).max() < 0.2
    assert (len(set(ranks)) > 2) == (singular == "long length-scale")


@in_one_test(
    ("name", "singular"),
    [*((name, None) for name in PARAMETERIZATIONS), *product(("aa", "surr"), SINGULAR)],
)
@every_likelihood
def test_coordinates_lead_back_to_the_same_f(name, singular, likelihood):
    model, state, rng = problem(likelihood, **SINGULAR.get(singular, {}))
    conditional = HyperConditional.of(model, PARAMETERIZATIONS[name], state, rng)
    atol = 1e-9 if singular else 1e-6
    assert_allclose(conditional.begin.state.f, state.f, atol=atol)
    assert_allclose(conditional.at(state.theta).state.f, state.f, atol=atol)
    assert conditional.begin.state.prior is state.prior


@every_likelihood
@in_one_test("singular", [None, *SINGULAR])
def test_surrogate_density_equals_dense_formulas(likelihood, singular):
    """N(g; 0, K + S) p(y | f) p(theta), and f = m + D eta with the moments of p(f | g)."""
    model, state, rng = problem(likelihood, **SINGULAR.get(singular, {}))
    parameterization = SurrogateData()
    auxiliary = parameterization.auxiliary(model, state, rng)
    prior = model.prior_at(state.theta + 0.3)
    point = parameterization.relocate(model, auxiliary, prior)
    S, K = np.diag(point._factors.noise), prior.K
    expected = (
        multivariate_normal(np.zeros(N), K + S).logpdf(auxiliary.g)
        + model.observations_at(prior.theta).total(point.state.f)
        + model.hyperprior.log_prob(prior.theta)
    )
    constant = 0.5 * N * np.log(2.0 * np.pi)
    assert point.log_density - constant == pytest.approx(expected, rel=1e-9)
    mean = K @ np.linalg.solve(K + S, auxiliary.g)
    covariance = K - K @ np.linalg.solve(K + S, K)
    other = parameterization.relocate(model, auxiliary._replace(eta=np.zeros(N)), prior)
    assert_allclose(other.state.f, mean, atol=1e-6)
    if singular:
        return
    deviation = point.state.f - mean
    # eta'eta is the squared Mahalanobis distance, whichever root D is.
    assert deviation @ np.linalg.solve(covariance, deviation) == pytest.approx(
        auxiliary.eta @ auxiliary.eta, rel=1e-3
    )


def test_surrogate_noise_matches_the_posterior_of_each_row():
    model, state, _ = problem("logit")
    model = model.with_observations(weight=None)
    noise = (
        SurrogateData()
        .relocate(
            model, SurrogateData().auxiliary(model, state, np.random.default_rng(0)), state.prior
        )
        ._factors.noise
    )
    f = np.linspace(-25.0, 25.0, 4001)
    variance = state.prior.K.diagonal()
    for i in range(N):
        log_p = model.likelihood.log_prob(model.y[i], f + model.observations.offset[i])
        p = np.exp(log_p - 0.5 * f**2 / variance[i])
        p /= p.sum()
        tilted = p @ f**2 - (p @ f) ** 2
        assert 1.0 / noise[i] == pytest.approx(1.0 / tilted - 1.0 / variance[i], rel=1e-6)


@every_kernel
def test_information_of_theta_given_f_equals_the_covariance_of_scores(kernel):
    """The covariance of the scores of f ~ N(0, K)."""
    model, state, _ = problem("probit", kernel)
    prior = state.prior
    K = prior.K
    parts = [np.linalg.solve(K, dK) for dK in model.covariance.derivatives(prior.kernel_theta)]
    expected = np.array([[0.5 * np.trace(a @ b) for b in parts] for a in parts])
    point = SufficientAugmentation().relocate(model, state.f, prior)
    assert relative_error(point._information(), expected) < 1e-6


@pytest.mark.parametrize("name", ["aa", "surr"])
@every_kernel
def test_information_given_whitened_f_equals_that_by_jacobians(name, kernel):
    """J'R J with J by differences; for surrogate data also that of g ~ N(0, K + S)."""
    model, state, rng = problem("negative binomial", kernel)
    at = points_of(name, model, state, rng)
    theta = state.theta + 0.1
    point = at(theta)
    J = finite_difference(lambda t: at(t).state.f, theta)
    if name == "aa":
        J = J[: len(model.covariance.start)]  # the others do not move f
    R = model.observations_at(theta).fisher_information(point.state.f)
    expected = (J * R) @ J.T
    if name == "surr":

        def covariance(t):
            there = at(t)
            return there.state.prior.K + np.diag(there._factors.noise)

        C = covariance(theta)
        step = 1e-5
        parts = [
            np.linalg.solve(C, (covariance(theta + e) - covariance(theta - e)) / (2.0 * step))
            for e in step * np.eye(len(theta))
        ]
        expected = expected + [[0.5 * np.trace(a @ b) for b in parts] for a in parts]
    assert relative_error(point._information(), expected) < 1e-5


@every_parameterization
@every_likelihood
def test_root_of_a_metric_times_its_transpose_is_the_metric(name, likelihood):
    model, state, rng = problem(likelihood)
    point = HyperConditional.of(model, PARAMETERIZATIONS[name], state, rng).begin
    root = point.metric_root.matrix
    assert_allclose(root @ root.T, np.linalg.inv(point.metric), rtol=1e-8, atol=1e-12)
    assert np.linalg.eigvalsh(point.metric).min() > 0.0


def test_conditional_of_some_components_equals_that_of_all():
    model, state, rng = problem("negative binomial", "ard")
    free = np.array([0, 3])
    whole = HyperConditional.of(model, AncillaryAugmentation(), state, rng)
    some = HyperConditional.of(model, AncillaryAugmentation(), state, rng, free)
    position = state.theta[free] + [0.1, -0.2]
    theta = state.theta.copy()
    theta[free] = position
    one, other = some.at(position), whole.at(theta)
    assert_allclose(one.state.theta, theta)
    assert one.log_density == other.log_density
    assert_allclose(one.gradient, other.gradient[free])
    root = one.metric_root.matrix
    assert_allclose(np.linalg.inv(root @ root.T), other.metric[np.ix_(free, free)], rtol=1e-8)


@every_parameterization
def test_no_density_outside_the_prior_or_where_K_is_no_covariance(name):
    model, state, rng = problem("probit")
    conditional = HyperConditional.of(model, PARAMETERIZATIONS[name], state, rng)
    assert conditional.at(np.array([60.0, 0.0])) is None
    names = model.hyperprior.names
    hyperprior = HyperPrior(names, dict.fromkeys(names, stats.lognorm(100.0)))
    wide = replace(model, hyperprior=hyperprior)
    conditional = HyperConditional.of(wide, PARAMETERIZATIONS[name], state, rng)
    assert conditional.at(np.array([6.0, 0.0])) is not None
    with np.errstate(over="ignore", invalid="ignore"):
        assert conditional.at(np.array([800.0, 0.0])) is None  # K is infinite


def test_nugget_gives_f_a_density_under_singular_K():
    """That is what a nugget is for."""
    model, state, _ = problem("probit", rows=SINGULAR["equal rows"]["rows"])
    with pytest.raises(NotPositiveDefiniteError, match="inverse does not exist"):
        SufficientAugmentation().relocate(model, state.f, state.prior)
    model = model.with_nugget(1e-6)
    prior = model.prior_at(state.theta)
    f = prior.sample(np.random.default_rng(0))
    point = SufficientAugmentation().relocate(model, f, prior)
    expected = multivariate_normal(np.zeros(N), prior.K).logpdf(f)
    expected += model.observations_at(prior.theta).total(f)
    expected += model.hyperprior.log_prob(prior.theta)
    assert point.log_density == pytest.approx(expected, rel=1e-6)


# --- f in whitened coordinates --------------------------------------------------------------------


@every_likelihood
@in_one_test("singular", [None, *SINGULAR])
def test_whitened_latents_have_the_right_density_gradient_and_metric(likelihood, singular):
    model, state, _ = problem(likelihood, **SINGULAR.get(singular, {}))
    conditional = LatentConditional(model.observations_at(state.theta), state.prior)
    point = conditional.point_of(state)
    v = point.position
    L = state.prior.root.factor
    assert_allclose(L @ v, state.f, atol=1e-8)
    assert point.log_density == pytest.approx(state.log_lik - 0.5 * v @ v)
    expected = finite_difference(lambda x: conditional.at(x).log_density, v)
    assert relative_error(point.gradient, expected) < 1e-6
    R = model.observations_at(state.theta).fisher_information(state.f)
    eye = np.eye(state.prior.rank)
    metric = eye + L.T @ (R[:, None] * L)
    B = np.array([point.metric_root.apply(e) for e in eye]).T
    assert_allclose(B @ B.T @ metric, eye, atol=1e-9)


def test_pickled_point_keeps_no_matrices():
    model, state, _ = problem("poisson")
    point = LatentConditional(model.observations_at(state.theta), state.prior).point_of(state)
    _ = point.metric_root, point.gradient
    after = pickle.loads(pickle.dumps(point))
    assert set(vars(after)) == {"observed", "state"}
    assert_allclose(after.position, point.position, atol=0.0)
    assert_allclose(after.gradient, point.gradient, atol=0.0)


ROOTS = {
    "dense": DenseRoot(np.array([[1.0, 0.0, 0.0], [0.3, 0.8, 0.0], [-0.2, 0.1, 2.0]])),
    "factor": FactorRoot(np.asfortranarray([[1.0, 0.0, 0.0], [0.3, 0.8, 0.0], [-0.2, 0.1, 2.0]])),
}


@in_one_test("name", ROOTS)
def test_roots_of_metrics_multiply_and_solve_consistently(name):
    root, eye = ROOTS[name], np.eye(3)
    B = np.array([root.apply(e) for e in eye]).T
    assert_allclose(np.array([root.apply_transpose(e) for e in eye]), B, atol=1e-14)
    assert_allclose(np.array([root.solve(B[:, i]) for i in range(3)]), eye, atol=1e-14)
    assert root.log_det == pytest.approx(np.log(abs(np.linalg.det(B))))


def test_metric_of_counts_with_an_infinite_rate_gives_way_to_whitened_steps():
    """It has no factor there, so steps are whitened ones: the chain goes on."""
    X = np.linspace(0.0, 1.0, 4)[:, None]
    covariance = make_covariance(smooth_kernel(1), X)
    hyperprior = default_hyperprior(covariance, Poisson(), "paper")
    model = LatentGP(
        covariance, Observations(Poisson(), np.array([0.0, 1.0, 3.0, 2.0])), hyperprior
    )
    prior = model.prior_at(np.zeros(2))
    for f in (np.full(4, 300.0), np.full(4, 900.0), np.array([0.0, 1.0, 2.0, 380.0])):
        root = (
            LatentConditional(model.observations_at(prior.theta), prior)
            .point_of(model.state_in(prior, f))
            .metric_root
        )
        assert np.isfinite(root.log_det)
        assert np.isfinite(root.apply(np.ones(4))).all()
