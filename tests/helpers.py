"""What several test files share: small models, references, and the suite for an approximation.

Tests of chains compare with z-scores, |z| < 4 (p = 6e-5 each), or with p-values; docs/correctness
adds up how often all of them together would fail for nothing. No seed was chosen to pass: the
statistical ones take theirs from `seeded`, which the option ``--seed`` changes. Where the reference
is random too, its error is part of the z-score.
"""

import gc
import inspect
import os
import pickle
import types
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, wraps
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    RationalQuadratic,
    WhiteKernel,
)

from skgpmcmc.chain import InProcessExecutor
from skgpmcmc.chain.executor import perform
from skgpmcmc.likelihoods import (
    BERNOULLI_LIKELIHOODS,
    Derivatives,
    Likelihood,
    Probit,
    TiltedMoments,
)
from skgpmcmc.model import (
    Covariance,
    HyperPrior,
    LatentGP,
    Observations,
    make_covariance,
    paper_prior,
    smooth_kernel,
)
from skgpmcmc.numerics.dynamics import DenseRoot
from skgpmcmc.numerics.linalg import NotPositiveDefiniteError
from skgpmcmc.run import chains
from skgpmcmc.transitions import Trajectory

Z_LIMIT = 4.0
P_LIMIT = 1e-4

REPOSITORY = Path(__file__).resolve().parents[1]
DATA_VARIABLE = "SKGPMCMC_DATA"


def data_directory():
    """Where the papers' data sets are, or None."""
    named = os.environ.get(DATA_VARIABLE)
    directory = Path(named) if named else REPOSITORY.parent / "shared" / "data"
    return directory if directory.is_dir() else None


# --- seeds, and chains that are too short ---------------------------------------------------------

_seed = 0


def set_seed(seed):
    """Seed of the test that comes next: that of the option ``--seed``, if it is statistical."""
    global _seed
    _seed = seed


def seeded(offset=0):
    """A seed for each offset below a thousand, and others for each ``--seed``."""
    return offset + 1000 * _seed


@contextmanager
def short_chains():
    """No warning that chains have not converged: around a test or a fixture, or in a block."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


@contextmanager
def rounds_of(n_draws):
    """Rounds of so many draws in place of fifty, for tests of what happens between rounds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chains, "ROUND_LENGTH", n_draws)
        yield


# --- set-ups --------------------------------------------------------------------------------------


def streams(n, seed):
    """Random streams of n chains."""
    return [np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(n)]


class Watched(InProcessExecutor):
    """Does all work at once, and remembers the stage, the items and the results of each batch."""

    def __init__(self):
        self.batches = []

    @property
    def stages(self):
        """What the set-up did, without numbers."""
        return [stage.partition(":")[0] for stage, _, _ in self.batches]

    def map(self, function, items, stage, **about):
        found = self.done(function, items, **about)
        self.batches.append((stage, items, found))
        return found

    def done(self, function, items, **about):
        """What the calls return."""
        return super().map(function, items, "", **about)


class CutShort(Watched):
    """The same under a time limit, which is over once a batch of the stage `last` is done."""

    def __init__(self, limit, last=None):
        super().__init__()
        self.limit, self.last = limit, last

    def map(self, function, items, stage, **about):
        found = super().map(function, items, stage, **about)
        if self.last is not None and stage.startswith(self.last):
            self.limit.end = -np.inf
        return found

    def done(self, function, items, *, n_needed=0, iterations=0.0):
        """None for those that there is no time for."""
        calls = [perform(function, item, self.limit, i < n_needed) for i, item in enumerate(items)]
        return [call.value for call in calls]


# --- cases ----------------------------------------------------------------------------------------


