"""Models whose rows have equal inputs: three forms of the same data are one model.

Rows may be repeated, have a weight, or have it in several parts. Besides that, single inputs are
compared with integrals in one dimension, and pairs of them in two.
"""

import numpy as np
import pytest
from arviz_stats.base.array import array_stats
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal, norm

from skgpmcmc.approximations import EP, Exact, Laplace
from skgpmcmc.approximations.classwise import average_sites
from skgpmcmc.approximations.corrected import second_order_log_evidence
from skgpmcmc.estimators._rows import TrainingRows
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
from skgpmcmc.model import (
    ClasswiseGP,
    HyperPrior,
    LatentGP,
    Observations,
    make_covariance,
    smooth_kernel,
)
from skgpmcmc.prediction.covariance import draw_latent_jointly
from skgpmcmc.run.leave_one_out import GivenRows, leave_one_out
from skgpmcmc.run.records import Draws

from ...helpers import finite_difference, in_one_test, relative_error

KERNEL = smooth_kernel(2)
KERNEL_THETA = np.array([0.9, -0.7])

#: Eight inputs; eighteen rows that differ, and how often there is each.
_RNG = np.random.default_rng(0)
PLACES = _RNG.uniform(size=(8, 2))
PLACE = np.concatenate([np.arange(8), _RNG.integers(8, size=10)])
X = PLACES[PLACE]
TIMES = _RNG.integers(1, 4, 18)
OFFSET = _RNG.uniform(-0.5, 0.5, 18)
SIGNS = np.where(np.sin(5.0 * X.sum(axis=1)) + _RNG.normal(size=18) > 0.0, 1.0, -1.0)
AMOUNTS = _RNG.poisson(3.0, 18).astype(float)
NUMBERS = np.sin(5.0 * X.sum(axis=1)) + 0.5 * _RNG.normal(size=18)
LEVELS = _RNG.integers(3, size=18).astype(float)

#: Name: likelihood, targets, offset.
CASES = {
    "probit": (Probit(), SIGNS, None),
    "logit": (Logit(), SIGNS, None),
    "poisson": (Poisson(), AMOUNTS, OFFSET),
    "negative binomial": (NegativeBinomial(1.3), AMOUNTS, OFFSET),
    "gaussian": (Gaussian(0.6), NUMBERS, None),
    "gaussian, rows' variances": (
        Gaussian(0.6, row_variance=np.linspace(0.1, 0.9, 18)),
        NUMBERS,
        None,
    ),
    "student t": (StudentT(0.5, 4.0), NUMBERS, None),
    "volatility": (Volatility(), NUMBERS, None),
    "ordinal": (OrdinalProbit((-0.5, 0.6)), LEVELS, None),
}
QUADRATIC = [name for name, (likelihood, *_) in CASES.items() if likelihood.quadratic]
OTHERS = [name for name in CASES if name not in QUADRATIC]
LOG_CONCAVE = [name for name, (likelihood, *_) in CASES.items() if likelihood.log_concave]


def model_of(rows, likelihood, y, offset=None):
    """Model of training rows, for targets and offsets of all rows that were given."""
    offset = None if offset is None else offset[rows.chosen]
    likelihood = likelihood.of_rows(rows.chosen)
    observed = Observations(likelihood, y[rows.chosen], offset, rows.weight, rows.first)
    kind = ClasswiseGP if likelihood.n_functions > 1 else LatentGP
    return kind(make_covariance(KERNEL, rows.X), observed, HyperPrior((), {}))


def form(likelihood, y, offset, given, weight, apart):
    """Model of given rows, which are positions of the rows above; equal ones may stay apart."""
    likelihood = likelihood.of_rows(given)
    y, offset = y[given], None if offset is None else offset[given]
    columns = [y, likelihood.row_data(len(given)), *([] if offset is None else [offset])]
    columns += [np.arange(len(given))] if apart else []
    rows = TrainingRows.of(KERNEL, X[given], weight, *columns)
    model = model_of(rows, likelihood, y, offset)
    assert_array_equal(np.unique(model.covariance.X, axis=0), np.unique(PLACES, axis=0))
    return model


