"""Several rows for one input: sums over rows, and integrals of products of rows.

References take one row after the other from the likelihood's `log_prob` and `derivatives`, which
have tests of their own, and integrals are trapezoidal sums over the whole of the integrand.
"""

from dataclasses import fields, replace
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

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
from skgpmcmc.model import Observations

from ...helpers import every_pair, in_one_test

#: Rows of each of six inputs.
COUNTS = np.array([1, 3, 2, 1, 4, 1])
N, N_ROWS = len(COUNTS), COUNTS.sum()
FIRST = np.cumsum(COUNTS) - COUNTS
INPUT = np.repeat(np.arange(N), COUNTS)
#: The first and the fourth input have one row of weight one, the last one a weighted row.
_RNG = np.random.default_rng(0)
WEIGHT = np.exp(_RNG.uniform(np.log(0.01), np.log(50.0), N_ROWS))
WEIGHT[FIRST[[0, 3]]] = 1.0
OFFSET = _RNG.uniform(-1.0, 1.0, N_ROWS)
F = _RNG.uniform(-2.0, 2.0, N)
SIGNS = _RNG.choice([-1.0, 1.0], N_ROWS)
AMOUNTS = _RNG.poisson(4.0, N_ROWS).astype(float)
NUMBERS = _RNG.normal(size=N_ROWS) * 2.0
LEVELS = _RNG.integers(4, size=N_ROWS).astype(float)
ROW_VARIANCE = _RNG.uniform(0.1, 2.0, N_ROWS)

#: Name, likelihood, targets.
CASES = [
    ("probit", Probit(), SIGNS),
    ("logit", Logit(), SIGNS),
    ("poisson", Poisson(), AMOUNTS),
    ("negative binomial", NegativeBinomial(1.3), AMOUNTS),
    ("gaussian", Gaussian(0.7), NUMBERS),
    ("gaussian, rows' variances", Gaussian(0.7, row_variance=ROW_VARIANCE), NUMBERS),
    ("student t", StudentT(0.8, 4.0), NUMBERS),
    ("volatility", Volatility(), NUMBERS),
    ("ordinal", OrdinalProbit((-1.0, 0.3, 1.1), 0.8), LEVELS),
]
NAMES = [name for name, *_ in CASES]

every_likelihood = in_one_test(
    ("likelihood", "y"), [(likelihood, y) for _, likelihood, y in CASES], NAMES
)
every_form = in_one_test(
    ("offset", "weight"),
    list(product([None, OFFSET], [None, WEIGHT])),
    ["plain", "weights", "offsets", "offsets and weights"],
)


def row_by_row(likelihood, y, offset, weight):
    """Likelihood, target, offset, weight and input of every row."""
    offset = np.zeros(len(y)) if offset is None else offset
    weight = np.ones(len(y)) if weight is None else weight
    one = [likelihood.of_rows(np.array([j])) for j in range(len(y))]
    return list(zip(one, y, offset, weight, INPUT, strict=True))


def close(value, parts, rtol=1e-12):
    """Whether a value is the sum of its parts, up to a share of their sizes."""
    parts = np.asarray(parts)
    assert np.shape(value) == parts.shape[1:]
    scale = np.abs(parts).sum(axis=0)
    error = np.abs(value - parts.sum(axis=0))
    assert np.all(error <= rtol * scale), f"off by {np.max(error / scale)}"


def placed(values, i, shape=(N,)):
    """Zeros, but for the values of an input."""
    table = np.zeros(shape)
    table[..., i] = np.reshape(values, shape[:-1])
    return table


# --- sums over rows -------------------------------------------------------------------------------