def every_pair(*dimensions):
    """Cases in which every two values of different dimensions meet at least once.

    A pairwise covering, found greedily: about as many cases as the product of the two longest
    dimensions, where a test of the full product would take the product of all. The result is a
    list of tuples, one value of each dimension in a tuple, and depends on the arguments alone.
    """
    if len(dimensions) < 2:
        raise ValueError("pairs need two dimensions at least")
    places = range(len(dimensions))
    not_met = {
        ((i, a), (j, b))
        for i, j in combinations(places, 2)
        for a in range(len(dimensions[i]))
        for b in range(len(dimensions[j]))
    }

    def n_new(case, place, value):
        """How many pairs meet for the first time if a case gets this value at this place."""
        pairs = (tuple(sorted([(place, value), other])) for other in case.items())
        return sum(pair in not_met for pair in pairs)

    cases = []
    while not_met:
        case = dict(min(not_met))
        for place in places:
            if place not in case:
                values = range(len(dimensions[place]))
                case[place] = max(values, key=partial(n_new, case, place))
        not_met -= set(combinations(sorted(case.items()), 2))
        cases.append(tuple(dimensions[place][case[place]] for place in places))
    return cases


def in_one_test(names, cases, ids=None):
    """Like `pytest.mark.parametrize`, but all cases are one test, which names those that fail.

    For many cheap cases of one statement. Fixtures are made once, so that no case may change one.
    `ids` are strings, or a function that makes one of a value.
    """
    names = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    cases = [(case,) if len(names) == 1 else tuple(case) for case in cases]
    labels = None if ids is None or callable(ids) else list(ids)
    assert labels is None or len(labels) == len(cases)

    def decorated(test):
        signature = inspect.signature(test)
        fixtures = [p for name, p in signature.parameters.items() if name not in names]

        @wraps(test)
        def through_all(*arguments, **given):
            failures, errors = [], []
            for i, case in enumerate(cases):
                try:
                    test(*arguments, **given, **dict(zip(names, case, strict=True)))
                except (Exception, pytest.fail.Exception) as error:
                    label = labels[i] if labels else ", ".join(map(ids or repr, case))
                    failures.append(f"{label}: {type(error).__name__}: {error}")
                    errors.append(error)
            if failures:
                raise AssertionError("\n\n".join(failures)) from errors[0]

        through_all.__signature__ = signature.replace(parameters=fixtures)
        return through_all

    return decorated


# --- memory --------------------------------------------------------------------------------------


def reachable(root):
    """Every object that is held, directly or not, by another one; code and modules left out."""
    seen, todo = {}, [root]
    while todo:
        found = todo.pop()
        if id(found) in seen or isinstance(found, type | types.ModuleType | types.FunctionType):
            continue
        seen[id(found)] = found
        todo.extend(gc.get_referents(found))
        if isinstance(found, np.ndarray) and found.base is not None:
            todo.append(found.base)
    return seen.values()


# --- models ---------------------------------------------------------------------------------------


def make_model(X, y, likelihood="probit", kernel=None, *, priors=None, nugget=0.0):
    """Model on the inputs X, with a default kernel and the papers' priors.

    `likelihood` is a name or an object; `priors` maps names to distributions, the rest the papers'.
    A `nugget` makes K well conditioned.
    """
    X, y = np.asarray(X, dtype=float), np.asarray(y, dtype=float)
    n_features = X.shape[1]
    kernel = smooth_kernel(n_features) if kernel is None else kernel
    covariance = make_covariance(kernel, X)
    distributions = {name: paper_prior(name, X) for name in covariance.names}
    distributions.update(priors or {})
    if isinstance(likelihood, str):
        likelihood = BERNOULLI_LIKELIHOODS[likelihood]()
    hyperprior = HyperPrior(covariance.names, distributions)
    model = LatentGP(covariance, Observations(likelihood, y), hyperprior)
    return model.with_nugget(nugget) if nugget > 0.0 else model