def forms_of(likelihood, y, offset=None):
    """The same data in several forms, by name."""
    rng = np.random.default_rng(1)
    every = np.arange(18)
    again = rng.permutation(np.repeat(every, TIMES))
    pieces = rng.permutation(np.repeat(every, 2))
    share = rng.uniform(0.1, 1.0, len(pieces))
    share = TIMES[pieces] * share / np.bincount(pieces, share)[pieces]
    ways = {
        "weights": (every, TIMES, False),
        "rows repeated": (again, None, False),
        "rows repeated, apart": (again, None, True),
        "weights split": (pieces, share, False),
        "weights split, apart": (pieces, share, True),
    }
    models = {name: form(likelihood, y, offset, *way) for name, way in ways.items()}
    assert len(models["rows repeated, apart"].observations) == TIMES.sum()
    assert len(models["weights split, apart"].observations) == 36
    columns = [X, y, likelihood.row_data(18), *([] if offset is None else [offset])]
    n_different = len(np.unique(np.column_stack(columns), axis=0))
    assert len(models["weights"].observations) == n_different < TIMES.sum()
    return models


def theta_of(model):
    return np.concatenate([KERNEL_THETA, model.start[2:]])


def summary(approximation, model, theta):
    """What an approximation finds: log evidence, mean, variances, gradient."""
    fit = approximation.fit(model, theta)
    of_classes = model.likelihood.n_functions > 1
    return (
        np.array([fit.log_evidence]),
        fit.q.mean,
        fit.q.row_covariances if of_classes else fit.q.marginal_variance,
        approximation.gradient(model, fit),
    )


def check_one_model(approximation, models, theta, rtol=1e-10):
    first, *others = models.values()
    expected = summary(approximation, first, theta)
    for name, model in zip(list(models)[1:], others, strict=True):
        assert_array_equal(model.covariance.X, first.covariance.X)
        for value, own in zip(expected, summary(approximation, model, theta), strict=True):
            assert_allclose(own, value, rtol=rtol, atol=rtol * np.abs(value).max(), err_msg=name)


# --- three forms of the same data -----------------------------------------------------------------


@in_one_test("name", list(CASES))
@in_one_test("approximation", [EP().with_tolerance(), Laplace().with_tolerance()], repr)
def test_all_forms_have_the_same_approximation(approximation, name):
    models = forms_of(*CASES[name])
    check_one_model(approximation, models, theta_of(models["weights"]))


@in_one_test("name", QUADRATIC)
def test_all_forms_have_the_same_exact_posterior(name):
    models = forms_of(*CASES[name])
    theta = theta_of(models["weights"])
    check_one_model(Exact(), models, theta)
    for approximation in (EP().with_tolerance(), Laplace().with_tolerance()):
        pair = (summary(way, models["weights"], theta) for way in (Exact(), approximation))
        for expected, value in zip(*pair, strict=True):
            assert relative_error(value, expected) < 1e-8


def test_all_forms_of_a_softmax_have_the_same_approximation():
    models = forms_of(Softmax(3), LEVELS)
    theta = theta_of(models["weights"])
    check_one_model(Laplace().with_tolerance(), models, theta)
    better = [
        average_sites(Laplace().fit(model, theta).q, model.observations, 3)
        for model in models.values()
    ]
    for q in better[1:]:
        assert_allclose(q.mean, better[0].mean, rtol=1e-10, atol=1e-10)
        assert_allclose(q.row_covariances, better[0].row_covariances, rtol=1e-10, atol=1e-10)
        assert q.half_log_det_B == pytest.approx(better[0].half_log_det_B, rel=1e-10)


# --- one latent value for each row ----------------------------------------------------------------


def one_for_each_row(likelihood, y, offset=None):
    """The model in which equal inputs have as many latent values as rows, and K is singular."""
    observed = Observations(likelihood, y, offset, TIMES.astype(float))
    kind = ClasswiseGP if likelihood.n_functions > 1 else LatentGP
    return kind(make_covariance(KERNEL, X), observed, HyperPrior((), {}))


def inputs_of(model):
    """Position among the model's inputs of that of each row of X."""
    return np.array([np.flatnonzero((x == model.covariance.X).all(axis=1))[0] for x in X])


