"""Expectation propagation: its fixed point, its evidence, and how far both are from the truth."""

from itertools import pairwise, product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad

from skgpmcmc.approximations import EP, Laplace, Sites
from skgpmcmc.approximations.corrected import second_order_correction
from skgpmcmc.importance import importance_estimate
from skgpmcmc.likelihoods import Poisson, Probit, StudentT
from skgpmcmc.numerics.linalg import count_operations

from ...helpers import (
    NO_THETA,
    THREE_THETA,
    THREE_Y,
    ApproximationSuite,
    GaussianNoise,
    both_links,
    check_gaussian_approximation,
    exact_posterior,
    given_model,
    in_one_test,
    make_model,
    orthant_probability,
    three_point_model,
    toy_classes,
)

TWO = np.array([[1.2, 0.7], [0.7, 1.2]])
WIDE = np.array([[2.5, 2.0], [2.0, 2.5]])
TIGHT = EP().with_tolerance()


both_links_in_one = in_one_test("likelihood", ["probit", "logit"])


class TestEP(ApproximationSuite):
    approximation = EP()


def cavities(q):
    """Mean and variance of the marginals of q with their site removed; R&W (3.56)."""
    shift, precision = q.sites
    var = 1.0 / (1.0 / q.marginal_variance - precision)
    return var * (q.mean / q.marginal_variance - shift), var


def tilted_on_grid(model, q):
    """Nodes in units of q's marginals, and normalized weights of the tilted distributions."""
    mean, var = cavities(q)
    x = np.linspace(-12.0, 12.0, 2001)
    f = mean[:, None] + np.sqrt(var)[:, None] * x
    weight = np.exp(model.likelihood.log_prob(model.y[:, None], f) - 0.5 * x**2)
    weight /= weight.sum(axis=1, keepdims=True)
    return (f - q.mean[:, None]) / np.sqrt(q.marginal_variance)[:, None], weight


# --- the fixed point ------------------------------------------------------------------------------


@both_links
def test_ep_marginals_have_the_moments_of_the_tilted_distributions(likelihood):
    X, y = toy_classes(30, 2, seed=1)
    model = make_model(X, y, likelihood)
    fit = TIGHT.fit(model, np.array([1.5, -1.0]))
    z, weight = tilted_on_grid(model, fit.q)
    assert fit.converged
    assert_allclose((weight * z).sum(axis=1), 0.0, atol=1e-8)
    assert_allclose((weight * z**2).sum(axis=1), 1.0, atol=1e-8)


@both_links_in_one
@in_one_test("damping", [0.3, 0.7, 1.0])
def test_damping_does_not_change_the_fixed_point(likelihood, damping):
    model = three_point_model(likelihood)
    reference = TIGHT.fit(model, THREE_THETA)
    fit = EP(tol=1e-10, max_sweeps=1000, damping=damping).fit(model, THREE_THETA)
    assert fit.converged
    assert_allclose(fit.q.weights, reference.q.weights, atol=1e-8)
    assert_allclose(fit.q.precision, reference.q.precision, atol=1e-8)


def test_gaussian_noise_takes_one_undamped_sweep():
    model = given_model(TWO, [0.3, -2.0], GaussianNoise(0.5))
    fit = EP(tol=1e-8, damping=1.0).fit(model, NO_THETA)
    assert fit.converged
    assert fit.n_iterations == 2  # the second only finds that nothing changes


@in_one_test("tol", [1e-2, 1e-10])
@both_links_in_one
def test_log_evidence_equals_its_direct_definition(likelihood, tol):
    """R&W (3.65) holds for any sites, converged or not; it divides by their precisions."""
    X, y = toy_classes(12, 2, seed=2)
    model = make_model(X, y, likelihood)
    q, log_evidence, _, _ = EP(tol=tol).fit(model, np.array([1.0, -0.7]))
    shift, precision = q.sites
    mean, var = cavities(q)
    site_mean, site_var = shift / precision, 1.0 / precision
    log_z = model.likelihood.tilted_moments(model.y, mean, var).log_z
    C = q.prior.K + np.diag(site_var)
    direct = (
        -0.5 * np.linalg.slogdet(C).logabsdet
        - 0.5 * site_mean @ np.linalg.solve(C, site_mean)
        + (log_z + 0.5 * np.log(var + site_var)).sum()
        + (0.5 * (mean - site_mean) ** 2 / (var + site_var)).sum()
    )
    assert log_evidence == pytest.approx(direct, abs=1e-9)


