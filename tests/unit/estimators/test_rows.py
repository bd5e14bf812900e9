"""Training rows by distinct inputs, and an order of inputs in which the first are spread out."""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    PairwiseKernel,
    RationalQuadratic,
    WhiteKernel,
)

from skgpmcmc.estimators._rows import TrainingRows
from skgpmcmc.hyperposterior.rows import choose_rows, order_farthest_first
from skgpmcmc.likelihoods import Gaussian, Likelihood, Logit, Probit

from ...helpers import in_one_test

SMOOTH = ConstantKernel(1.5) * RBF(0.7)
NOISY = SMOOTH + WhiteKernel(0.1)

#: Five distinct inputs, of which rows take one or more; targets -1 and 1.
PLACES = np.array([[0.1, 2.0], [0.5, -1.0], [0.5, 3.0], [0.9, 0.0], [0.2, 0.2]])
_RNG = np.random.default_rng(0)
PLACE = np.concatenate([np.arange(5), _RNG.integers(5, size=25)])
X = PLACES[PLACE]
Y = _RNG.choice([-1.0, 1.0], 30)
#: Sums of these are exact in any order.
WEIGHT = _RNG.integers(0, 40, size=30) / 8.0
WEIGHT[::7] = 0.0


def pairs(X, y, weight):
    """Sum of the weights of each pair of input and target."""
    table = {}
    for x, t, w in zip(X + 0.0, np.asarray(y) + 0.0, weight, strict=True):
        key = (*x.tolist(), t)
        table[key] = table.get(key, 0.0) + w
    return {key: w for key, w in table.items() if w > 0.0}


def input_of_row(rows):
    """Position of the input of each of the model's rows."""
    if rows.first is None:
        return np.arange(len(rows.X))
    return np.searchsorted(rows.first, np.arange(len(rows.chosen)), side="right") - 1


def check_rows(rows, X, y, weight=None):
    """Everything that must hold of rows whose inputs the kernel does not tell apart."""
    y = np.asarray(y)
    weight = np.ones(len(X)) if weight is None else np.asarray(weight)
    n_rows, inputs = len(rows.chosen), input_of_row(rows)
    assert len(np.unique(rows.X, axis=0)) == len(rows.X)
    assert rows.first is None or rows.first[0] == 0
    assert_array_equal(rows.X[inputs], X[rows.chosen])
    own = np.ones(n_rows) if rows.weight is None else rows.weight
    assert np.all(own > 0.0)
    assert rows.weight is None or not np.all(own == 1.0)
    assert len(set(zip(inputs, y[rows.chosen], strict=True))) == n_rows
    found, wanted = pairs(rows.X[inputs], y[rows.chosen], own), pairs(X, y, weight)
    assert found.keys() == wanted.keys()
    assert all(found[key] == pytest.approx(wanted[key], rel=1e-14) for key in wanted)
    kept = weight > 0.0
    assert_array_equal(rows.kept, np.flatnonzero(kept))
    assert_array_equal(rows.row_of[~kept], -1)
    assert_array_equal(rows.chosen, [np.argmax(rows.row_of == i) for i in range(n_rows)])
    assert_array_equal(inputs[rows.row_of[kept]], rows.input_of[kept])
    assert_array_equal(y[rows.chosen][rows.row_of[kept]], y[kept])
    assert_array_equal(rows.given_weight, weight)
    assert_array_equal(np.concatenate([rows.X, rows.X_aside])[rows.input_of], X)
    if rows.first is None:
        assert n_rows == len(rows.X)
    else:
        assert n_rows > len(rows.X)
        assert np.all(np.diff(rows.first) > 0)


# --- equal rows -----------------------------------------------------------------------------------

TWICE = np.repeat(PLACES, 2, axis=0)
ONES = np.ones((6, 2))
#: Inputs, targets, weights, and the numbers of distinct inputs and rows.
EQUAL = {
    "repeated": (X, Y, None, 5, 10),
    "weighted": (X, Y, WEIGHT, 5, None),
    "weights of two": (X, Y, np.full(30, 2.0), 5, 10),
    "weights of a half": (X, Y, np.full(30, 0.5), 5, 10),
    "distinct": (PLACES, np.zeros(5), None, 5, 5),
    "distinct with weights": (PLACES, np.zeros(5), np.full(5, 2.0), 5, 5),
    "halves of rows": (TWICE, np.zeros(10), np.tile([0.25, 0.75], 5), 5, 5),
    "targets of an input": (PLACES[[0, 1, 0, 0]], [3.0, 1.0, 2.0, 3.0], None, 2, 3),
    "one input": (ONES, [1.0, -1.0, 1.0, 1.0, 1.0, -1.0], None, 1, 2),
    "all equal": (ONES, np.ones(6), None, 1, 1),
    "one row": (ONES[:1], np.ones(1), None, 1, 1),
    "first without weight": (PLACES[[0, 0, 0]], np.zeros(3), [0.0, 1.0, 1.0], 1, 1),
    "tiny inputs": (1e-100 * X, Y, None, 5, 10),
    "huge inputs": (1e100 * X, Y, None, 5, 10),
}