@every_likelihood
@every_form
def test_derivatives_and_log_prob_are_sums_over_the_rows_of_an_input(likelihood, y, offset, weight):
    observed = Observations(likelihood, y, offset, weight, FIRST)
    rows = row_by_row(likelihood, y, offset, weight)
    at = [(one, np.array([t]), F[[i]] + o, w, i) for one, t, o, w, i in rows]
    log_prob = [w * one.log_prob(t, f)[0] for one, t, f, w, _ in at]
    assert_allclose(observed.log_prob(F), log_prob, rtol=1e-13, atol=1e-14)
    close(observed.total(F), log_prob)
    for part in range(3):
        close(
            observed.derivatives(F)[part],
            [placed(w * one.derivatives(t, f)[part], i) for one, t, f, w, i in at],
        )
    slope, precision = observed.slope_and_precision(F)
    close(slope, [placed(w * one.derivatives(t, f)[0], i) for one, t, f, w, i in at])
    second = [placed(w * one.derivatives(t, f)[1], i) for one, t, f, w, i in at]
    scale = np.abs(second).sum(axis=0).max()
    assert_allclose(precision, np.maximum(-np.sum(second, axis=0), 0.0), atol=1e-12 * scale)
    for part in range(2):
        close(
            observed.curvature(F)[part],
            [placed(w * one.curvature(t, f)[part], i) for one, t, f, w, i in at],
        )
    close(
        observed.fisher_information(F),
        [placed(w * one.fisher_information(f), i) for one, t, f, w, i in at],
    )
    shape = (len(likelihood.parameters), N)
    for part in range(3 if likelihood.parameters else 0):
        close(
            observed.parameter_derivatives(F)[part],
            [placed(w * one.parameter_derivatives(t, f)[part], i, shape) for one, t, f, w, i in at],
        )


@every_likelihood
@every_form
def test_totals_of_several_columns_of_f_equal_those_of_each(likelihood, y, offset, weight):
    observed = Observations(likelihood, y, offset, weight, FIRST)
    columns = np.column_stack([F, F[::-1], np.zeros(N), 1.0 + 0.5 * F])
    each = [observed.log_prob(f) for f in columns.T]
    assert_allclose(observed.log_prob(columns), np.transpose(each), rtol=1e-13, atol=1e-14)
    totals = [observed.total(f) for f in columns.T]
    assert_allclose(observed.totals(columns), totals, rtol=1e-13)
    for whole, *parts in zip(
        observed.derivatives(columns),
        *(observed.derivatives(f) for f in columns.T),
        strict=True,
    ):
        assert_allclose(whole, np.transpose(parts), rtol=1e-12, atol=1e-12 * np.abs(whole).max())


@every_likelihood
@every_form
def test_fixed_likelihoods_have_no_parameter_derivatives(likelihood, y, offset, weight):
    fixed = replace(likelihood, fixed=True) if likelihood.parameters else likelihood
    observed = Observations(fixed, y, offset, weight, FIRST)
    assert [part.shape for part in observed.parameter_derivatives(F)] == [(0, N)] * 3
    assert observed.tilted_parameter_gradient(F, np.ones(N)).shape == (0, N)


@every_likelihood
def test_targets_are_sampled_for_every_row(likelihood, y):
    observed = Observations(likelihood, y, OFFSET, WEIGHT, FIRST)
    drawn = observed.sample(F, np.random.default_rng(1))
    expected = likelihood.sample(F[INPUT] + OFFSET, np.random.default_rng(1))
    assert_array_equal(drawn, expected)