def random_sites(n, seed=0):
    rng = np.random.default_rng(seed)
    return Sites(rng.standard_normal(n), rng.gamma(1.0, size=n))


@both_links
def test_the_start_does_not_change_the_fixed_point(likelihood):
    X, y = toy_classes(30, 2, seed=1)
    model, theta = make_model(X, y, likelihood), np.array([1.5, -1.0])
    reference = TIGHT.fit(model, theta)
    elsewhere = TIGHT.fit(model, theta + 1.0).q.sites
    for start in (elsewhere, random_sites(30), reference.q.sites):
        fit = TIGHT.fit(model, theta, start)
        assert fit.converged
        assert fit.log_evidence == pytest.approx(reference.log_evidence, abs=1e-9)
        assert_allclose(fit.q.weights, reference.q.weights, atol=1e-7)
        assert_allclose(fit.q.precision, reference.q.precision, atol=1e-7)


def test_a_good_start_saves_sweeps():
    X, y = toy_classes(30, 2, seed=1)
    model, theta = make_model(X, y), np.array([1.5, -1.0])
    cold = TIGHT.fit(model, theta)
    near = TIGHT.fit(model, theta, TIGHT.fit(model, theta + 1e-3).q.sites)
    assert near.n_iterations < cold.n_iterations
    assert TIGHT.fit(model, theta, cold.q.sites).n_iterations == 1


def test_slow_directions_of_sweeps_are_accelerated():
    """Two classes side by side, and a wide prior: by steps as they are, there are 92 sweeps."""
    X, _ = toy_classes(40, 2, seed=0)
    model, n_sweeps = make_model(X, np.where(X[:, 0] > 0.0, 1.0, -1.0)), []
    for theta in ([2.0, 0.0], [4.0, 0.0], [6.0, 0.0]):
        fits = [
            EP(tol=1e-9, max_sweeps=1000, damping=damping).fit(model, np.array(theta))
            for damping in (0.3, 0.5, 0.9)
        ]
        assert all(fit.converged for fit in fits)
        assert np.ptp([fit.log_evidence for fit in fits]) < 1e-9
        n_sweeps.append(fits[1].n_iterations)
    assert np.mean(n_sweeps) < 50


# --- the error ------------------------------------------------------------------------------------


@both_links_in_one
@in_one_test("var", [0.3, 4.48, 50.0, 2981.0])
def test_ep_of_one_point_is_exact(likelihood, var):
    """log Z to 1e-10; the moments to what the tolerance on the sites leaves."""
    model = given_model([[var]], [1.0], likelihood)
    q, log_evidence, converged, _ = TIGHT.fit(model, NO_THETA)
    sd = np.sqrt(var)
    assert converged
    assert log_evidence == pytest.approx(-np.log(2.0), abs=1e-10)  # by symmetry

    def moment(power):
        def integrand(x):
            p = np.exp(model.likelihood.log_prob(1.0, sd * x))
            return (sd * x) ** power * p * np.exp(-0.5 * x * x) / np.sqrt(2.0 * np.pi)

        # The likelihood turns within a few units of f around zero, wide as the prior may be.
        cuts = np.unique([-10.0, -min(20.0 / sd, 5.0), 0.0, min(20.0 / sd, 5.0), 10.0])
        return sum(quad(integrand, a, b, epsabs=1e-13, epsrel=1e-12)[0] for a, b in pairwise(cuts))

    mean = moment(1) / moment(0)
    variance = moment(2) / moment(0) - mean**2
    assert moment(0) == pytest.approx(np.exp(log_evidence), rel=1e-10)
    assert_allclose(q.mean, mean, rtol=1e-7)
    assert_allclose(q.marginal_variance, variance, rtol=1e-7)