@in_one_test("X, y, weight, n_inputs, n_rows", EQUAL.values(), EQUAL)
def test_equal_rows_are_joined_with_the_sum_of_their_weights(X, y, weight, n_inputs, n_rows):
    rows = TrainingRows.of(SMOOTH, X, weight, y)
    check_rows(rows, X, y, weight)
    assert len(rows.X) == n_inputs
    assert n_rows is None or len(rows.chosen) == n_rows


def test_rows_that_differ_in_any_column_are_not_joined():
    two = np.column_stack([np.zeros(30), np.arange(30) % 2])
    rows = TrainingRows.of(SMOOTH, X, None, Y, two)
    labels = 4.0 * two[:, 1] + Y
    check_rows(rows, X, labels)
    assert len(rows.chosen) > len(TrainingRows.of(SMOOTH, X, None, Y).chosen)


def test_zeros_of_both_signs_are_one_input_and_one_target():
    assert len(TrainingRows.of(SMOOTH, PLACES[[0, 0]], None, [0.0, -0.0]).chosen) == 1
    signed = np.array([[0.0, 1.0], [-0.0, 1.0], [0.0, -0.0], [-0.0, 0.0]])
    rows = TrainingRows.of(SMOOTH, signed, np.array([1.0, 2.0, 3.0, 4.0]), np.zeros(4))
    assert len(rows.X) == 2
    assert not np.signbit(rows.X).any()
    assert sorted(rows.weight) == [3.0, 7.0]
    apart = TrainingRows.of(SMOOTH, signed, np.array([1.0, 0.0, 0.0, 0.0]), np.zeros(4))
    assert_array_equal(apart.input_of, [0, 0, 1, 1])
    assert_array_equal(apart.X_aside, [[0.0, 0.0]])
    assert not np.signbit(apart.X_aside).any()


@in_one_test("weight", [[1.0, -1.0], [1.0, np.nan], [0.0, 0.0], [1.0]])
def test_illegal_weights_are_refused(weight):
    with pytest.raises(ValueError, match="sample_weight"):
        TrainingRows.of(SMOOTH, PLACES[:2], weight, np.zeros(2))


# --- the order of the rows ------------------------------------------------------------------------


def check_same_model(one, other, y_one, y_other):
    """Two sets of rows make the same model, bit for bit."""
    assert_array_equal(one.X, other.X)
    assert_array_equal(y_one[one.chosen], y_other[other.chosen])
    assert (one.first is None) == (other.first is None)
    assert (one.weight is None) == (other.weight is None)
    if one.first is not None:
        assert_array_equal(one.first, other.first)
    if one.weight is not None:
        assert_array_equal(one.weight, other.weight)
    assert_array_equal(one.X_aside, other.X_aside)


MANY = np.random.default_rng(3).normal(size=(200, 4))
#: Weights whose sums are rounded are among these.
ORDERS = {
    "no weights": (X, Y, np.ones(30)),
    "weights": (X, Y, WEIGHT),
    "rounded sums": (X, Y, np.random.default_rng(2).uniform(0.01, 50.0, 30)),
    "distinct rows": (MANY[:, :3], MANY[:, 3], np.ones(200)),
}


@in_one_test("X, y, weight", ORDERS.values(), ORDERS)
def test_the_order_of_the_rows_does_not_change_the_model(X, y, weight):
    rng = np.random.default_rng(1)
    rows = TrainingRows.of(SMOOTH, X, weight, y)
    for _ in range(10):
        order = rng.permutation(len(X))
        other = TrainingRows.of(SMOOTH, X[order], weight[order], y[order])
        check_same_model(rows, other, y, y[order])
        assert_array_equal(other.row_of, rows.row_of[order])
        assert_array_equal(other.input_of, rows.input_of[order])


def test_repeated_rows_and_weights_make_the_same_model():
    times = np.random.default_rng(4).integers(1, 5, 30)
    again = np.repeat(np.arange(30), times)
    weighted = TrainingRows.of(SMOOTH, X, times, Y)
    repeated = TrainingRows.of(SMOOTH, X[again], None, Y[again])
    check_same_model(weighted, repeated, Y, Y[again])


# --- rows of weight zero --------------------------------------------------------------------------