def check_against_one_for_each_row(approximation, case, rtol):
    rows = one_for_each_row(*case)
    model = forms_of(*case)["weights"]
    theta = theta_of(model)
    of_rows, of_inputs = (approximation.fit(own, theta) for own in (rows, model))
    assert of_inputs.log_evidence == pytest.approx(of_rows.log_evidence, rel=rtol)
    gradients = (approximation.gradient(*pair) for pair in ((model, of_inputs), (rows, of_rows)))
    assert relative_error(*gradients) < 1e3 * rtol
    n_functions = model.likelihood.n_functions
    mean = of_inputs.q.mean.reshape(n_functions, -1)[:, inputs_of(model)].ravel()
    assert_allclose(mean, of_rows.q.mean, rtol=1e-6, atol=1e-7)


@in_one_test(
    ("approximation", "name"),
    [
        *((way, name) for name in QUADRATIC for way in (Exact(), Laplace().with_tolerance())),
        *((Laplace().with_tolerance(), name) for name in LOG_CONCAVE if name not in QUADRATIC),
    ],
)
def test_sites_of_inputs_give_the_fit_of_a_latent_value_for_each_row(approximation, name):
    """Mode and curvature are the same, whether rows or inputs have the sites."""
    rtol = 1e-9 if name in QUADRATIC else 1e-8
    check_against_one_for_each_row(approximation, CASES[name], rtol)


def test_softmax_of_inputs_gives_the_fit_of_a_latent_value_for_each_row():
    case = (Softmax(3), LEVELS)
    check_against_one_for_each_row(Laplace().with_tolerance(), case, 1e-8)
    models = forms_of(*case)["weights"], one_for_each_row(*case)
    of_inputs, of_rows = (
        average_sites(Laplace().fit(own, KERNEL_THETA).q, own.observations, 2) for own in models
    )
    inputs = inputs_of(models[0])
    mean = of_inputs.mean.reshape(3, -1)[:, inputs].ravel()
    assert_allclose(mean, of_rows.mean, rtol=1e-6, atol=1e-7)
    covariances = of_inputs.row_covariances[inputs]
    assert_allclose(covariances, of_rows.row_covariances, rtol=1e-5, atol=1e-6)
    assert of_inputs.half_log_det_B == pytest.approx(of_rows.half_log_det_B, rel=1e-8)


def test_evidence_of_gaussian_rows_equals_the_density_of_their_targets():
    """Rows of weight one, without the package's matrices."""
    rows = TrainingRows.of(KERNEL, X, None, NUMBERS)
    model = model_of(rows, Gaussian(0.6), NUMBERS)
    theta = theta_of(model)
    K = KERNEL.clone_with_theta(KERNEL_THETA)(X)
    expected = multivariate_normal(np.zeros(18), K + 0.36 * np.eye(18)).logpdf(NUMBERS)
    for approximation in (Exact(), EP().with_tolerance(), Laplace().with_tolerance()):
        assert approximation.fit(model, theta).log_evidence == pytest.approx(expected, rel=1e-10)


# --- gradients ------------------------------------------------------------------------------------


@in_one_test(
    ("approximation", "case", "form"),
    [
        *((EP(), CASES[name], "weights") for name in LOG_CONCAVE),
        *((Laplace(), CASES[name], "weights") for name in LOG_CONCAVE),
        *((Exact(), CASES[name], "rows repeated, apart") for name in QUADRATIC),
        (Laplace(), (Softmax(3), LEVELS), "rows repeated, apart"),
    ],
)
def test_gradients_with_repeated_rows_equal_finite_differences(approximation, case, form):
    check_gradient(approximation.with_tolerance(), forms_of(*case)[form])


def check_gradient(approximation, model):
    theta = theta_of(model)
    fit = approximation.fit(model, theta)
    assert fit.converged
    expected = finite_difference(lambda t: approximation.fit(model, t).log_evidence, theta)
    assert relative_error(approximation.gradient(model, fit), expected) < 1e-6


def test_laplace_gradient_with_student_t_noise_equals_finite_differences():
    """Some inputs have rows so far apart that their product is not concave at the mode."""
    y = np.where(np.arange(18) % 5 == 0, NUMBERS + 6.0, NUMBERS)
    model = forms_of(StudentT(0.5, 4.0), y)["rows repeated, apart"]
    theta = theta_of(model)
    mode = Laplace().with_tolerance().fit(model, theta).q.mean
    concave = model.observations_at(theta).derivatives(mode).second < 0.0
    assert 0 < concave.sum() < len(concave)
    check_gradient(Laplace().with_tolerance(), model)