@both_links_in_one
@in_one_test(
    ("K", "y", "of_evidence", "of_sd"),
    [
        *product([TWO, WIDE], [(1.0, -1.0), (1.0, 1.0)], [0.005], [0.01]),
        *product([three_point_model().prior_at(THREE_THETA).K],
                 [(1.0, -1.0, 1.0), (1.0, 1.0, 1.0)], [0.01], [0.02]),
    ],
)  # fmt: skip
def test_ep_error_with_few_points_is_small(likelihood, K, y, of_evidence, of_sd):
    """Means are off by less than 0.005 standard deviations."""
    model = given_model(K, y, likelihood)
    q, log_evidence, _, _ = TIGHT.fit(model, NO_THETA)
    log_z, mean, covariance = exact_posterior(K, y, model.likelihood)
    sd = np.sqrt(covariance.diagonal())
    assert log_evidence == pytest.approx(log_z, abs=of_evidence)
    assert (np.abs(q.mean - mean) < 0.005 * sd).all()
    assert_allclose(np.sqrt(q.marginal_variance), sd, rtol=of_sd)


def test_ep_error_with_a_very_wide_prior_is_small():
    """sigma = e^8: what is left of the error is of second order, not of rounding."""
    model = three_point_model()
    theta = np.array([8.0, -0.8, -0.3])
    fit = TIGHT.fit(model, theta)
    exact = np.log(orthant_probability(fit.q.prior.K, THREE_Y))
    assert fit.converged
    assert fit.log_evidence == pytest.approx(exact, abs=0.1)


@both_links
def test_ep_of_thirty_points_agrees_with_importance_sampling(likelihood):
    """EP is within 0.05 of log p(y), and within 0.006 with its second-order term."""
    X, y = toy_classes(30, 2, seed=0)
    model = make_model(X, y, likelihood)
    fit = TIGHT.fit(model, np.array([1.0, -1.0]))
    rng = np.random.default_rng(0)
    # The defensive mixture bounds the weights, so that the batch means have a variance.
    batches = [
        importance_estimate(model, fit.q, 15_000, rng, defensive=0.1).log_likelihood
        for _ in range(20)
    ]
    ratios = np.exp(np.array(batches) - fit.log_evidence)
    missing = np.log(ratios.mean())
    error = ratios.std(ddof=1) / ratios.mean() / np.sqrt(len(ratios))
    report = f"log Z - log Z_EP = {missing:.4f} +- {error:.4f} (standard error)"
    assert error < 0.002, report
    assert abs(missing) < 0.05, report
    assert abs(missing - second_order_correction(model, fit.q)) < 0.006, report


# --- sweeps ---------------------------------------------------------------------------------------


def test_few_sweeps_are_reported_as_not_converged():
    X, y = toy_classes(20, 2, seed=6)
    model = make_model(X, y)
    fit = EP(tol=1e-9, max_sweeps=3).fit(model, np.array([2.0, -1.0]))
    assert not fit.converged
    assert fit.n_iterations == 3
    assert np.isfinite(fit.log_evidence)
    check_gaussian_approximation(fit.q)  # a valid Gaussian all the same


def test_sweeps_end_if_rounding_prevents_the_tolerance():
    """Equal rows and large counts: the precision of sites times the prior variance is 1e10."""
    X = np.repeat([-0.55, 0.63, -0.79, 0.74, 1.04], [6, 2, 4, 4, 4])[:, None] * 1e-3
    y = 1000.0 * np.array([1, 1, 0, 1, 14, 0, 2, 0, 0, 0, 2, 1, 0, 0, 1, 0, 0, 3, 5, 1])
    fit = EP().with_tolerance().fit(make_model(X, y, Poisson()), np.array([14.77, -9.7]))
    assert not fit.converged
    assert fit.n_iterations < 200
    assert np.isfinite(fit.log_evidence)


@in_one_test("log_variance", [40.0, 60.0, 80.0])
@in_one_test("likelihood", [GaussianNoise(0.5), StudentT(4.0, 0.5), Poisson()])
def test_ep_falls_back_to_laplace_where_rounding_spoils_the_cavities(likelihood, log_variance):
    """Without a site a variance is 1e17 to 1e34 times as large, which doubles cannot tell."""
    model = given_model(np.exp(log_variance) * TWO, [3.0, 40.0], likelihood)
    fit, laplace = EP().fit(model, NO_THETA), Laplace().fit(model, NO_THETA)
    assert not fit.converged
    assert fit.log_evidence == pytest.approx(laplace.log_evidence, rel=1e-3)
    assert -500.0 < fit.log_evidence < 0.0