class TestSoftmax:
    """Latent values are stacked class after class, and rows are not."""

    likelihood = Softmax(3)
    y = LEVELS % 3.0
    f = np.random.default_rng(1).normal(size=3 * N)

    def of_rows(self, weight):
        """Each row's weight, input and probabilities of the classes."""
        table = self.f.reshape(3, N)
        p = np.exp(table) / np.exp(table).sum(axis=0)
        weight = np.ones(N_ROWS) if weight is None else weight
        return [(w, int(t), i, p[:, i]) for w, t, i in zip(weight, self.y, INPUT, strict=True)]

    def table(self, values, i):
        """The values of the classes at an input, in the layout of f."""
        table = np.zeros((3, N))
        table[:, i] = values
        return table.ravel()

    @in_one_test("weight", [None, WEIGHT])
    def test_softmax_log_prob_is_the_sum_over_rows(self, weight):
        observed, rows = self.observed(weight), self.of_rows(weight)
        close(observed.total(self.f), [w * np.log(p[t]) for w, t, _, p in rows])
        columns = np.column_stack([self.f, 0.3 * self.f])
        close(observed.totals(columns)[0], [w * np.log(p[t]) for w, t, _, p in rows])
        first, second, third = observed.derivatives(self.f)
        close(first, [self.table(w * (np.eye(3)[t] - p), i) for w, t, i, p in rows])
        close(second, [self.table(-w * p * (1.0 - p), i) for w, t, i, p in rows])
        close(
            third,
            [self.table(-w * p * (1.0 - p) * (1.0 - 2.0 * p), i) for w, t, i, p in rows],
        )
        close(
            observed.fisher_information(self.f),
            [self.table(w * p * (1.0 - p), i) for w, t, i, p in rows],
        )
        slope, precision = observed.slope_and_precision(self.f)
        assert_allclose(slope, first, rtol=1e-12, atol=1e-12)
        # The precision of coupled sites is that of the probabilities.
        close(precision, [self.table(w * p, i) for w, t, i, p in rows])

    def test_softmax_targets_are_sampled_for_every_row(self):
        drawn = self.observed(WEIGHT).sample(self.f, np.random.default_rng(1))
        at_rows = self.f.reshape(3, N)[:, INPUT].ravel()
        assert_array_equal(drawn, self.likelihood.sample(at_rows, np.random.default_rng(1)))

    def observed(self, weight):
        return Observations(self.likelihood, self.y, None, weight, FIRST)


# --- integrals of products of rows ----------------------------------------------------------------

CAVITIES = list(product([-3.0, 0.0, 5.0], [0.1, 1.0, 30.0]))


class Integral:
    """The product of all rows times N(f; mean, var) on a grid of all that is not negligible."""

    def __init__(self, rows, mean, sd):
        def height(f):
            """Log of the integrand; overflow is where nothing is left."""
            with np.errstate(over="ignore", invalid="ignore"):
                parts = [w * one.log_prob(np.array([t]), f + o) for one, t, o, w in rows]
                total = sum(parts) - 0.5 * ((f - mean) / sd) ** 2
            return np.where(np.isnan(total), -np.inf, total)

        low, high, width = mean - 60.0 * sd - 60.0, mean + 60.0 * sd + 60.0, np.inf
        while high - low < 0.7 * width:
            width = high - low
            grid = np.linspace(low, high, 4001)
            values = height(grid)
            inside = np.flatnonzero(values > values.max() - 50.0)
            low, high = grid[max(inside[0] - 1, 0)], grid[min(inside[-1] + 1, len(grid) - 1)]
        self.f = np.linspace(low, high, 8001)
        log_height = height(self.f)
        top = log_height.max()
        mass = np.exp(log_height - top).sum()
        self.share = np.exp(log_height - top) / mass
        step = self.f[1] - self.f[0]
        self.log_z = top + np.log(mass * step) - 0.5 * np.log(2.0 * np.pi) - np.log(sd)
        center = self.average(self.f - mean)
        self.mean = mean + center
        self.sd = np.sqrt(self.average((self.f - self.mean) ** 2))
        self.alpha = center / sd**2
        self.beta = (1.0 - self.sd**2 / sd**2) / sd**2

    def average(self, values):
        return (self.share * values).sum()