# --- expectation propagation ----------------------------------------------------------------------


def trials(likelihood, counts):
    """Model of eight inputs, each with so many rows of -1 and of +1; (8, 2)."""
    counts = np.asarray(counts, dtype=float)
    X, y = np.repeat(PLACES, 2, axis=0), np.tile([-1.0, 1.0], 8)
    rows = TrainingRows.of(KERNEL, X, counts.ravel(), y)
    return model_of(rows, likelihood, y)


COUNTS = {
    "96 and 4": np.tile([96.0, 4.0], (8, 1)),
    "4 to 96": np.column_stack([np.linspace(4.0, 96.0, 8), np.linspace(96.0, 4.0, 8)]),
    "5000": np.tile([3200.0, 1800.0], (8, 1)),
    "5000, alternating": np.tile([[3000.0, 2000.0], [1200.0, 3800.0]], (4, 1)),
    "5000 and few": np.tile([[4999.0, 1.0], [1.0, 2.0]], (4, 1)),
}


@in_one_test("likelihood", [Probit(), Logit()])
@in_one_test("counts", COUNTS.values(), COUNTS)
@in_one_test("theta", [(0.0, 0.0), (0.9, -0.7), (4.0, 1.0), (4.0, -3.0)])
def test_ep_of_many_trials_needs_few_sweeps(likelihood, counts, theta):
    model = trials(likelihood, counts)
    # Beyond a tolerance of 1e-6, rounding is what moves the sites of 5000 trials.
    tight = EP().with_tolerance() if counts.sum(axis=1).max() <= 100.0 else EP(tol=1e-6)
    for approximation in (EP(), tight):
        fit = approximation.fit(model, np.array(theta))
        assert fit.converged
        assert fit.n_iterations < 30


def integral(likelihood, y, offset, weight, var):
    """Log integral over f ~ N(0, var) of rows that are taken one after the other."""
    sd, rows = np.sqrt(var), list(zip(y, offset, weight, strict=True))
    low, high, width = -12.0 * sd - 10.0, 12.0 * sd + 10.0, np.inf
    while high - low < 0.7 * width:
        width = high - low
        f = np.linspace(low, high, 4001)
        with np.errstate(over="ignore"):
            of_rows = sum(w * likelihood.log_prob(np.array([t]), f + o) for t, o, w in rows)
        log_height = of_rows + norm.logpdf(f, 0.0, sd)
        inside = np.flatnonzero(log_height > log_height.max() - 50.0)
        low, high = f[max(inside[0] - 1, 0)], f[min(inside[-1] + 1, len(f) - 1)]
    top = log_height.max()
    return top + np.log(np.exp(log_height - top).sum() * (f[1] - f[0]))


ONE_PLACE = {name: CASES[name] for name in CASES if "rows'" not in name}


WEIGHTS = np.linspace(0.2, 7.0, 18)
TRIALS = [
    (likelihood, np.array([-1.0, 1.0]), None, counts)
    for likelihood in (Probit(), Logit())
    for counts in ([96.0, 4.0], [3200.0, 1800.0], [5000.0, 0.0], [7e5, 3e5])
]


@in_one_test(("likelihood", "y", "offset", "weight"),
             [*((*case, WEIGHTS) for case in ONE_PLACE.values()), *TRIALS])  # fmt: skip
@in_one_test("log_constant", [-2.0, 0.9, 4.0])
def test_evidence_of_one_input_with_many_rows_equals_an_integral(
    likelihood, y, offset, weight, log_constant
):
    ones = np.tile(PLACES[:1], (len(y), 1))
    columns = [y] if offset is None else [y, offset]
    rows = TrainingRows.of(KERNEL, ones, weight, *columns)
    model = model_of(rows, likelihood, y, offset)
    theta = np.concatenate([[log_constant, 0.0], model.start[2:]])
    fit = EP().with_tolerance().fit(model, theta)
    offset = np.zeros(len(y)) if offset is None else offset
    expected = integral(likelihood, y, offset, weight, np.exp(log_constant))
    assert fit.log_evidence == pytest.approx(expected, rel=1e-9)
    if len(y) == 18:
        assert second_order_log_evidence(model, theta) == pytest.approx(expected, rel=1e-9)