def test_rows_without_weight_share_an_input_or_have_one_aside():
    places = np.array([[0.0], [1.0], [0.0], [7.0], [3.0], [7.0]])
    weight = np.array([1.0, 2.0, 0.0, 0.0, 0.0, 0.0])
    rows = TrainingRows.of(SMOOTH, places, weight, np.arange(6.0))
    check_rows(rows, places, np.arange(6.0), weight)
    assert_array_equal(rows.row_of[2:], -1)
    assert rows.input_of[2] == rows.input_of[0]
    assert_array_equal(rows.X_aside, [[3.0], [7.0]])
    assert_array_equal(rows.input_of[3:], [3, 2, 3])
    assert_array_equal(rows.kept, [0, 1])


def test_rows_without_weight_do_not_change_the_model():
    some = WEIGHT > 0.0
    every = TrainingRows.of(SMOOTH, X, WEIGHT, Y)
    without = TrainingRows.of(SMOOTH, X[some], WEIGHT[some], Y[some])
    check_same_model(without, every, Y[some], Y)
    assert_array_equal(np.flatnonzero(some)[without.chosen], every.chosen)


# --- what a kernel says ---------------------------------------------------------------------------


WHITE = [
    NOISY,
    WhiteKernel(0.1) + SMOOTH,
    SMOOTH * WhiteKernel(1.0),
    # Noise that is small beside the variance: its level is inferred, and may grow.
    ConstantKernel(1e6) * RBF(0.7) + WhiteKernel(0.01),
    SMOOTH + WhiteKernel(1e-17),
    DotProduct(1e8) + WhiteKernel(0.5),
]


@in_one_test("kernel", WHITE)
def test_with_a_white_kernel_every_row_has_its_own_input(kernel):
    weight = WEIGHT.copy()
    rows = TrainingRows.of(kernel, X, weight, Y)
    kept = np.flatnonzero(weight)
    assert rows.first is None
    assert len(rows.X) == len(rows.chosen) == len(kept)
    assert_array_equal(np.sort(rows.chosen), kept)
    assert_array_equal(rows.X, X[rows.chosen])
    assert_array_equal(rows.weight, weight[rows.chosen])
    assert_array_equal(rows.row_of[rows.chosen], np.arange(len(kept)))
    assert_array_equal(rows.input_of[kept], rows.row_of[kept])
    # Rows without weight have values of their own, too.
    without = np.flatnonzero(weight == 0.0)
    aside = rows.input_of[without] - len(kept)
    assert_array_equal(np.sort(aside), np.arange(len(without)))
    assert_array_equal(rows.X_aside[aside], X[without])
    assert_array_equal(rows.row_of[without], -1)


QUIET = {
    "fixed": ConstantKernel(1.5, "fixed") * RBF(0.7, "fixed"),
    "constant": ConstantKernel(2.0),
    "ard": RBF([0.3, 2.0, 1.0, 1.0, 5.0]),
    "half": Matern(0.7, nu=0.5),
    "three halves": 2.0 * Matern(0.7, nu=1.5),
    "other smoothness": Matern(0.7, nu=1.1),
    "rational quadratic": RationalQuadratic(0.7, 1.3),
    "periodic": ExpSineSquared(0.7, 0.3),
    "linear": DotProduct(0.3),
    "quadratic": DotProduct(0.3) ** 2,
    "sum": SMOOTH + DotProduct(1.0) * RBF(3.0),
    "pairwise": PairwiseKernel(metric="rbf"),
    "laplacian": PairwiseKernel(metric="laplacian"),
    "polynomial": PairwiseKernel(metric="polynomial"),
}


@in_one_test("kernel", QUIET.values(), QUIET)
def test_equal_rows_are_joined_under_kernels_without_noise(kernel):
    rng = np.random.default_rng(5)
    for scale in (0.01, 1.0, 100.0):
        places = scale * rng.normal(size=(7, 5))
        again = np.concatenate([np.arange(7), np.arange(7), [3, 3]])
        rows = TrainingRows.of(kernel, places[again], None, np.zeros(16))
        assert len(rows.X) == 7


# --- what a likelihood says -----------------------------------------------------------------------


def test_equal_rows_with_different_variances_are_not_joined():
    variance = np.array([0.1, 0.2, 0.1, 0.1])
    likelihood = Gaussian(0.5, row_variance=variance)
    rows = TrainingRows.of(SMOOTH, PLACES[[0, 0, 0, 1]], None, np.ones(4), likelihood.row_data(4))
    assert len(rows.X) == 2
    assert len(rows.chosen) == 3
    assert dict(zip(rows.chosen, rows.weight, strict=True)) == {0: 2.0, 1: 1.0, 3: 1.0}


@dataclass(frozen=True)
class Rowwise(Probit):
    """A likelihood with something for each row, of which it says nothing more."""

    labels: tuple[int, ...] = ()

    def of_rows(self, rows):
        return Rowwise(tuple(self.labels[row] for row in rows))