def one_input(likelihood, y, weight, offset, n_times):
    """So many inputs with the same rows, and these rows for `Integral`."""
    y = np.asarray(y, dtype=float)
    weight = np.asarray(weight, dtype=float)
    offset = np.zeros(len(y)) if offset is None else np.asarray(offset, dtype=float)
    tiled = (np.tile(values, n_times) for values in (y, offset, weight))
    observed = Observations(likelihood, *tiled, len(y) * np.arange(n_times))
    return observed, list(zip([likelihood] * len(y), y, offset, weight, strict=True))


def check_integrals(likelihood, y, weight, offset=None, cavities=CAVITIES):
    """Compare normalizers to 1e-8, and all else to 1e-6, with `Integral`."""
    observed, rows = one_input(likelihood, y, weight, offset, len(cavities))
    mean, sd = np.transpose(cavities)
    expected = [Integral(rows, *cavity) for cavity in cavities]
    moments = observed.tilted_moments(mean, sd**2)
    assert_allclose(moments.log_z, [e.log_z for e in expected], rtol=1e-8)
    # Differences in the reference are good to some 1e-13 of the cavity.
    for e, alpha, beta, s in zip(expected, moments.alpha, moments.beta, sd, strict=True):
        assert alpha == pytest.approx(e.alpha, rel=1e-6, abs=1e-13 / s)
        assert beta == pytest.approx(e.beta, rel=1e-6, abs=1e-13 / s**2)
    center, scale = (np.array([getattr(e, name) for e in expected]) for name in ("mean", "sd"))
    center = center + 0.3 * scale
    powers = observed.tilted_powers((mean, sd**2), center, scale, 4)
    for e, own, c, s in zip(expected, powers.T, center, scale, strict=True):
        z = (e.f - c) / s
        for k, power in enumerate(own, start=1):
            assert power == pytest.approx(e.average(z**k), abs=1e-6 * e.average(np.abs(z) ** k))
    gradient = observed.tilted_parameter_gradient(mean, sd**2)
    assert gradient.shape == (len(likelihood.parameters), len(cavities))
    for e, own in zip(expected, gradient.T, strict=True):
        parts = [
            w * one.parameter_derivatives(np.array([t]), e.f + o).log_prob for one, t, o, w in rows
        ]
        sizes = sum(e.average(np.abs(part)) for part in parts) if len(own) else 0.0
        by_grid = np.array([e.average(values) for values in sum(parts)])
        assert np.all(np.abs(own - by_grid) <= 1e-6 * sizes)


#: Likelihood, and the targets of three rows that are not of one opinion.
THREE = {
    "probit": (Probit(), [1.0, 1.0, -1.0]),
    "logit": (Logit(), [1.0, 1.0, -1.0]),
    "poisson": (Poisson(), [0.0, 3.0, 40.0]),
    "negative binomial": (NegativeBinomial(0.7), [0.0, 3.0, 40.0]),
    "gaussian": (Gaussian(0.5), [0.0, 0.3, -4.0]),
    "volatility": (Volatility(), [0.01, 0.3, -4.0]),
    "volatility, a zero": (Volatility(), [0.0, 0.3, -4.0]),
    "ordinal": (OrdinalProbit((-1.0, 0.2, 1.5), 0.6), [0.0, 1.0, 3.0]),
}
SEVERAL_WEIGHTS = [
    [1.0, 1.0, 1.0],
    [0.01, 0.02, 0.01],
    [0.03, 48.0, 7.0],
    [7e5, 3e5, 1.0],
    [1.0, 1.0, 1e6],
]


@in_one_test(
    ("name", "weight", "offset"), every_pair([*THREE], SEVERAL_WEIGHTS, [None, [-1.0, 0.5, 3.0]])
)
def test_tilted_integrals_of_log_concave_rows_agree_with_quadrature(name, weight, offset):
    check_integrals(*THREE[name], weight, offset)


