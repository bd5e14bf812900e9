"""Priors whose K is singular: what follows from the root, against dense matrices and differences.

Ranks are small, in the middle between n / 2 and n, and n with pivots in another order.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from skgpmcmc.approximations import EP, Exact, GaussianApproximation, Laplace, Sites
from skgpmcmc.approximations.whitened import WhitenedApproximation, gaussian_family
from skgpmcmc.hyperposterior.rows import order_farthest_first
from skgpmcmc.likelihoods import Gaussian, Poisson, Probit, StudentT
from skgpmcmc.model import (
    GaussianPrior,
    LatentGP,
    Observations,
    default_hyperprior,
    make_covariance,
)
from skgpmcmc.numerics import roots
from skgpmcmc.numerics.dynamics import FactorRoot
from skgpmcmc.numerics.linalg import NotPositiveDefiniteError
from skgpmcmc.numerics.roots import PivotedRoot, TriangularRoot
from skgpmcmc.parameterizations import AncillaryAugmentation, SurrogateData

from ...helpers import finite_difference, in_one_test, relative_error


@pytest.fixture(autouse=True)
def few_rows_are_enough(monkeypatch):
    """Low ranks are used however few rows there are."""
    monkeypatch.setattr(roots, "_FEWEST_ROWS_OF_LOW_RANK", 0)


N = 42
LINE = np.random.default_rng(0).uniform(-2.0, 2.0, size=(N, 1))
PLANE = np.random.default_rng(1).uniform(-1.0, 1.0, size=(N, 2))
LINE, PLANE = LINE[order_farthest_first(LINE)], PLANE[order_farthest_first(PLANE)]

#: Kernel, inputs and theta.
PROBLEMS = {
    "low": (ConstantKernel() * RBF(), LINE, np.array([0.4, 0.5])),
    "low, ard": (ConstantKernel() * RBF([1.0, 1.0]), PLANE, np.array([0.4, 1.5, 3.0])),
    "low, sum": (
        ConstantKernel() * RBF() + ConstantKernel() * RBF(3.0),
        LINE,
        np.array([0.4, 0.6, -0.5, 1.4]),
    ),
    "in between": (ConstantKernel() * RBF(), PLANE, np.array([0.4, 0.9])),
}
every_problem = in_one_test("name", PROBLEMS)

LIKELIHOODS = {
    "gaussian": (Gaussian(0.4), Exact()),
    "probit": (Probit(), EP()),
    "probit, laplace": (Probit(), Laplace()),
    "poisson": (Poisson(), EP()),
    "student t": (StudentT(), Laplace()),
}


def problem(name, likelihood="probit"):
    kernel, X, theta = PROBLEMS[name]
    rng = np.random.default_rng(2)
    signal = 2.0 * np.sin(2.0 * X[:, 0])
    y = {
        "probit": np.sign(signal + rng.standard_normal(N)),
        "poisson": rng.poisson(np.exp(0.5 * signal)) + 0.0,
    }.get(likelihood.split(",")[0], signal + 0.3 * rng.standard_normal(N))
    law = LIKELIHOODS[likelihood][0]
    covariance = make_covariance(kernel, X)
    model = LatentGP(covariance, Observations(law, y), default_hyperprior(covariance, law))
    theta = np.append(theta, [parameter.start for parameter in law.parameters])
    prior = model.prior_at(theta)
    assert prior.rank < N
    assert prior.low_rank == name.startswith("low")
    return model, theta


@every_problem
def test_draws_have_the_covariance_and_v_brings_them_back(name):
    model, theta = problem(name)
    prior = model.prior_at(theta)
    R = prior.root.factor
    assert_allclose(R @ R.T, prior.K, atol=1e-11)
    f = prior.sample(np.random.default_rng(0), 3)
    white = np.random.default_rng(0).standard_normal((3, prior.rank)).T
    assert_allclose(f, R @ white, atol=1e-12)
    assert_allclose(prior.unwhiten(prior.whiten(f)), f, atol=1e-8)
    assert_allclose(prior.times(f), prior.K @ f, atol=1e-9)


@every_problem
def test_entries_of_v_that_have_no_influence_are_drawn_afresh(name):
    model, theta = problem(name)
    prior = model.prior_at(theta)
    f = prior.sample(np.random.default_rng(0))
    one, other = (prior.whiten_by_input(f, np.random.default_rng(seed)) for seed in (1, 2))
    used = prior.root.pivots
    unused = np.delete(np.arange(N), used)
    assert_array_equal(one[used], prior.whiten(f))
    assert_array_equal(other[used], one[used])
    assert (one[unused] != other[unused]).all()
    many = [prior.whiten_by_input(f, np.random.default_rng(seed))[unused] for seed in range(100)]
    assert stats.kstest(np.ravel(many), "norm").pvalue > 1e-4


def test_a_singular_covariance_has_no_density():
    model, theta = problem("in between")
    prior = model.prior_at(theta)
    for ask in (
        lambda: prior.chol,
        lambda: prior.half_log_det,
        lambda: prior.log_prob(np.zeros(N)),
        lambda: prior.solve(np.zeros(N)),
        lambda: prior.inverse(),
    ):
        with pytest.raises(NotPositiveDefiniteError, match="rank"):
            ask()


@every_problem
def test_verbs_with_sites(name):
    model, theta = problem(name)
    prior, rng = model.prior_at(theta), np.random.default_rng(3)
    R, K = prior.root.factor, prior.K
    W, g = rng.gamma(1.0, size=N), rng.standard_normal(N)
    signed = rng.standard_normal(N)
    assert_allclose(prior.gram(signed), (R.T * signed) @ R, atol=1e-11)
    solved = np.linalg.solve(np.eye(N) + 0.3 * signed[:, None] * K, g)
    assert_allclose(prior.solve_with_precision(0.3 * signed, g), solved, atol=1e-8)
    factor = prior.whitened_factor(np.sqrt(W))
    assert_allclose(factor @ factor.T, np.eye(prior.rank) + (R.T * W) @ R, atol=1e-10)
    sigma = np.linalg.solve(np.eye(N) + K * W, K)
    assert_allclose(prior.variance_given(factor), sigma.diagonal(), atol=1e-9)
    half = prior.half_given(factor, np.array([3, 1]))
    assert_allclose(half.T @ half, sigma[np.ix_([3, 1], [3, 1])], atol=1e-9)
    noise = 1.0 / W
    assert_allclose(
        prior.inverse_plus_noise(noise, factor), np.linalg.inv(K + np.diag(noise)), atol=1e-7
    )
    A = rng.standard_normal((prior.rank, prior.rank))
    A = A + A.T
    RA, diagonal = prior.gram_pullback(A)
    assert_allclose(RA, R @ A, atol=1e-11)
    assert_allclose(diagonal, (R @ A @ R.T).diagonal(), atol=1e-11)
    mass = rng.uniform(0.5, 2.0, size=N)
    B = FactorRoot(prior.root.precision_root(np.sqrt(mass)))
    of_identity = np.column_stack([B.apply(e) for e in np.eye(prior.rank)])
    expected = np.linalg.pinv((R.T * mass) @ R, rcond=1e-30)
    assert relative_error(of_identity @ of_identity.T, expected) < 1e-3


def same_pivots(model, theta, step):
    """Whether a finite difference stays where the pivots are the same."""
    own = model.prior_at(theta).root.pivots
    return all(
        np.array_equal(model.prior_at(theta + s * step * e).root.pivots, own)
        for e in np.eye(len(theta))
        for s in (-1.0, 1.0)
    )


@every_problem
def test_the_root_as_a_function_of_theta(name):
    """A fixed sum of its entries, by differences, in reverse mode and in forward mode."""
    model, theta = problem(name)
    step = 3e-4  # rounding of an entry is as large as that over the least pivot
    assert same_pivots(model, theta, step)
    prior = model.prior_at(theta)
    R_bar = np.random.default_rng(4).standard_normal(prior.root.factor.shape)
    expected = finite_difference(
        lambda t: float((R_bar * model.prior_at(t).root.factor).sum()), theta, step
    )
    assert relative_error(prior.root_gradient(R_bar), expected) < 1e-3
    forward = [float((R_bar * prior.root_change(dK)).sum()) for dK in prior.derivatives()]
    assert relative_error(np.array(forward), expected) < 1e-3


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_evidence_and_its_gradient(name, likelihood):
    """As with K and a little noise, which every matrix has an inverse with."""
    model, theta = problem(name, likelihood)
    approximation = LIKELIHOODS[likelihood][1].with_tolerance()
    fit = approximation.fit(model, theta)
    assert isinstance(fit.q, WhitenedApproximation) == name.startswith("low")
    noisy = model.with_nugget(1e-10)
    dense = approximation.fit(noisy, theta)
    assert type(dense.q) is GaussianApproximation
    assert fit.log_evidence == pytest.approx(dense.log_evidence, abs=1e-6)
    assert_allclose(fit.q.mean, dense.q.mean, atol=1e-5)
    assert_allclose(fit.q.marginal_variance, dense.q.marginal_variance, atol=1e-5)
    gradient = approximation.gradient(model, fit)
    expected = finite_difference(lambda t: approximation.fit(model, t).log_evidence, theta)
    assert relative_error(gradient, expected) < 1e-5


@every_problem
def test_both_ways_to_a_gaussian_agree(name):
    model, theta = problem(name)
    prior, rng = model.prior_at(theta), np.random.default_rng(5)
    sites = Sites(rng.standard_normal(N), rng.gamma(1.0, size=N))
    plain, white = GaussianApproximation(prior, sites), WhitenedApproximation(prior, sites)
    assert white.half_log_det_B == pytest.approx(plain.half_log_det_B, abs=1e-9)
    for ask in ("mean", "marginal_variance", "weights"):
        assert_allclose(getattr(white, ask), getattr(plain, ask), atol=1e-8)
    g = rng.standard_normal((N, 2))
    assert_allclose(white.solve_smoothed(g), plain.solve_smoothed(g), atol=1e-8)
    more = (rng.standard_normal(N), rng.standard_normal(N))
    assert_allclose(white.kernel_gradient(more), plain.kernel_gradient(more), rtol=1e-5, atol=1e-7)
    f = prior.sample(rng, 4)
    assert_allclose(white.log_ratio_to_prior(f), plain.log_ratio_to_prior(f), atol=1e-7)
    X_new = np.concatenate(
        [model.covariance.X[:3], rng.uniform(-2.5, 2.5, (5, 2))[:, : len(X_of(name)[0])]]
    )
    for one, other in zip(
        white.conditional().predict(X_new), plain.conditional().predict(X_new), strict=True
    ):
        assert_allclose(one, other, atol=1e-7)
    for one, other in zip(
        white.conditional().predict_jointly(X_new),
        plain.conditional().predict_jointly(X_new),
        strict=True,
    ):
        assert_allclose(one, other, atol=1e-7)
    assert gaussian_family(prior) is (
        WhitenedApproximation if prior.low_rank else GaussianApproximation
    )


def X_of(name):
    return PROBLEMS[name][1]


@every_problem
def test_draws_of_both_ways_have_the_moments_of_q(name):
    model, theta = problem(name)
    prior, rng = model.prior_at(theta), np.random.default_rng(6)
    sites = Sites(rng.standard_normal(N), rng.gamma(1.0, size=N))
    n_draws = 8000
    for kind in (GaussianApproximation, WhitenedApproximation):
        q = kind(prior, sites)
        # By conditioning, for few draws at once, and by the root.
        sizes = (N // 2 - 1, n_draws)
        for size in sizes:
            f = np.concatenate([q.sample(rng, size).f for _ in range(-(-n_draws // size))], axis=1)
            z = (f - q.mean[:, None]) / np.sqrt(q.marginal_variance)[:, None]
            assert np.abs(z.mean(axis=1)).max() * np.sqrt(f.shape[1]) < 5.0
            assert np.abs((z**2).mean(axis=1) - 1.0).max() * np.sqrt(f.shape[1] / 2.0) < 5.0


@every_problem
def test_f_at_new_inputs_given_f(name):
    """As of N(0, K + a little), and exactly what is known at the training inputs."""
    model, theta = problem(name)
    prior, rng = model.prior_at(theta), np.random.default_rng(7)
    X_new = rng.uniform(-1.0, 1.0, size=(6, X_of(name).shape[1]))
    f = prior.sample(rng, 2)
    given = prior.condition_on(f)
    mean, var = given.predict(X_new)
    covariance = model.covariance
    cross = covariance.cross(theta, X_new)
    K = prior.K + 1e-11 * np.eye(N)
    assert_allclose(mean, cross.T @ np.linalg.solve(K, f), atol=1e-3)
    variance = covariance.diagonal(theta, X_new)
    expected = variance - np.einsum("im,im->m", cross, np.linalg.solve(K, cross))
    assert_allclose(var, expected, atol=1e-7)
    at_inputs = given.predict(X_of(name))
    assert_allclose(at_inputs.mean, f, atol=1e-6)
    assert (at_inputs.var >= 0.0).all()
    assert_allclose(at_inputs.var, 0.0, atol=1e-10)


@every_problem
@in_one_test(
    "parameterization", [AncillaryAugmentation(), SurrogateData()], ids=["ancillary", "surrogate"]
)
def test_gradients_of_theta_where_v_stands_still(name, parameterization):
    model, theta = problem(name)
    rng = np.random.default_rng(8)
    state = model.state_at(theta, model.prior_at(theta).sample(rng))
    auxiliary = parameterization.auxiliary(model, state, rng)
    back = parameterization.relocate(model, auxiliary, model.prior_at(theta))
    assert_allclose(back.state.f, state.f, atol=1e-8)
    assert same_pivots(model, theta, 1e-4)
    expected = finite_difference(
        lambda t: parameterization.relocate(model, auxiliary, model.prior_at(t)).log_density,
        theta,
        1e-4,
    )
    assert relative_error(back.gradient, expected) < 1e-4
    assert np.isfinite(back.metric).all()


def test_full_rank_with_pivots_in_another_order():
    """Its Cholesky factor has a pivot that is no better than rounding, its root has not."""
    X = np.array([[0.0], [1.0], [1.0 + 2e-6], [0.5], [2.0]])
    covariance = make_covariance(ConstantKernel() * Matern(1.0, nu=2.5), X)
    prior = GaussianPrior(covariance, np.array([0.0, 0.0]))
    assert prior.rank == 5
    assert type(prior.root) in (PivotedRoot, TriangularRoot)
    assert_allclose(prior.root.factor @ prior.root.factor.T, prior.K, atol=1e-13)
    f = prior.sample(np.random.default_rng(0))
    assert_allclose(prior.unwhiten(prior.whiten(f)), f, atol=1e-9)