def test_one_sweep_leaves_the_sites_empty():
    X, y = toy_classes(8, 2, seed=6)
    fit = EP(max_sweeps=1).fit(make_model(X, y), np.array([1.0, -1.0]))
    assert not fit.converged
    assert_array_equal(fit.q.mean, 0.0)
    # With empty sites log Z_EP is that of independent points.
    assert fit.log_evidence == pytest.approx(-8.0 * np.log(2.0), abs=1e-12)


def test_a_sweep_costs_one_factorization_and_one_inverse():
    n = 50
    X, y = toy_classes(n, 2, seed=6)
    model = make_model(X, y)
    with count_operations() as count:
        fit = EP().fit(model, np.array([1.0, -1.0]))
    assert fit.n_iterations > 2
    count = count.per(n)
    # The first sweep starts from the prior, which needs neither.
    assert count.cholesky == count.inverse == fit.n_iterations - 1
    # The rest are solves and products with single vectors.
    assert count.triangular_solve < fit.n_iterations * 3.0 / n
    assert count.product < fit.n_iterations * 2.0 / n


def test_a_gradient_costs_one_product_after_the_fit():
    X, y = toy_classes(50, 2, seed=6)
    model = make_model(X, y)
    fit = TIGHT.fit(model, np.array([1.0, -1.0]))
    with count_operations() as count:
        TIGHT.gradient(model, fit)
    assert count.total == count.product == 50.0**3


def test_updates_that_grow_are_damped():
    """Undamped sweeps do not converge here; with the damping reversed they take twice as long."""
    for seed in range(4):
        X, y = toy_classes(40, 2, seed=seed)
        fit = EP(tol=1e-6, damping=1.0).fit(make_model(X, y, "logit"), np.array([9.0, 3.0]))
        assert fit.converged
        assert fit.n_iterations < 20


@pytest.mark.parametrize(("likelihood", "most"), [(Probit(), 22), (Poisson(), 18)])
def test_damping_is_relaxed_after_updates_that_grew(likelihood, most):
    """One overshoot must not slow all later sweeps: with damping kept down there are half more."""
    X, y = toy_classes(80, 3, seed=80)
    if not isinstance(likelihood, Probit):
        y = np.round(np.exp(2.0 * np.sin(2.0 * X[:, 0])))
    fits = [
        EP()
        .with_tolerance()
        .fit(make_model(X, y, likelihood), np.array([log_variance, log_length]))
        for log_variance in (0.0, 3.0, 6.0)
        for log_length in (-1.0, 1.0)
    ]
    assert all(fit.converged for fit in fits)
    assert np.mean([fit.n_iterations for fit in fits]) < most


@in_one_test(("name", "value"), [("max_sweeps", 0), ("max_sweeps", 2.5)])
def test_impossible_number_of_sweeps_is_refused_by_name(name, value):
    with pytest.raises(ValueError, match=f"{name} must be an integer >= 1; got {value}"):
        EP(**{name: value}).check()


@in_one_test("damping", [0.0, -0.5, 1.1, np.nan])
def test_impossible_damping_is_refused_by_name(damping):
    with pytest.raises(ValueError, match=rf"damping must be a number in \(0, 1\]; got {damping}"):
        EP(damping=damping).check()


def test_with_tolerance_keeps_the_damping():
    refined = EP(damping=0.5, max_sweeps=7).with_tolerance()
    assert refined.damping == 0.5
    assert refined.max_sweeps >= 7


def test_gradient_keeps_no_inverse_in_the_fit():
    """With many rows that is one matrix less, while variances that are wanted later are known."""
    model = make_model(*toy_classes(12, 2, 0))
    fit = TIGHT.fit(model, model.start)
    variance = fit.q.marginal_variance.copy()
    first = TIGHT.gradient(model, fit)
    assert not [
        v for v in vars(fit.q).values() if np.shape(v) == (12, 12) and v is not fit.q.chol_B
    ]
    assert_array_equal(fit.q.marginal_variance, variance)
    assert_array_equal(TIGHT.gradient(model, fit), first)
