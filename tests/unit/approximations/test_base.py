"""Laplace and EP with every likelihood: two points by quadrature, gradients, weights, offsets."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp

from skgpmcmc.approximations import EP, Exact, Laplace
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
    LatentGP,
    Observations,
    default_hyperprior,
    make_covariance,
    smooth_kernel,
)
from skgpmcmc.testing import check_approximation

LIKELIHOODS = {
    "probit": (Probit(), [1.0, -1.0]),
    "logit": (Logit(), [1.0, 1.0]),
    "poisson": (Poisson(), [0.0, 3.0]),
    "negative binomial": (NegativeBinomial(1.5), [0.0, 4.0]),
    "volatility": (Volatility(), [0.2, -1.5]),
    "gaussian": (Gaussian(0.5), [0.3, -1.0]),
    "student-t": (StudentT(0.5), [0.3, -1.0]),
    "ordinal": (OrdinalProbit((-0.5, 0.7)), [0.0, 1.0]),
}
LOG_CONCAVE = [name for name in LIKELIHOODS if name != "student-t"]
APPROXIMATIONS = {
    "ep": EP(tol=1e-10, max_sweeps=1000),
    "laplace": Laplace(tol=1e-20),
    "exact": Exact(),
}
PAIRS = [("laplace", name) for name in LIKELIHOODS] + [("ep", name) for name in LOG_CONCAVE]
PAIRS.append(("exact", "gaussian"))
#: Of the evidence; means and variances in posterior units may be off by more.
TOLERANCE = {"ep": 0.02, "laplace": 0.25}


def model_of(likelihood, y, X=((0.0,), (0.8,)), **more):
    covariance = make_covariance(smooth_kernel(1), np.array(X, dtype=float))
    prior = default_hyperprior(covariance, likelihood, "paper")
    return LatentGP(covariance, Observations(likelihood, np.array(y, dtype=float), **more), prior)


def theta_of(model, kernel=(0.2, -0.1)):
    return np.concatenate([kernel, model.start[2:]])


def by_quadrature(model, theta):
    """Log evidence, mean and covariance of f for two points, on a grid in whitened coordinates."""
    nodes = np.linspace(-8.0, 8.0, 401)
    v = np.stack([axis.ravel() for axis in np.meshgrid(nodes, nodes)])
    f = model.prior_at(theta).chol @ v
    log_p = model.observations_at(theta).totals(f) - 0.5 * (v**2).sum(axis=0) - np.log(2.0 * np.pi)
    log_z = logsumexp(log_p) + 2.0 * np.log(nodes[1] - nodes[0])
    p = np.exp(log_p - logsumexp(log_p))
    mean = f @ p
    return log_z, mean, (f * p) @ f.T - np.outer(mean, mean)


def covariance_of(q):
    K, W = q.prior.K, np.diag(q.precision)
    return np.linalg.solve(np.eye(len(K)) + K @ W, K)


@pytest.mark.parametrize(("approximation", "name"), PAIRS)
def test_fit_of_two_points_agrees_with_quadrature(approximation, name):
    model = model_of(*LIKELIHOODS[name])
    theta = theta_of(model)
    log_z, mean, covariance = by_quadrature(model, theta)
    fit = APPROXIMATIONS[approximation].fit(model, theta)
    assert fit.converged
    tolerance = 1e-7 if name == "gaussian" else TOLERANCE[approximation]
    assert fit.log_evidence == pytest.approx(log_z, abs=tolerance)
    sd = np.sqrt(covariance.diagonal())
    assert_allclose(fit.q.mean / sd, mean / sd, atol=2.0 * tolerance)
    assert_allclose(covariance_of(fit.q), covariance, atol=2.0 * tolerance * sd.max() ** 2)


@pytest.mark.parametrize(("approximation", "name"), PAIRS)
def test_check_approximation_passes(approximation, name):
    plain = {"ep": EP(), "laplace": Laplace(), "exact": Exact()}[approximation]
    heavy = name == "student-t"
    tolerance = 0.6 if heavy else 0.2  # two modes for two points, unless they agree
    check_approximation(plain, likelihood=LIKELIHOODS[name][0], evidence_tolerance=tolerance)


N = 12
X_LINE = np.linspace(0.0, 3.0, N)[:, None]


def line_model(name, rng, **more):
    likelihood = LIKELIHOODS[name][0]
    f = np.sin(2.0 * X_LINE[:, 0])
    return model_of(likelihood, likelihood.sample(f, rng), X_LINE, **more)


@pytest.mark.parametrize(("approximation", "name"), PAIRS)
def test_gradient_in_all_hyperparameters_equals_finite_differences(approximation, name):
    """With weights and offsets; `check_approximation` looks at models without."""
    rng = np.random.default_rng(3)
    more = {"weight": rng.uniform(0.3, 2.0, N), "offset": rng.normal(0.0, 0.3, N)}
    model = line_model(name, rng, **more)
    theta = theta_of(model)
    method = APPROXIMATIONS[approximation]
    gradient = method.gradient(model, method.fit(model, theta))
    assert len(gradient) == len(theta) == len(model.hyperprior.names)
    for j, step in enumerate(1e-4 * np.eye(len(theta))):
        up, down = (method.fit(model, theta + s).log_evidence for s in (step, -step))
        assert gradient[j] == pytest.approx((up - down) / 2e-4, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize(("approximation", "name"), PAIRS)
def test_integer_weights_equal_repeated_rows(approximation, name):
    """Repeated rows have one latent value: as rows of one input, and as inputs of a lower rank.

    EP has a site for each input, and so another evidence where equal rows are inputs of their own.
    """
    rng = np.random.default_rng(5)
    model = line_model(name, rng)
    weight = rng.integers(1, 4, N).astype(float)
    rows = np.repeat(np.arange(N), weight.astype(int))
    method = APPROXIMATIONS[approximation]
    weighted = model_of(model.likelihood, model.y, X_LINE, weight=weight)
    first = np.searchsorted(rows, np.arange(N))
    observed = replace(weighted.observations, y=model.y[rows], weight=None, first=first)
    grouped = replace(weighted, observations=observed)
    one, same = (method.with_tolerance().fit(m, theta_of(m)) for m in (weighted, grouped))
    assert one.log_evidence == pytest.approx(same.log_evidence, rel=1e-9)
    assert_allclose(same.q.mean, one.q.mean, rtol=1e-7, atol=1e-8)
    if approximation == "ep":
        return
    repeated = model_of(model.likelihood, model.y[rows], X_LINE[rows])
    other = method.with_tolerance().fit(repeated, theta_of(repeated))
    assert other.q.prior.rank <= N < len(rows)
    assert one.log_evidence == pytest.approx(other.log_evidence, rel=1e-9)
    assert_allclose(other.q.mean, one.q.mean[rows], rtol=1e-7, atol=1e-8)
    assert_allclose(other.q.marginal_variance, one.q.marginal_variance[rows], rtol=1e-7)


@pytest.mark.parametrize("approximation", ["ep", "laplace"])
def test_offset_of_a_poisson_model_equals_an_exposure(approximation):
    """Poisson with exposure E is Poisson with E exp(f): by quadrature on two points."""
    offset = np.log([0.5, 3.0])
    model = model_of(Poisson(), [1.0, 5.0], offset=offset)
    theta = theta_of(model)
    f = np.array([0.3, -0.2])
    mu = np.exp(f + offset)
    expected = (np.array([1.0, 5.0]) * np.log(mu) - mu).sum() - np.log(120.0)
    assert model.observations_at(theta).total(f) == pytest.approx(expected, rel=1e-12)
    log_z = by_quadrature(model, theta)[0]
    fit = APPROXIMATIONS[approximation].fit(model, theta)
    assert fit.log_evidence == pytest.approx(log_z, abs=0.03)


def test_laplace_finds_a_mode_among_outliers():
    """No direction raises the density, and the point from which Newton begins is worse."""
    rng = np.random.default_rng(0)
    y = np.sin(2.0 * X_LINE[:, 0])
    y[[2, 8]] += [6.0, -5.0]
    model = model_of(StudentT(0.2), y, X_LINE)
    theta = theta_of(model, (0.5, -0.3))
    fit = Laplace(tol=1e-13).fit(model, theta)
    assert fit.converged
    observed, q = model.observations_at(theta), fit.q
    assert_allclose(observed.derivatives(q.mean).first, q.weights, atol=1e-4)

    def objective(f):
        v = q.prior.whiten(f)
        return observed.total(f) - 0.5 * v @ v

    best = objective(q.mean)
    for _ in range(50):
        assert objective(q.mean + 1e-2 * q.prior.sample(rng)) < best
    assert best > objective(np.zeros(N))
    assert np.abs(q.mean - np.sin(2.0 * X_LINE[:, 0])).max() < 0.5
    assert (q.precision == 0.0).sum() == 2  # those of the outliers