def test_tilted_integrals_of_rows_with_distant_bends_agree_with_quadrature():
    """Two rows of one input, between whose bends there are ten or a hundred standard deviations."""
    for cavities in ([(-3.0, 1.0), (0.0, 10.0)], [(4.0, 0.1)]):
        check_integrals(Logit(), [1.0, -1.0], [1.0, 2.0], [-20.0, 30.0], cavities)
        check_integrals(Poisson(), [0.0, 1e6], [1.0, 1.0], [-9.0, 4.0], cavities)
        check_integrals(Volatility(), [1e-9, 1e3], [3.0, 1.0], None, cavities)
    # Beside the place of a row, its noise is too narrow to be seen.
    sharp = OrdinalProbit((-0.1, 0.0), 0.01)
    check_integrals(sharp, [0.0, 1.0, 2.0], [1.0, 1.0, 2.0], [-0.4, 0.8, 1.5], [(0.0, 1.0)])
    check_integrals(StudentT(0.01, 4.0), [3.0, 3.1], [0.3, 0.2], [4.0, 2.5], [(0.0, 1.0)])


#: Rows of Student-t noise that disagree.
DISAGREEING = [-5.0, 0.0, 6.0]
T_WEIGHTS = [[1.0, 1.0, 1.0], [0.01, 0.02, 0.01], [1.0, 40.0, 1000.0], [24.0, 31.0, 42.0]]


@in_one_test("weight", [*T_WEIGHTS, [7e5, 3e5, 1.0], [1.0, 1.0, 1e6]])
@in_one_test("offset", [None, [-1.0, 0.5, 3.0]])
def test_tilted_integrals_of_student_t_rows_agree_with_quadrature(weight, offset):
    """Many rows together move f by more than ten standard deviations of a narrow cavity."""
    resolved = [cavity for cavity in CAVITIES if cavity[1] >= 1.0 or weight in T_WEIGHTS]
    check_integrals(StudentT(0.5, 4.0), DISAGREEING, weight, offset, resolved)


def test_tilted_integral_of_forty_student_t_rows_agrees_with_quadrature():
    y = 2.0 + np.linspace(-0.5, 0.5, 40)
    check_integrals(StudentT(0.1, 4.0), y, np.ones(40), None, [(0.0, 0.1)])


def values_for_each_row(likelihood, y, offset):
    """How many values of the log density of one row the moments of one input take."""
    n_values = []

    class Counted(type(likelihood)):
        def log_prob(self, y, f):
            n_values.append(np.broadcast(y, f).size)
            return super().log_prob(y, f)

    counted = Counted(*(getattr(likelihood, field.name) for field in fields(likelihood)))
    observed = Observations(counted, y, offset, None, np.array([0]))
    observed.tilted_moments(np.zeros(1), np.ones(1))
    return sum(n_values) / len(y)


@in_one_test(
    ("likelihood", "targets"),
    [
        (Logit(), [-1.0, 1.0]),
        (Poisson(), [0.0, 3.0, 7.0]),
        (NegativeBinomial(2.0), [0.0, 3.0, 7.0]),
        (Volatility(), [0.1, -0.5, 2.0]),
        (StudentT(0.5, 4.0), [-0.9, 0.1, 0.8]),
    ],
)
def test_number_of_nodes_does_not_grow_with_the_number_of_rows(likelihood, targets):
    """So that its cost goes with the number of rows, not with the square of it."""
    rng = np.random.default_rng(4)
    few, many = (
        values_for_each_row(likelihood, np.resize(targets, n) * 1.0, rng.uniform(-1.0, 1.0, n))
        for n in (6, 60)
    )
    assert many < 2.0 * few


# --- weights are numbers of rows ------------------------------------------------------------------

#: Likelihoods with rows of whole weights, and the names of what they are asked for.
MEAN, VAR = np.linspace(-1.5, 2.0, N), np.geomspace(0.05, 5.0, N)


