"""Densities given other rows at one theta: closed forms with Gaussian noise, else integrals."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.special import logsumexp
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skgpmcmc.approximations import EP, Laplace
from skgpmcmc.importance.interpolated import InterpolatedSites
from skgpmcmc.importance.left_out import DensityQuery, FittedPosterior
from skgpmcmc.likelihoods import (
    Gaussian,
    Logit,
    NegativeBinomial,
    OrdinalProbit,
    Poisson,
    Probit,
    Softmax,
    StudentT,
    Volatility,
)
from skgpmcmc.model import ClasswiseGP, LatentGP, Observations, default_hyperprior, make_covariance
from skgpmcmc.model.observations import ExtraTargets

from ...helpers import in_one_test

#: Two inputs with three rows and one with one; each row has its weight.
FIRST = np.array([0, 3, 4])
INPUT = np.array([0, 0, 0, 1, 2])
WEIGHT = np.array([1.0, 2.0, 0.5, 1.0, 1.5])
OFFSET = np.array([0.1, -0.3, 0.2, 0.0, 0.4])
X = np.array([[0.0], [0.6], [1.5]])
KERNEL = ConstantKernel(1.5, "fixed") * RBF(1.0, "fixed")
K = KERNEL(X)
#: Every row as a whole, and half of two of them.
ROWS = np.array([0, 1, 2, 3, 4, 1, 4])
OUT = np.array([1.0, 2.0, 0.5, 1.0, 1.5, 1.0, 0.5])


def model_of(likelihood, y, weight=WEIGHT):
    covariance = make_covariance(KERNEL, X)
    observed = Observations(likelihood, np.asarray(y, dtype=float), OFFSET, weight, FIRST)
    kind = LatentGP if likelihood.n_functions == 1 else ClasswiseGP
    if likelihood.n_functions > 1:
        observed = Observations(likelihood, np.asarray(y, dtype=float), None, weight, FIRST)
    return kind(covariance, observed, default_hyperprior(covariance, likelihood))


def queries(y, other):
    """Each row left out; each once more beside itself; another target without the row."""
    y = np.asarray(y, dtype=float)
    without = DensityQuery(ROWS, WEIGHT[ROWS] - OUT, ExtraTargets(y[ROWS], OUT))
    twice = DensityQuery(ROWS, WEIGHT[ROWS], ExtraTargets(y[ROWS], OUT))
    another = without._replace(
        further=ExtraTargets(np.full(len(ROWS), float(other)), np.ones(len(ROWS)))
    )
    return [without, twice, another]


def expected(log_evidence, y, query):
    """Log p of the targets by a function of all targets and weights, and which input each is at."""
    found = []
    for row, kept, further, weight in zip(*query[:2], *query.further, strict=True):
        left = WEIGHT.copy()
        left[row] = kept
        targets = np.append(np.asarray(y, dtype=float), further)
        which = np.append(np.arange(len(y)), row)
        with_it, without = (
            log_evidence(targets, np.append(left, own), which) for own in (weight, 0.0)
        )
        found.append(with_it - without)
    return found


# --- Gaussian noise -------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [0.5, 0.02])
def test_left_out_density_of_gaussian_noise_equals_its_closed_form(noise):
    y = np.array([0.4, -0.2, 0.3, 1.0, -0.8])
    variance = np.array([0.1, 0.2, 0.1, 0.3, 0.2]) * noise**2
    likelihood = Gaussian(noise, fixed=True, row_variance=variance)

    def log_evidence(targets, weight, which):
        some = weight > 0.0
        targets, weight, which = targets[some], weight[some], which[some]
        V = noise**2 + variance[which]
        C = K[np.ix_(INPUT[which], INPUT[which])] + np.diag(V / weight)
        log_p = stats.multivariate_normal(np.zeros(len(V)), C).logpdf(targets - OFFSET[which])
        # N(f, V)^w is N(f, V / w) times this.
        return log_p + 0.5 * np.sum((1.0 - weight) * np.log(2.0 * np.pi * V) - np.log(weight))

    model = model_of(likelihood, y)
    settled = FittedPosterior.at(model, np.empty(0), None)
    for query in queries(y, 0.7):
        found = settled.log_density_given(query)
        assert_allclose(found, expected(log_evidence, y, query), rtol=1e-8, atol=1e-8)


# --- other likelihoods ----------------------------------------------------------------------------

#: Likelihood, targets, another target.
CASES = {
    "probit": (Probit(), [1, -1, 1, -1, 1], -1),
    "logit": (Logit(), [1, -1, 1, -1, 1], 1),
    "poisson": (Poisson(), [2, 0, 1, 3, 6], 2),
    "negative_binomial": (NegativeBinomial(fixed=True), [2, 0, 1, 3, 6], 2),
    "student_t": (StudentT(0.5, fixed=True), [0.4, -0.2, 0.3, 1.0, -3.0], 0.2),
    "volatility": (Volatility(), [0.5, -0.9, 0.1, 0.001, 2.0], 0.3),
    "ordinal": (OrdinalProbit((-0.5, 0.6), fixed=True), [0, 1, 1, 2, 2], 1),
}


def integrated(likelihood, y, K=K, offset=OFFSET):
    """Log evidence by a product rule over f at the three inputs, whitened."""
    nodes = np.linspace(-8.0, 8.0, 41)
    v = np.stack(np.meshgrid(*[nodes] * 3, indexing="ij")).reshape(3, -1)
    f = np.linalg.cholesky(K) @ v
    log_prior = -0.5 * (v**2).sum(axis=0)
    known = {}

    def log_evidence(targets, weight, which):
        total = log_prior.copy()
        for target, own, row in zip(targets, weight, which, strict=True):
            if own > 0.0:
                if (target, row) not in known:
                    at = f[INPUT[row]] + offset[row]
                    known[target, row] = likelihood.log_prob(np.full(at.shape, target), at)
                total += own * known[target, row]
        return logsumexp(total)

    return log_evidence


@pytest.mark.parametrize("name", list(CASES))
def test_left_out_density_by_ep_agrees_with_integrals(name):
    likelihood, y, other = CASES[name]
    model = model_of(likelihood, y)
    log_evidence = integrated(model.likelihood, y)
    settled = FittedPosterior.at(model, model.start, None)
    for query in queries(y, other):
        found = settled.log_density_given(query)
        # What EP itself leaves, more of it where a likelihood has several modes.
        tolerance = 0.02 if likelihood.log_concave else 0.06
        assert_allclose(found, expected(log_evidence, y, query), atol=tolerance)


def test_left_out_density_by_laplace_is_that_of_its_cavities():
    likelihood, y, other = CASES["logit"]
    model = model_of(likelihood, y)
    settled = FittedPosterior.at(model, model.start, Laplace())
    q = settled.q
    W, nu = q.precision, q.sites.shift
    covariance = np.linalg.inv(np.linalg.inv(K) + np.diag(W))
    assert_allclose(q.mean, covariance @ nu, rtol=1e-8)
    var = 1.0 / (1.0 / covariance.diagonal() - W)
    mean = var * (q.mean / covariance.diagonal() - nu)
    last = DensityQuery(np.array([4]), np.zeros(1), ExtraTargets(np.array([1.0]), np.ones(1)))
    expect = likelihood.log_predictive(1.0, mean[2] + OFFSET[4], var[2])
    assert_allclose(settled.log_density_given(last), expect, rtol=1e-8)
    log_evidence = integrated(likelihood, y)
    for query in queries(y, other):
        found = settled.log_density_given(query)
        assert_allclose(found, expected(log_evidence, y, query), atol=0.1)


def test_left_out_density_of_a_softmax_of_two_classes_equals_the_logit():
    signs = np.array([1.0, -1.0, 1.0, -1.0, 1.0])
    y, other = 0.5 * (signs + 1.0), 0.0
    settled = FittedPosterior.at(model_of(Softmax(2), y), np.empty(0), None)
    logit = integrated(Logit(), signs, 2.0 * K, np.zeros(5))
    for query in queries(y, other):
        as_signs = query._replace(
            further=ExtraTargets(2.0 * query.further.y - 1.0, query.further.weight)
        )
        found = settled.log_density_given(query)
        # 512 points for each row, and the Gaussian of averaged sites.
        assert_allclose(found, expected(logit, signs, as_signs), atol=0.04)


# --- many inputs ----------------------------------------------------------------------------------


def many(name, y=None):
    """A model of fourteen inputs, and what EP makes of it without each of them."""
    likelihood, rng = CASES[name][0], np.random.default_rng(0)
    places = rng.uniform(0.0, 2.0, (14, 2))
    covariance = make_covariance(ConstantKernel(3.0, "fixed") * RBF(0.7, "fixed"), places)
    if y is None:
        y = likelihood.sample(2.0 * np.sin(4.0 * places[:, 0]), rng)
    hyperprior = default_hyperprior(covariance, likelihood)
    model = LatentGP(covariance, Observations(likelihood, y), hyperprior)
    ep, rows, theta = EP(tol=1e-8, max_sweeps=1000), np.arange(14), np.empty(0)
    whole = ep.fit(model, theta).log_evidence
    without = [ep.fit(model.of_inputs(np.delete(rows, i)), theta).log_evidence for i in rows]
    query = DensityQuery(rows, np.zeros(14), ExtraTargets(y, np.ones(14)))
    return FittedPosterior.at(model, theta, ep), query, whole - np.array(without)


@in_one_test("name", ["probit", "poisson", "student_t"])
def test_left_out_density_of_many_inputs_agrees_with_refits(name):
    settled, query, refitted = many(name)
    found = settled.log_density_given(query)
    assert_allclose(found, refitted, atol=0.03)
    assert abs(np.sum(found - refitted)) < 0.06


def test_left_out_density_of_an_outlier_uses_a_new_fit():
    """One return is ten times as large as all others, which are why f is not as high as it says."""
    y = np.array([1.0, -0.8, 1.3, 10.0, *np.tile([0.9, -1.1], 5)])
    settled, query, refitted = many("volatility", y)
    assert_allclose(settled.log_density_given(query), refitted, atol=0.03)
    cavities = settled._replace(refit_by=None).log_density_given(query)
    assert np.abs(cavities - refitted).max() > 1.0


def test_left_out_density_uses_the_approximation_of_the_chains():
    model = model_of(*CASES["probit"][:2])
    theta = model.start
    ep, laplace = (
        approximation.with_tolerance().fit(model, theta).q for approximation in (EP(), Laplace())
    )
    sites = [ep.sites, ep.sites]
    interpolated = InterpolatedSites.fit(
        EP(), np.array([[-1.0], [1.0]]), sites, np.zeros(1), np.ones(1)
    )
    for reference, q in ((None, ep), (EP(), ep), (Laplace(), laplace)):
        assert_allclose(FittedPosterior.at(model, theta, reference).q.mean, q.mean, atol=1e-3)
    wanted = interpolated.sites_at(np.zeros(1))
    assert_allclose(wanted.shift, ep.sites.shift, rtol=1e-6)
    assert FittedPosterior.at(model, theta, Laplace()).refit_by is None
    assert abs(ep.mean - laplace.mean).max() > 0.01