@in_one_test("name", ["probit", "logit", "poisson", "negative binomial", "student t", "ordinal"])
def test_ep_of_two_inputs_with_several_rows_is_near_an_integral(name):
    """EP is near, and its correction nearer."""
    likelihood, y, offset = CASES[name]
    two = np.flatnonzero(PLACE < 2)
    columns = [y[two]] if offset is None else [y[two], offset[two]]
    rows = TrainingRows.of(KERNEL, X[two], None, *columns)
    model = model_of(rows, likelihood, y[two], None if offset is None else offset[two])
    assert model.n_inputs == 2
    theta = theta_of(model)
    nodes = np.linspace(-9.0, 9.0, 241)
    v = np.stack(np.meshgrid(nodes, nodes)).reshape(2, -1)
    f = np.linalg.cholesky(model.prior_at(theta).K) @ v
    log_height = model.observations.totals(f) - 0.5 * (v**2).sum(axis=0)
    top = log_height.max()
    step = nodes[1] - nodes[0]
    exact = top + np.log(np.exp(log_height - top).sum() * step**2 / (2.0 * np.pi))
    error = abs(EP().with_tolerance().fit(model, theta).log_evidence - exact)
    assert error < 0.02
    assert abs(second_order_log_evidence(model, theta) - exact) < 0.5 * error


# --- leave one out --------------------------------------------------------------------------------


def gaussian_draws(model, theta, seed):
    """Independent draws from the exact posterior of f, in two chains."""
    q = Exact().fit(model, theta).q
    f = q.sample(np.random.default_rng(seed), 800).f.T.reshape(2, 400, -1)
    return Draws(np.tile(theta, (2, 400, 1)), f, False, [], None)


#: Much, that no row has all the influence.
NOISE = 2.0


class TestLeaveOneOut:
    """The targets of one input, one of them three times or with a weight of three."""

    y = np.array([0.4, -0.3, 0.4, 0.4, 1.1])
    X = PLACES[[0, 0, 0, 0, 1]]
    theta = np.concatenate([KERNEL_THETA, [np.log(NOISE)]])

    def of(self, X, y, weight=None):
        """Model, its draws, and the given rows."""
        rows = TrainingRows.of(KERNEL, X, weight, y)
        model = model_of(rows, Gaussian(NOISE), y)
        given = GivenRows(rows.row_of[rows.kept], rows.given_weight[rows.kept])
        return model, gaussian_draws(model, self.theta, 3), given

    def repeated(self):
        return self.of(self.X, self.y)

    def weighted(self):
        return self.of(self.X[[0, 1, 4]], self.y[[0, 1, 4]], np.array([3.0, 1.0, 1.0]))

    def evidence(self, counts):
        """Log evidence of the three targets, each so many times."""
        rows = np.repeat([0, 1, 4], counts)
        K = KERNEL.clone_with_theta(KERNEL_THETA)(self.X[rows])
        noise = NOISE**2 * np.eye(len(rows))
        return multivariate_normal(np.zeros(len(rows)), K + noise).logpdf(self.y[rows])

    def without_each(self):
        """What leaving out one of equal rows, or a weighted row, changes in the log evidence."""
        whole, one = self.evidence([3, 1, 1]), self.evidence([2, 1, 1])
        second, third = self.evidence([3, 0, 1]), self.evidence([3, 1, 0])
        of_rows = np.array([one, second, one, one, third])
        return whole - of_rows, whole - np.array([self.evidence([0, 1, 1]), second, third])

    def test_one_of_equal_rows_or_a_whole_weighted_row_is_left_out(self):
        of_rows, of_weighted = self.without_each()
        result = leave_one_out(*self.repeated())
        assert_allclose(result.elpd_i, of_rows, atol=0.08)
        assert result.elpd_i[0] == result.elpd_i[2] == result.elpd_i[3]
        assert result.elpd == pytest.approx(result.elpd_i.sum())
        result = leave_one_out(*self.weighted())
        assert_allclose(result.elpd_i, of_weighted, atol=0.16)
        assert len(result.elpd_i) == len(result.pareto_k) == 3

    def test_integrated_leave_one_out_is_exact_at_one_theta(self):
        """Theta is the same in all draws, so that weights are equal."""
        of_rows, of_weighted = self.without_each()
        repeated = leave_one_out(*self.repeated(), method="integrated")
        assert_allclose(repeated.elpd_i, of_rows, rtol=1e-8)
        model, draws, given = self.weighted()
        for shift in (0.0, 0.7):
            result = leave_one_out(model, draws, given, shift, method="integrated")
            assert_allclose(result.elpd_i, of_weighted + shift * given.weight, rtol=1e-8)

    def test_psis_agrees_with_arviz(self):
        model, draws, given = self.repeated()
        _, _, weighted = self.weighted()
        inputs = {tuple(x): i for i, x in enumerate(model.covariance.X)}
        f = draws.f[:, :, [inputs[tuple(x)] for x in self.X]]
        log_lik = norm.logpdf(self.y, f, NOISE)
        cases = (
            (given, log_lik),
            (weighted, log_lik[:, :, [0, 1, 4]] * np.array([3.0, 1.0, 1.0])),
        )
        for shift in (0.0, 0.7):
            for own, values in cases:
                result = leave_one_out(model, draws, own, shift)
                for i, elpd in enumerate(result.elpd_i):
                    plain = array_stats.loo(values[..., i], chain_axis=0, draw_axis=1, r_eff=1.0)[0]
                    # The relative efficiency is estimated, and enters the smoothing alone.
                    assert elpd == pytest.approx(plain + shift * own.weight[i], abs=0.02)

    def test_parts_of_a_weight_are_left_out_one_by_one(self):
        X, y = self.X[[0, 0, 1, 4]], self.y[[0, 0, 1, 4]]
        model, draws, given = self.of(X, y, np.array([1.0, 2.0, 1.0, 1.0]))
        assert_array_equal(model.observations.weight, self.weighted()[0].observations.weight)
        result = leave_one_out(model, draws, given)
        one, three = leave_one_out(*self.repeated()), leave_one_out(*self.weighted())
        assert result.elpd_i[0] == pytest.approx(one.elpd_i[0], abs=0.02)
        assert three.elpd_i[0] < result.elpd_i[1] < result.elpd_i[0]