def everything(observed):
    """All that is asked of observations by input, at F and under the cavities MEAN and VAR."""
    center, scale = MEAN + 0.1, np.sqrt(VAR)
    parameters = observed.likelihood.parameters
    return {
        "total": np.array([observed.total(F)]),
        "derivatives": np.stack(observed.derivatives(F)),
        "slope_and_precision": np.stack(observed.slope_and_precision(F)),
        "curvature": np.stack(observed.curvature(F)),
        "fisher_information": observed.fisher_information(F),
        "parameter_derivatives": np.stack(observed.parameter_derivatives(F) if parameters else [F]),
        "tilted_moments": np.stack(observed.tilted_moments(MEAN, VAR)),
        "tilted_parameter_gradient": observed.tilted_parameter_gradient(MEAN, VAR),
        "tilted_powers": observed.tilted_powers((MEAN, VAR), center, scale, 4),
    }


def check_same(one, other, rtol=1e-10):
    expected = everything(one)
    for name, values in everything(other).items():
        scale = np.abs(expected[name]).max(initial=0.0)
        assert_allclose(values, expected[name], rtol=rtol, atol=rtol * scale, err_msg=name)


def without_row_variance(likelihood):
    """The likelihood whose powers can be asked for."""
    return (
        replace(likelihood, row_variance=None) if isinstance(likelihood, Gaussian) else likelihood
    )


@every_likelihood
@in_one_test("offset", [None, OFFSET])
@in_one_test("split", [False, True])
def test_weights_equal_numbers_of_rows_and_may_be_split(likelihood, y, offset, split):
    rng = np.random.default_rng(2)
    times = rng.integers(1, 6, N_ROWS)
    likelihood, rows = without_row_variance(likelihood), np.repeat(np.arange(N_ROWS), times)
    weight, share = times.astype(float), None
    if split:
        weight, share = WEIGHT, rng.uniform(0.1, 1.0, len(rows))
        share *= (WEIGHT / np.bincount(rows, share))[rows]
    counts = np.add.reduceat(times, FIRST)
    more_rows = Observations(
        likelihood,
        y[rows],
        None if offset is None else offset[rows],
        share,
        np.cumsum(counts) - counts,
    )
    check_same(Observations(likelihood, y, offset, weight, FIRST), more_rows)


@every_likelihood
def test_single_weighted_rows_need_no_first(likelihood, y):
    likelihood = without_row_variance(likelihood)
    y, offset, weight = y[:N], OFFSET[:N], 1.0 + WEIGHT[:N]
    alone = Observations(likelihood, y, offset, weight)
    halves = Observations(
        likelihood, *(np.repeat(a, 2) for a in (y, offset, 0.5 * weight)), 2 * np.arange(N)
    )
    check_same(alone, halves)


@every_likelihood
def test_first_changes_nothing_if_inputs_have_single_rows(likelihood, y):
    likelihood = without_row_variance(likelihood)
    y, offset = y[:N], OFFSET[:N]
    check_same(
        Observations(likelihood, y, offset),
        Observations(likelihood, y, offset, None, np.arange(N)),
    )


@every_likelihood
def test_single_row_among_repeated_rows_has_the_closed_form(likelihood, y):
    """Bit for bit, though others have several rows; Gaussian rows go by their weighted mean."""
    observed = Observations(likelihood, y, OFFSET, WEIGHT, FIRST)
    alone = np.array([0, 3])
    rows = FIRST[alone]
    own = likelihood.of_rows(rows).tilted_moments(y[rows], MEAN[alone] + OFFSET[rows], VAR[alone])
    rtol = 1e-14 if likelihood.quadratic else 0.0
    for moment, expected in zip(observed.tilted_moments(MEAN, VAR), own, strict=True):
        assert_allclose(moment[alone], expected, rtol=rtol)