class GivenCovariance(Covariance):
    """A matrix given outright, without hyper-parameters: for tests that state K."""

    def __init__(self, K):
        self.K = np.array(K, dtype=float)
        fixed = ConstantKernel(1.0, "fixed") * RBF(1.0, "fixed")
        super().__init__(fixed, np.arange(len(self.K), dtype=float)[:, None])

    def matrix(self, theta):
        return self.K.copy(order="F")

    def _contract(self, theta, A, K):
        return np.empty(0)

    def cross(self, theta, X_new):
        raise NotImplementedError("a given matrix knows the training inputs only")

    def diagonal(self, theta, X_new):
        return self.K.diagonal().copy()


NO_THETA = np.empty(0)


def given_model(K, y, likelihood="probit"):
    """Model whose covariance matrix is K exactly; its theta is `NO_THETA`."""
    if isinstance(likelihood, str):
        likelihood = BERNOULLI_LIKELIHOODS[likelihood]()
    observations = Observations(likelihood, np.asarray(y, dtype=float))
    return LatentGP(GivenCovariance(K), observations, HyperPrior((), {}))


def toy_classes(n, d, seed, scale=2.0):
    """Inputs in the unit cube and classes from a smooth function of them; y is -1.0 or +1.0."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, d))
    f = scale * np.sin(4.0 * X @ rng.uniform(0.5, 1.5, size=d) + rng.uniform(0.0, 6.0))
    return X, np.where(f + rng.standard_normal(n) > 0.0, 1.0, -1.0)


#: Three points for which p(y) is known in closed form, and the value of theta it goes with.
THREE_X = np.array([[0.1, 0.2], [0.5, 0.9], [0.6, 0.4]])
THREE_Y = np.array([1.0, -1.0, 1.0])
THREE_THETA = np.array([1.5, -0.8, -0.3])


def three_point_model(likelihood="probit", *, nugget=0.0):
    """ARD model on the three points; its theta is `THREE_THETA`."""
    return make_model(THREE_X, THREE_Y, likelihood, smooth_kernel(2, ard=True), nugget=nugget)


@dataclass(frozen=True)
class GaussianNoise(Likelihood):
    """y = f + noise: conjugate, so that every approximation must be exact."""

    noise_var: float
    name = "gaussian"
    log_concave = True

    def log_prob(self, y, f):
        return -0.5 * (y - f) ** 2 / self.noise_var - 0.5 * np.log(2.0 * np.pi * self.noise_var)

    def derivatives(self, y, f):
        curvature = np.full(np.shape(f), -1.0 / self.noise_var)
        return Derivatives((y - f) / self.noise_var, curvature, np.zeros(np.shape(f)))

    def fisher_information(self, f):
        return np.full(np.shape(f), 1.0 / self.noise_var)

    def sample(self, f, rng):
        return f + np.sqrt(self.noise_var) * rng.standard_normal(np.shape(f))


class PartlyObserved(Probit):
    """Probit in which y = 0 marks a point that was not observed: its term is one, W = 0."""

    def log_prob(self, y, f):
        return np.where(y == 0.0, 0.0, super().log_prob(y, f))

    def derivatives(self, y, f):
        observed = y != 0.0
        return Derivatives(*(np.where(observed, d, 0.0) for d in super().derivatives(y, f)))

    def tilted_moments(self, y, mean, var):
        observed = y != 0.0
        moments = super().tilted_moments(y, mean, var)
        return TiltedMoments(*(np.where(observed, m, 0.0) for m in moments))


# --- references -----------------------------------------------------------------------------------


def orthant_probability(K, y):
    """p(y) of a probit model with n = 1, 2 or 3 points, in closed form.

    y_i (f_i + e_i) > 0 for all i, e ~ N(0, I), is an orthant of N(0, K + I).
    """
    C = np.outer(y, y) * (np.asarray(K) + np.eye(len(y)))
    R = C / np.sqrt(np.outer(C.diagonal(), C.diagonal()))
    angles = np.arcsin(R[np.triu_indices(len(y), 1)]).sum()
    return 0.5 ** len(y) + angles / (2.0 ** (len(y) - 1) * np.pi)


def exact_posterior(K, y, likelihood, *, n_nodes=61, limit=8.0):
    """Log p(y), posterior mean and covariance of f, by a product rule in whitened coordinates.

    For n <= 3. The integrand is analytic and negligible at the limits, so that the trapezoidal
    rule converges geometrically: the error is below 1e-12 for the matrices of these tests.
    """
    nodes = np.linspace(-limit, limit, n_nodes)
    n = len(y)
    v = np.stack(np.meshgrid(*[nodes] * n, indexing="ij")).reshape(n, -1)
    f = np.linalg.cholesky(K) @ v
    log_height = likelihood.log_prob(np.asarray(y)[:, None], f).sum(axis=0) - 0.5 * (v**2).sum(0)
    top = log_height.max()
    weight = np.exp(log_height - top)
    total = weight.sum()
    log_z = top + np.log(total) + n * (np.log(nodes[1] - nodes[0]) - 0.5 * np.log(2.0 * np.pi))
    mean = f @ weight / total
    centered = f - mean[:, None]
    return log_z, mean, (centered * weight) @ centered.T / total


def finite_difference(function, theta, step=1e-3):
    """Gradient by central differences, extrapolated once: the error is of order step^4."""

    def central(h):
        return np.array(
            [
                (function(theta + h * e) - function(theta - h * e)) / (2.0 * h)
                for e in np.eye(len(theta))
            ]
        )

    return (4.0 * central(0.5 * step) - central(step)) / 3.0


def relative_error(value, reference):
    """Largest absolute error as a share of the largest reference."""
    return float(np.abs(value - reference).max() / np.abs(reference).max())


def z_score(sample, reference, reference_error=0.0):
    """Standard errors between the mean of independent values and a reference."""
    sample = np.asarray(sample)
    error = np.hypot(sample.std(ddof=1) / np.sqrt(len(sample)), reference_error)
    return float((sample.mean() - reference) / error)


# --- the suite ------------------------------------------------------------------------------------

GRADIENT_KERNELS = {
    "isotropic": smooth_kernel(2),
    "ard": smooth_kernel(2, ard=True),
    "generic": ConstantKernel(1.5) * RationalQuadratic(0.9, 1.7)
    + DotProduct(0.5)
    + WhiteKernel(0.1),
}

both_links = pytest.mark.parametrize("likelihood", ["probit", "logit"])


def dense(q):
    """Mean and covariance of a Gaussian approximation by the textbook formula, in numpy."""
    K, W = q.prior.K, np.diag(q.precision)
    return K @ q.weights, np.linalg.solve(np.eye(len(K)) + K @ W, K)


class ApproximationSuite:
    """What any approximation must satisfy; a subclass names one as `approximation`."""

    approximation = None

    @both_links
    @pytest.mark.parametrize("kernel", GRADIENT_KERNELS.values(), ids=GRADIENT_KERNELS.keys())
    def test_gradient_of_the_evidence_equals_finite_differences(self, likelihood, kernel):
        X, y = toy_classes(12, 2, seed=3)
        model = make_model(X, y, likelihood, kernel)
        theta = kernel.theta + np.linspace(0.8, -0.6, len(kernel.theta))
        refined = self.approximation.with_tolerance()
        fit = refined.fit(model, theta)
        expected = finite_difference(lambda t: refined.fit(model, t).log_evidence, theta)
        assert fit.converged
        assert relative_error(refined.gradient(model, fit), expected) < 1e-5

    def test_gaussian_noise_gives_the_exact_posterior(self):
        rng = np.random.default_rng(0)
        X, y = rng.uniform(size=(10, 2)), rng.standard_normal(10)
        model = make_model(X, y, GaussianNoise(0.4))
        theta = np.array([0.7, -0.5])
        q, log_evidence, converged, _ = self.approximation.with_tolerance().fit(model, theta)
        C = q.prior.K + 0.4 * np.eye(10)
        assert converged
        expected = multivariate_normal(np.zeros(10), C).logpdf(y)
        assert log_evidence == pytest.approx(expected, abs=1e-9)
        assert_allclose(q.mean, q.prior.K @ np.linalg.solve(C, y), atol=1e-8)
        assert_allclose(q.precision, 1.0 / 0.4, rtol=1e-8)

    @in_one_test(("n_inputs", "log_length"), [(2, -0.5), (9, -0.5), (12, 3.0), (12, 9.0)])
    def test_gaussian_noise_gives_the_exact_posterior_where_K_is_singular(
        self, n_inputs, log_length
    ):
        """Few inputs for twelve rows, or long length-scales."""
        rng = np.random.default_rng(0)
        X, y = rng.uniform(size=(n_inputs, 2)), rng.standard_normal(12)
        model = make_model(X[np.arange(12) % n_inputs], y, GaussianNoise(0.4))
        theta = np.array([0.7, log_length])
        fit = self.approximation.with_tolerance().fit(model, theta)
        K = fit.q.prior.K
        C = K + 0.4 * np.eye(12)
        assert fit.q.prior.rank < 12
        assert fit.converged
        expected = multivariate_normal(np.zeros(12), C).logpdf(y)
        assert fit.log_evidence == pytest.approx(expected, abs=1e-9)
        assert_allclose(fit.q.mean, K @ np.linalg.solve(C, y), atol=1e-8)
        variance = (K - K @ np.linalg.solve(C, K)).diagonal()
        assert_allclose(fit.q.marginal_variance, variance, atol=1e-8)
        draws = fit.q.sample(np.random.default_rng(1), 5).f
        v = fit.q.prior.whiten(draws)
        assert_allclose(fit.q.prior.unwhiten(v), draws, atol=1e-8)

    @both_links
    def test_order_of_the_points_does_not_change_the_fit(self, likelihood):
        X, y = toy_classes(20, 2, seed=4)
        order = np.random.default_rng(0).permutation(20)
        theta = np.array([1.0, -0.7])
        fits = [
            self.approximation.fit(make_model(X[rows], y[rows], likelihood), theta)
            for rows in (np.arange(20), order)
        ]
        assert fits[1].log_evidence == pytest.approx(fits[0].log_evidence, abs=1e-10)
        assert_allclose(fits[1].q.weights, fits[0].q.weights[order], atol=1e-9)
        assert_allclose(fits[1].q.precision, fits[0].q.precision[order], atol=1e-9)

    @both_links
    def test_exchanged_classes_change_only_the_sign_of_the_fit(self, likelihood):
        X, y = toy_classes(20, 2, seed=4)
        theta = np.array([1.0, -0.7])
        one, other = (
            self.approximation.fit(make_model(X, sign * y, likelihood), theta)
            for sign in (1.0, -1.0)
        )
        assert other.log_evidence == pytest.approx(one.log_evidence, abs=1e-12)
        assert_allclose(other.q.weights, -one.q.weights, atol=1e-12)

    def test_points_without_information_do_not_change_the_fit(self):
        """W = 0 rows: the evidence is that of the other points, the mean there a prediction."""
        X, y = toy_classes(20, 2, seed=5)
        y[12:] = 0.0
        theta = np.array([1.0, -0.7])
        every = self.approximation.with_tolerance().fit(make_model(X, y, PartlyObserved()), theta)
        some = self.approximation.with_tolerance().fit(make_model(X[:12], y[:12]), theta)
        moments = some.q.conditional().predict(X[12:])
        assert_array_equal(every.q.precision[12:], 0.0)
        assert every.log_evidence == pytest.approx(some.log_evidence, abs=1e-9)
        assert_allclose(every.q.mean[12:], moments.mean[:, 0], atol=1e-8)
        assert_allclose(every.q.marginal_variance[12:], moments.var, atol=1e-8)

    @both_links
    def test_repeated_point_agrees_with_quadrature_of_one_value(self, likelihood):
        """K of rank one."""
        model = make_model(np.ones((6, 2)), [1.0, 1.0, 1.0, 1.0, -1.0, -1.0], likelihood)
        fit = self.approximation.with_tolerance().fit(model, np.array([1.0, 0.0]))
        assert fit.converged
        assert fit.q.prior.rank == 1
        assert_allclose(fit.q.mean, fit.q.mean[0], rtol=1e-12)
        # One latent value under N(0, e): Gauss-Hermite quadrature of six terms.
        f, w = np.polynomial.hermite_e.hermegauss(80)
        f = f * np.exp(0.5)
        log_prob = 4.0 * model.likelihood.log_prob(1.0, f) + 2.0 * model.likelihood.log_prob(
            -1.0, f
        )
        exact = np.log(w @ np.exp(log_prob) / w.sum())
        assert fit.log_evidence == pytest.approx(exact, abs=0.05)

    @both_links
    @pytest.mark.parametrize("log_length", [-4.0, 0.0, 4.0])
    @pytest.mark.parametrize("log_constant", [-8.0, 8.0])
    def test_fit_converges_at_extreme_scales(self, likelihood, log_length, log_constant):
        X, y = toy_classes(25, 2, seed=3)
        model = make_model(X, y, likelihood)
        q, log_evidence, converged, _ = self.approximation.fit(
            model, np.array([log_constant, log_length])
        )
        assert converged
        assert np.isfinite(log_evidence)
        assert np.isfinite(q.weights).all()
        assert (q.precision >= 0.0).all()
        assert (q.marginal_variance > 0.0).all()
        assert np.isfinite(q.sample(np.random.default_rng(0), 3).f).all()

    @both_links
    def test_fit_is_finite_or_refused_far_in_the_tails_of_a_prior(self, likelihood):
        """A random walk may propose such a theta; the prior rejects it if it gets a number."""
        X, y = toy_classes(25, 2, seed=3)
        model = make_model(X, y, likelihood)
        for log_constant in (-45.0, 20.0, 45.0):
            for log_length in (-45.0, 0.0, 45.0):
                theta = np.array([log_constant, log_length])
                try:
                    fit = self.approximation.fit(model, theta)
                except NotPositiveDefiniteError:  # a rejection too
                    continue
                assert fit.log_evidence < 0.0  # not NaN either

    def test_fit_depends_on_theta_alone(self):
        """A fit elsewhere in between must leave no trace (no warm starts)."""
        X, y = toy_classes(20, 2, seed=6)
        model = make_model(X, y)
        theta = np.array([1.0, -0.7])
        first = self.approximation.fit(model, theta)
        self.approximation.fit(model, theta + 2.0)
        second = self.approximation.fit(model, theta)
        assert second.log_evidence == first.log_evidence
        assert_array_equal(second.q.weights, first.q.weights)
        assert_array_equal(second.q.precision, first.q.precision)

    def test_default_tolerance_leaves_a_small_error_of_the_evidence(self):
        """The error of a log evidence has to be small beside the noise of its estimates."""
        X, y = toy_classes(40, 2, seed=7)
        model = make_model(X, y)
        for theta in ([-1.0, -2.0], [1.0, -1.0], [3.0, 0.0]):
            loose, tight = (
                approximation.fit(model, np.array(theta)).log_evidence
                for approximation in (self.approximation, self.approximation.with_tolerance())
            )
            assert loose == pytest.approx(tight, abs=0.01)

    def test_with_tolerance_never_loosens_the_tolerance(self):
        refined = self.approximation.with_tolerance()
        assert type(refined) is type(self.approximation)
        assert refined.tol < self.approximation.tol
        assert refined.with_tolerance(1.0).tol == refined.tol
        assert self.approximation.with_tolerance(1e-8).tol == 1e-8

    @pytest.mark.parametrize("tol", [0.0, -1.0, np.nan, np.inf])
    def test_impossible_tolerance_is_refused_by_name(self, tol):
        with pytest.raises(ValueError, match=rf"tol must be a number in \(0, inf\); got {tol}"):
            type(self.approximation)(tol=tol).check()

    def test_check_accepts_possible_settings(self):
        self.approximation.check()
        self.approximation.with_tolerance().check()


def check_gaussian_approximation(q):
    """Every verb of a `GaussianApproximation` against dense formulas."""
    n = len(q.weights)
    mean, covariance = dense(q)
    K, s = q.prior.K, np.sqrt(q.precision)
    B = np.eye(n) + s[:, None] * K * s
    smoothed = s[:, None] * np.linalg.inv(B) * s
    g = np.random.default_rng(0).standard_normal((n, 3))
    X_new = np.random.default_rng(1).uniform(size=(4, q.prior.covariance.X.shape[1]))
    cross = q.prior.covariance.cross(q.prior.theta, X_new)
    square = q.prior.covariance.square(q.prior.theta, X_new)
    assert_allclose(q.mean, mean, atol=1e-10)
    assert_allclose(q.marginal_variance, covariance.diagonal(), atol=1e-9)
    assert q.half_log_det_B == pytest.approx(0.5 * np.linalg.slogdet(B).logabsdet, abs=1e-10)
    folded = q.folded_smoothed_inverse()
    assert_allclose(folded + folded.T, smoothed, atol=1e-10)
    assert_array_equal(np.triu(folded, 1), 0.0)
    assert_allclose(q.solve_smoothed(g), smoothed @ g, atol=1e-10)
    assert_allclose(q.solve_smoothed(g[:, 0]), smoothed @ g[:, 0], atol=1e-10)
    expected = square - cross.T @ smoothed @ cross
    new_mean, var = q.conditional().predict(X_new)
    assert new_mean.shape == (4, 1)
    assert_allclose(new_mean[:, 0], cross.T @ q.weights, atol=1e-10)
    assert_allclose(var, expected.diagonal(), atol=1e-10)
    joint_mean, joint = q.conditional().predict_jointly(X_new)
    assert_allclose(joint_mean, new_mean, atol=1e-12)
    assert_allclose(joint, expected, atol=1e-10)
    restored = pickle.loads(pickle.dumps(q))
    assert type(restored) is type(q)
    # Nothing of order n squared travels, and what is of order n comes back as it was.
    assert {"prior", "sites"} <= set(vars(restored))
    assert set(vars(restored)) <= {"prior", "sites", "weights", "mean"}
    assert_array_equal(restored.mean, q.mean)


def leapfrog(root, step_size, n_steps, fewest_steps=None):
    """Trajectories of so many steps in the metric of a root (p, p)."""
    log_scale, fewest = float(np.log(step_size)), fewest_steps or n_steps
    dense = DenseRoot(np.asarray(root))
    return Trajectory(log_scale, max_steps=n_steps, fewest_steps=fewest, root=dense)


class OneByOne:
    """Mixin for planted bugs in moves that are made for several chains at once.

    Chains move, and thetas are evaluated, one after the other, by the method that is overridden.
    """

    def step_many(self, model, states, rngs):
        pairs = zip(states, rngs, strict=True)
        return [self.step_one(model, state, rng) for state, rng in pairs]

    def step_one(self, model, state, rng):
        return super().step_many(model, [state], [rng])[0]

    def evaluate_many(self, model, thetas, rngs, *retained):
        each = zip(thetas, rngs, *retained, strict=True)
        return [self.evaluate_one(model, *own) for own in each]

    def evaluate_one(self, model, theta, rng, *retained):
        return super().evaluate_many(model, [theta], [rng], *([keep] for keep in retained))[0]