# --- draws at other inputs ------------------------------------------------------------------------


@in_one_test("n_functions", [1, 3])
def test_draws_at_the_inputs_of_the_model_are_returned_unchanged(n_functions):
    likelihood = Probit() if n_functions == 1 else Softmax(3)
    model = forms_of(likelihood, SIGNS if n_functions == 1 else LEVELS)["weights"]
    theta = np.repeat([KERNEL_THETA, KERNEL_THETA + 0.3], 3, axis=0)
    f = np.stack([model.prior_at(t).sample(np.random.default_rng(i)) for i, t in enumerate(theta)])
    found = draw_latent_jointly(model, theta, f, model.covariance.X[[4, 0]], seed=1)
    assert found.shape == (6, n_functions, 2)
    assert_allclose(found, f.reshape(6, n_functions, 8)[:, :, [4, 0]], atol=1e-4)


@in_one_test("n_functions", [1, 3])
def test_draws_elsewhere_have_the_moments_given_f(n_functions):
    likelihood = Probit() if n_functions == 1 else Softmax(3)
    model = forms_of(likelihood, SIGNS if n_functions == 1 else LEVELS)["weights"]
    f = model.prior_at(KERNEL_THETA).sample(np.random.default_rng(0))
    new = np.array([[2.0, 2.0], [2.1, 2.2]])
    n = 4000
    found = draw_latent_jointly(
        model, np.tile(KERNEL_THETA, (n, 1)), np.tile(f, (n, 1)), new, seed=2
    )
    kernel, own = KERNEL.clone_with_theta(KERNEL_THETA), model.covariance.X
    gain = np.linalg.solve(kernel(own), kernel(own, new)).T
    covariance = kernel(new) - gain @ kernel(own, new)
    mean = gain @ f.reshape(n_functions, 8).T
    for c in range(n_functions):
        error = np.sqrt(covariance.diagonal() / n)
        assert np.all(np.abs(found[:, c].mean(axis=0) - mean[:, c]) < 4.0 * error)
        scale = np.sqrt(np.outer(*[covariance.diagonal()] * 2))
        assert np.all(np.abs(np.cov(found[:, c].T) - covariance) < 4.0 * 1.5 * scale / np.sqrt(n))