def test_a_weight_leaves_other_rows_the_closed_form():
    """Bit for bit: one input that occurs twice must not slow all others."""
    weight = np.where(np.arange(N) == 1, 2.0, 1.0)
    observed = Observations(Probit(), SIGNS[:N], OFFSET[:N], weight)
    plain = replace(observed, weight=None).tilted_moments(MEAN, VAR)
    for moment, expected in zip(observed.tilted_moments(MEAN, VAR), plain, strict=True):
        assert_array_equal(np.delete(moment, 1), np.delete(expected, 1))
        assert moment[1] != expected[1]


# --- which rows and inputs ------------------------------------------------------------------------


class TestRowsAndInputs:
    several = Observations(Probit(), SIGNS, OFFSET, WEIGHT, FIRST)
    plain = Observations(Probit(), SIGNS)

    def test_input_of_row_has_the_input_of_every_row(self):
        assert_array_equal(self.several.input_of_row, INPUT)
        assert_array_equal(self.plain.input_of_row, np.arange(N_ROWS))
        assert self.several.n_inputs == N
        assert self.plain.n_inputs == len(self.several) == N_ROWS

    def test_has_repeats_is_true_for_repeated_rows_or_weights(self):
        assert self.several.has_repeats
        assert replace(self.several, weight=None).has_repeats
        assert replace(self.plain, weight=WEIGHT).has_repeats
        assert not replace(self.plain, offset=OFFSET).has_repeats

    def test_probit_signs_exist_only_for_unweighted_single_rows(self):
        assert_array_equal(self.plain.probit_signs(), SIGNS)
        assert self.several.probit_signs() is None
        assert replace(self.several, weight=None).probit_signs() is None
        assert replace(self.plain, weight=WEIGHT).probit_signs() is None
        assert Observations(Logit(), SIGNS).probit_signs() is None

    @every_likelihood
    @in_one_test("inputs", [[4, 1], [0, 3], [0, 3, 5], [5], [2, 0, 4, 1, 3, 5], [1, 1]])
    def test_of_inputs_keeps_the_observations_of_each_input(self, likelihood, y, inputs):
        inputs = np.array(inputs)
        every = Observations(likelihood, y, OFFSET, WEIGHT, FIRST)
        some = every.of_inputs(inputs)
        rows = np.concatenate([np.flatnonzero(i == INPUT) for i in inputs])
        assert_array_equal(some.y, y[rows])
        assert_array_equal(some.offset, OFFSET[rows])
        assert_array_equal(some.weight, WEIGHT[rows])
        assert (some.first is None) == (len(rows) == len(inputs))
        assert some.n_inputs == len(inputs)
        assert_array_equal(some.log_prob(F[inputs]), every.log_prob(F)[rows])
        pairs = [
            (some.derivatives(F[inputs]), every.derivatives(F)),
            (
                some.tilted_moments(MEAN[inputs], VAR[inputs]),
                every.tilted_moments(MEAN, VAR),
            ),
        ]
        for own, whole in pairs:
            for part, all_parts in zip(own, whole, strict=True):
                assert_allclose(part, all_parts[inputs], rtol=1e-8, atol=1e-10)


@in_one_test("likelihood", [Logit(), Probit(), Poisson(), NegativeBinomial()])
def test_log_normalizers_alone_equal_those_of_the_moments(likelihood):
    rng = np.random.default_rng(0)
    n = 400
    signs = likelihood.name in ("logit", "probit")
    y = np.sign(rng.standard_normal(n)) if signs else rng.poisson(np.exp(rng.uniform(0, 4, n)))
    # From variances of zero to Gaussians far wider than the likelihood, far from its maximum.
    mean = 3.0 * rng.standard_normal(n)
    var = np.append(np.zeros(20), np.exp(rng.uniform(-12.0, 5.0, n - 20)))
    weight = np.where(rng.uniform(size=n) < 0.5, 1.0, 1.7)
    observed = Observations(likelihood, y.astype(float), weight=weight)
    expected = observed.tilted_moments(mean, var).log_z
    assert_allclose(observed.log_normalizers(mean, var), expected, rtol=1e-9, atol=1e-9)