def test_rows_of_an_unknown_rowwise_likelihood_are_not_joined():
    likelihood = Rowwise(tuple(range(30)))
    rows = TrainingRows.of(SMOOTH, X, None, Y, likelihood.row_data(30))
    assert len(rows.X) == 5
    assert len(rows.chosen) == 30
    assert rows.weight is None


@in_one_test("likelihood", [Probit(), Logit(), Gaussian(0.3)])
def test_common_likelihoods_have_no_row_data(likelihood):
    assert likelihood.row_data(7).shape == (7, 0)
    assert type(likelihood).of_rows is Likelihood.of_rows or isinstance(likelihood, Gaussian)


# --- what a model gets ----------------------------------------------------------------------------


def test_select_for_model_takes_values_to_the_rows_of_the_model():
    rows = TrainingRows.of(SMOOTH, X, WEIGHT, Y)
    assert_array_equal(rows.select_for_model(Y[rows.kept]), Y[rows.chosen])
    number = (2.0 * PLACE + (Y > 0.0)).astype(int)
    of_model = rows.select_for_model(number[rows.kept])
    assert of_model.dtype == number.dtype
    assert_array_equal(of_model, number[rows.chosen])


# --- an order in which the first are spread out ---------------------------------------------------


def standardized(X):
    spread_of = X.std(axis=0)
    return X / np.where(spread_of > 0.0, spread_of, 1.0)


def check_order(X, order, size=None):
    """The first is nearest to the middle, and each of `size` a farthest from those before."""
    Z = standardized(X)
    assert_array_equal(np.sort(order), np.arange(len(X)))
    to_middle = np.linalg.norm(Z - Z.mean(axis=0), axis=1)
    assert to_middle[order[0]] == pytest.approx(to_middle.min(), rel=1e-12, abs=1e-12)
    for i in range(1, len(X) if size is None else size):
        before, rest = Z[order[:i]], Z[order[i:]]
        distance = np.linalg.norm(rest[:, None] - before, axis=2).min(axis=1)
        assert distance[0] == pytest.approx(distance.max(), rel=1e-12, abs=1e-12)


GRID = np.stack(np.meshgrid(np.arange(6.0), np.arange(5.0)), axis=-1).reshape(-1, 2)
NORMAL = np.random.default_rng(0).normal(size=(30, 4)) * np.geomspace(1.0, 1e6, 4)
ORDERED = {
    **{f"{n} rows of {d}": NORMAL[:n, :d] for n in (1, 2, 3, 30) for d in (1, 4)},
    "equal distances": GRID,
    "copies": NORMAL[[0, 1, 2, 3, 4, 5, 6, 7, 3, 3, 5]],
}


@in_one_test("X", ORDERED.values(), ORDERED)
def test_order_of_inputs_takes_a_farthest_row_next(X):
    check_order(X, order_farthest_first(X))


def test_constant_columns_do_not_change_the_order_of_inputs():
    X = np.random.default_rng(0).normal(size=(20, 2))
    wide = np.column_stack([np.full(20, 0.1), X, np.full(20, -7.3e5)])
    check_order(X, order_farthest_first(wide))
    assert_array_equal(np.sort(order_farthest_first(np.full((5, 2), 0.1))), np.arange(5))


def test_units_of_columns_do_not_change_the_order_of_inputs():
    X = np.random.default_rng(0).normal(size=(40, 3))
    # Powers of two change no digit.
    assert_array_equal(
        order_farthest_first(X), order_farthest_first(X * np.array([1024.0, 2.0**-30, 1.0]))
    )


def test_only_the_first_3000_of_very_many_rows_are_ordered():
    X = np.random.default_rng(0).normal(size=(3020, 2))
    order = order_farthest_first(X)
    check_order(X, order, 9)
    assert_array_equal(order[3000:], np.delete(np.arange(3020), order[:3000]))


@in_one_test("kernel", [SMOOTH, NOISY])
def test_inputs_of_a_model_are_ordered_farthest_first(kernel):
    places = np.random.default_rng(0).normal(size=(25, 2))[np.arange(40) % 25]
    rows = TrainingRows.of(kernel, places, None, np.zeros(40))
    check_order(rows.X, np.arange(len(rows.X)))


def test_maximin_choice_continues_like_the_farthest_first_order():
    X = np.random.default_rng(0).normal(size=(25, 2))
    rng = np.random.default_rng(7)
    first = int(np.random.default_rng(7).integers(25))
    chosen, Z = choose_rows(X, 8, "maximin", rng), standardized(X)
    expected = [first]
    for _ in range(7):
        distance = np.linalg.norm(Z[:, None] - Z[expected], axis=2).min(axis=1)
        expected.append(int(np.argmax(distance)))
    assert_array_equal(chosen, np.sort(expected))
