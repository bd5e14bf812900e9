"""Every routine against numpy, what it does to its arguments, and what it counts."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skgpmcmc.numerics import linalg
from skgpmcmc.numerics.linalg import NotPositiveDefiniteError, OperationCount, count_operations

from ...helpers import in_one_test

ORDERS = ("C", "F")


def spd(n, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, n + 3))
    return A @ A.T / n + 0.1 * np.eye(n)


def factor(n, seed=0):
    return np.asfortranarray(np.linalg.cholesky(spd(n, seed)))


@pytest.fixture
def right_hand_sides():
    rng = np.random.default_rng(1)
    return [
        rng.standard_normal(7),
        rng.standard_normal((7, 3)),
        np.asfortranarray(rng.standard_normal((7, 3))),
        rng.standard_normal((7, 12)),
    ]


# --- values, and arguments left alone -------------------------------------------------------------


@in_one_test("order", ORDERS)
@in_one_test("n", [1, 7, 150, 300])  # beyond the block size of LAPACK, and our own
def test_cholesky_equals_numpys_and_keeps_its_argument(n, order):
    A = spd(n).copy(order=order)
    before = A.copy()
    L = linalg.cholesky(A)
    assert_allclose(L, np.linalg.cholesky(A), atol=1e-13)
    assert_array_equal(np.triu(L, 1), 0.0)
    assert L.flags.f_contiguous
    assert_array_equal(A, before)
    assert_array_equal(linalg.cholesky(np.tril(A)), L)  # only the lower triangle is read
    in_place = linalg.cholesky(A, overwrite=True)
    assert_array_equal(in_place, L)
    assert np.shares_memory(in_place, A) or order == "C"


@in_one_test("transpose", [False, True])
def test_solve_lower_equals_numpys_solve(right_hand_sides, transpose):
    L = factor(7)
    matrix = L.T if transpose else L
    for B in right_hand_sides:
        before = B.copy()
        X = linalg.solve_lower(L, B, transpose=transpose)
        assert X.shape == B.shape
        assert_allclose(matrix @ X, B, atol=1e-12)
        assert_array_equal(B, before)
        in_place = linalg.solve_lower(L, B, transpose=transpose, overwrite=True)
        assert_array_equal(in_place, X)
        assert np.shares_memory(in_place, B) or not B.flags.f_contiguous


def test_cholesky_solve_equals_numpys_solve(right_hand_sides):
    L = factor(7)
    for B in right_hand_sides:
        before = B.copy()
        X = linalg.cholesky_solve(L, B)
        assert X.shape == B.shape
        assert_allclose(L @ L.T @ X, B, atol=1e-11)
        assert_array_equal(B, before)


@in_one_test("n", [1, 7, 64, 65, 129, 300])  # halves are inverted from 65 on
def test_lower_inverse_times_the_factor_is_the_identity(n):
    L = factor(n)
    before = L.copy()
    inverse = linalg.lower_inverse(L)
    assert_allclose(inverse @ L, np.eye(n), atol=1e-12)
    assert_allclose(L @ inverse, np.eye(n), atol=1e-12)
    assert_array_equal(np.triu(inverse, 1), 0.0)
    assert inverse.flags.f_contiguous
    assert_array_equal(L, before)


@in_one_test("n", [1, 7, 150])
@in_one_test("overwrite", [False, True])
def test_lower_gram_equals_the_lower_triangle_of_the_product(n, overwrite):
    L = factor(n)
    before = L.copy()
    gram = linalg.lower_gram(L, overwrite=overwrite)
    assert_allclose(gram, np.tril(before.T @ before), atol=1e-12)
    assert gram.flags.f_contiguous
    assert np.shares_memory(gram, L) == overwrite
    assert overwrite or np.array_equal(L, before)


@in_one_test("transpose", [False, True])
def test_lower_product_reads_the_lower_triangle_only(right_hand_sides, transpose):
    L = factor(7)
    garbage = np.asfortranarray(L + np.triu(np.full((7, 7), np.nan), 1))
    for B in right_hand_sides:
        before = B.copy()
        expected = (L.T if transpose else L) @ B
        for matrix in (L, garbage):
            found = linalg.lower_product(matrix, B, transpose=transpose)
            assert_allclose(found, expected, atol=1e-13)
        assert_array_equal(B, before)


@in_one_test("n", [1, 7, 150])
def test_cholesky_inverse_equals_numpys_inverse(n):
    A = spd(n)
    inverse = linalg.cholesky_inverse(linalg.cholesky(A))
    assert_allclose(inverse, np.tril(np.linalg.inv(A)), rtol=1e-8, atol=1e-10)


@in_one_test("n", [1, 7, 33, 150])
def test_cholesky_pullback_equals_finite_differences(n):
    """Against differences of a weighted sum over the factor, in some symmetric directions."""
    A, L = spd(n), factor(n)
    rng = np.random.default_rng(3)
    weights = rng.standard_normal((n, n))
    before = weights.copy()
    bar = linalg.cholesky_pullback(L, weights)
    assert_array_equal(weights, before)
    assert_array_equal(np.triu(bar, 1), 0.0)
    step = 1e-5
    for _ in range(3):
        change = rng.standard_normal((n, n)) / n
        change = change + change.T
        up, down = (np.linalg.cholesky(A + h * change) for h in (step, -step))
        expected = (np.tril(weights) * (up - down)).sum() / (2.0 * step)
        assert (bar * change).sum() == pytest.approx(expected, rel=1e-6, abs=1e-8)


@in_one_test(("k", "n", "m"), [(5, 7, 40), (40, 7, 5), (1, 7, 3), (7, 1, 3), (0, 7, 3), (7, 0, 3)])
def test_product_equals_numpys_for_any_shape(k, n, m):
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((k, n)), rng.standard_normal((n, m))
    for left, right in ((A, B), (np.asfortranarray(A), np.asfortranarray(B))):
        product = linalg.product(left, right)
        assert product.flags.f_contiguous
        assert_allclose(product, A @ B, atol=1e-13)
    assert_allclose(linalg.product(A, np.ones(n)), A.sum(axis=1), atol=1e-13)


@in_one_test("shape", [(40, 7), (7, 7), (5, 1)])
@in_one_test("order", ORDERS)
def test_tall_gram_equals_numpys_product(shape, order):
    A = np.random.default_rng(0).standard_normal(shape).copy(order=order)
    before = A.copy()
    scale = np.linspace(0.5, 1.5, len(A))
    gram = linalg.tall_gram(A, scale)
    assert gram.flags.f_contiguous
    assert_allclose(np.tril(gram), np.tril((A.T * scale**2) @ A), atol=1e-13)
    assert_array_equal(A, before)


def test_eigenpairs_equal_the_largest_of_numpy():
    A = np.random.default_rng(0).standard_normal((9, 9))
    A = A @ A.T
    values, vectors = linalg.eigenpairs(A, 4)
    assert_allclose(values, np.linalg.eigvalsh(A)[-4:], rtol=1e-12)
    assert_allclose(A @ vectors, vectors * values, atol=1e-12)


def test_half_log_det_equals_that_of_numpy():
    A = spd(9)
    assert linalg.half_log_det(linalg.cholesky(A)) == pytest.approx(
        0.5 * np.linalg.slogdet(A).logabsdet, abs=1e-12
    )


def test_add_outer_works_in_place_in_fortran_order():
    A = np.asfortranarray(np.arange(16.0).reshape(4, 4))
    x, y = np.arange(4.0), np.array([1.0, -1.0, 0.5, 2.0])
    expected = A + np.outer(x, y)
    assert np.shares_memory(linalg.add_outer(A, x, y), A)
    assert_array_equal(A, expected)


@in_one_test("order", ORDERS)
@in_one_test("values", [2.0, np.arange(4.0)], ids=["number", "vector"])
def test_add_to_diagonal_works_in_place(order, values):
    A = np.arange(16.0).reshape(4, 4).copy(order=order)
    expected = A + np.diag(np.broadcast_to(values, 4))
    assert linalg.add_to_diagonal(A, values) is A
    assert_array_equal(A, expected)


# --- failures -------------------------------------------------------------------------------------


@in_one_test(
    ("n", "i", "j", "value"),
    [
        *((6, pivot, pivot, -1e-12) for pivot in (0, 3, 5)),
        (4, 2, 2, 0.0),
        *(
            (*place, bad)
            for bad in (np.nan, np.inf)
            for place in ((4, 0, 0), (4, 3, 0), (4, 3, 3), (150, 149, 2))
        ),
    ],
)
def test_cholesky_refuses_a_matrix_that_is_not_positive_definite(n, i, j, value):
    A = np.eye(n) if np.isfinite(value) else spd(n)
    A[i, j] = A[j, i] = value
    with pytest.raises(NotPositiveDefiniteError, match="pivot") as caught:
        linalg.cholesky(A)
    assert isinstance(caught.value, np.linalg.LinAlgError)


@in_one_test("routine", [linalg.lower_inverse, lambda L: linalg.solve_lower(L, L)])
def test_triangular_routines_refuse_a_singular_factor(routine):
    L = factor(5)
    L[2, 2] = 0.0
    with pytest.raises(NotPositiveDefiniteError, match="singular at pivot 3"):
        routine(L)


# --- the counter ----------------------------------------------------------------------------------


def spend(n, m):
    """One call of everything, with m columns."""
    A = spd(n)
    B = np.ones((n, m))
    L = linalg.cholesky(A)
    linalg.lower_gram(linalg.lower_inverse(L))
    linalg.solve_lower(L, B)
    linalg.cholesky_solve(L, B)
    linalg.product(A, B)
    linalg.lower_product(L, B)


@in_one_test(("n", "m"), [(8, 8), (8, 2), (8, 24)])
def test_operation_counts_are_calls_weighted_by_columns(n, m):
    with count_operations() as count:
        spend(n, m)
    whole, share = n**3, n * n * m
    assert count == OperationCount(
        cholesky=whole, inverse=whole, product=whole + 2.0 * share, triangular_solve=3.0 * share
    )
    assert count.total == 3.0 * whole + 5.0 * share
    in_factorizations = count.per(n)
    assert in_factorizations.cholesky == in_factorizations.inverse == 1.0
    assert in_factorizations.total == 3.0 + 5.0 * m / n


def test_operation_count_of_products_is_their_multiplications():
    A = np.ones((12, 3))
    with count_operations() as count:
        linalg.product(A, np.ones((3, 5)))
        linalg.product(A.T, np.ones(12))
        linalg.tall_gram(A, np.ones(12))
    assert count == OperationCount(product=12 * 3 * 5 + 3 * 12 + 3 * 3 * 12)


def test_operation_count_of_a_vector_is_that_of_one_column():
    L = factor(8)
    with count_operations() as count:
        linalg.solve_lower(L, np.ones(8))
        linalg.cholesky_solve(L, np.ones(8))
        linalg.lower_product(L, np.ones(8))
        linalg.product(L, np.ones(8))
    assert count == OperationCount(triangular_solve=3.0 * 64.0, product=2.0 * 64.0)


def test_failed_factorization_is_counted():
    with count_operations() as count, pytest.raises(NotPositiveDefiniteError):
        linalg.cholesky(-np.eye(3))
    assert count.per(3).cholesky == 1.0


def test_nested_operation_counts_reach_the_outer_count_once():
    with count_operations() as outer:
        linalg.cholesky(np.eye(3))
        with count_operations() as inner:
            linalg.cholesky(np.eye(3))
            with count_operations() as innermost:
                linalg.cholesky(np.eye(3))
        linalg.cholesky(np.eye(3))
    assert (innermost.cholesky, inner.cholesky, outer.cholesky) == (27.0, 54.0, 108.0)


def test_operation_count_survives_an_error_inside():
    with count_operations() as outer:
        with pytest.raises(NotPositiveDefiniteError), count_operations():
            linalg.cholesky(-np.eye(3))
        linalg.cholesky(np.eye(3))
    assert outer.per(3).cholesky == 2.0


def test_operations_outside_a_count_are_not_counted():
    with count_operations() as count:
        pass
    linalg.cholesky(np.eye(3))
    assert count.total == 0.0


# --- ridge regression -----------------------------------------------------------------------------


@in_one_test("shape", [(), (4,)])
def test_ridge_regression_solves_the_normal_equations(shape):
    rng = np.random.default_rng(0)
    features, targets = rng.standard_normal((9, 3)), rng.standard_normal((9, *shape))
    precision = np.array([0.1, 1.0, 10.0])
    expected = np.linalg.solve(features.T @ features + np.diag(precision), features.T @ targets)
    assert_allclose(linalg.ridge_regression(features, targets, precision), expected)


def test_ridge_regression_is_accurate_for_features_of_any_size():
    rng = np.random.default_rng(0)
    features, terms = rng.standard_normal((9, 3)), np.array([1.0, -2.0, 3.0])
    size = np.array([1e12, 1.0, 1e-4])
    found = linalg.ridge_regression(features * size, features @ terms, np.full(3, 1e-30))
    assert_allclose(found * size, terms)
