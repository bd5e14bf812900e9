"""Roots of covariances that show the rank: against full pivoting, in good and bad orders."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import lapack
from sklearn.gaussian_process.kernels import RBF, DotProduct, ExpSineSquared, Matern, WhiteKernel

from skgpmcmc.hyperposterior.rows import order_farthest_first
from skgpmcmc.numerics import linalg, roots
from skgpmcmc.numerics.linalg import NotPositiveDefiniteError, count_operations
from skgpmcmc.numerics.roots import (
    PivotedRoot,
    TriangularRoot,
    full_root,
    low_rank_root,
    root_by_columns,
)

from ...helpers import in_one_test

#: Share of the largest variance that is left out at most.
LEFT_OUT = 1e-12


def inputs(n, d, order, seed=0):
    """Normal inputs: spread from the beginning on, or as bad as can be for what comes first."""
    X = np.random.default_rng(seed).standard_normal((n, d))
    if order == "spread":
        return X[order_farthest_first(X)]
    return X[np.lexsort(X.T)] if order == "sorted" else X


def clusters(n, d):
    """Pairs of inputs that differ by rounding errors, and a little more."""
    rng = np.random.default_rng(1)
    X = np.repeat(rng.standard_normal((n // 2, d)), 2, axis=0)
    X[1::2] += np.geomspace(1e-12, 1e-2, n // 2)[:, None]
    return X


def matrix(kernel, X):
    return np.asfortranarray(kernel(X))


@pytest.fixture(autouse=True)
def few_rows_are_enough(monkeypatch):
    """Low ranks are looked for however few rows there are."""
    monkeypatch.setattr(roots, "_FEWEST_ROWS_OF_LOW_RANK", 0)


ORDERS = ("spread", "random", "sorted")
MATRICES = {
    **{
        f"RBF {length}, n = {n}, d = {d}, {order}": matrix(RBF(length), inputs(n, d, order))
        for n, d, length in ((100, 1, 1.0), (120, 2, 1.0), (120, 2, 0.3), (90, 4, 3.0))
        for order in ORDERS
    },
    **{f"ARD, {order}": matrix(RBF([0.3, 100.0]), inputs(120, 2, order)) for order in ORDERS},
    "clusters": matrix(RBF(1.0), clusters(80, 1)),
    "clusters, rough": matrix(Matern(1.0, nu=0.5), clusters(80, 2)),
    "periodic": matrix(ExpSineSquared(1.0, 1.3), np.linspace(0.0, 9.0, 70)[:, None]),
    "linear": matrix(DotProduct(0.0), inputs(40, 3, "random")),
    "cubic": matrix(DotProduct(1.0) ** 3, inputs(60, 2, "sorted")),
    "of two sizes": matrix(1e6 * RBF(3.0) + RBF(0.5), inputs(80, 1, "sorted")),
    "noise": matrix(RBF(1.0) + WhiteKernel(1e-3), inputs(50, 1, "sorted")),
    "equal": np.ones((30, 30), order="F"),
    "one": np.full((1, 1), 2.0, order="F"),
    "two equal": np.ones((2, 2), order="F"),
    "partly zero": np.asfortranarray(np.diag([0.0, 1.0, 0.0, 2.0])),
}
every_matrix = in_one_test("K", MATRICES.values(), ids=MATRICES.keys())


def rank_with_full_pivoting(K):
    largest = K.diagonal().max()
    _, _, rank, _ = lapack.dpstrf(K, lower=1, tol=LEFT_OUT * largest)
    return rank


def check_root(root, K):
    """What is left out is below the tolerance, and the pivots are lower triangular."""
    largest = K.diagonal().max()
    assert np.abs(root.factor @ root.factor.T - K).max() < 3.0 * LEFT_OUT * largest
    assert len(set(root.pivots.tolist())) == root.rank
    assert_array_equal(np.triu(root.triangle, 1), 0.0)
    assert (root.triangle.diagonal() > 0.0).all()
    assert_array_equal(root.factor[root.pivots], root.triangle)


@every_matrix
def test_root_times_its_transpose_is_the_matrix(K):
    before = K.copy(order="F")
    check_root(full_root(K), K)
    assert_array_equal(K, before)


@every_matrix
def test_rank_of_a_root_is_near_that_of_full_pivoting(K):
    least = rank_with_full_pivoting(K)
    assert full_root(K).rank <= 1.15 * least + 2


@every_matrix
def test_low_rank_root_is_found_up_to_half_of_the_rows(K):
    root, found = full_root(K), low_rank_root(K)
    if found is None:
        assert root.rank > len(K) // 2
    else:
        assert found.rank <= len(K) // 2
        check_root(found, K)


def test_low_rank_root_is_not_tried_for_few_rows(monkeypatch):
    monkeypatch.undo()  # the limit is that of the package here
    few, many = (matrix(RBF(1.0), inputs(n, 1, "spread")) for n in (200, 600))
    assert low_rank_root(few) is None
    assert full_root(few).rank < 30
    assert low_rank_root(many).rank < 30


def test_low_rank_root_of_a_smooth_kernel_is_small_and_cheap():
    K = matrix(RBF(1.0), inputs(600, 2, "spread"))
    with count_operations() as count:
        root = low_rank_root(K)
    assert root.rank < 250
    assert count.per(600).total == pytest.approx((root.rank / 600) ** 2)
    check_root(root, K)


@in_one_test("scale", [1e-150, 1e-5, 1.0, 1e5, 1e150])
def test_root_scales_with_the_matrix(scale):
    K = MATRICES["RBF 1.0, n = 120, d = 2, spread"]
    one, scaled = full_root(K), full_root(np.asfortranarray(scale * K))
    assert_array_equal(scaled.pivots, one.pivots)
    assert_allclose(scaled.factor, np.sqrt(scale) * one.factor, rtol=0.0, atol=1e-7 * scale**0.5)


def test_root_of_a_matrix_of_full_rank_is_its_cholesky_factor():
    K = matrix(Matern(1.0, nu=0.5), inputs(300, 3, "random"))
    root = full_root(K)
    assert isinstance(root, TriangularRoot)
    assert_array_equal(root.pivots, np.arange(300))
    assert_array_equal(root.factor, linalg.cholesky(K))
    assert low_rank_root(K) is None


def test_root_leaves_out_pivots_of_rounding_error():
    """Pivots that consist of rounding are no pivots."""
    K = matrix(RBF(1.0), inputs(14, 1, "spread"))
    assert linalg.cholesky(K).diagonal().min() ** 2 < LEFT_OUT
    assert not isinstance(full_root(K), TriangularRoot)
    check_root(full_root(K), K)


BAD = {
    "negative eigenvalue": np.asfortranarray([[1.0, 0.9, 0.0], [0.9, 1.0, 0.9], [0.0, 0.9, 1.0]]),
    "zero": np.zeros((3, 3), order="F"),
    "not finite": np.full((3, 3), np.nan, order="F"),
    "infinite": np.asfortranarray(np.diag([1.0, np.inf])),
}


@in_one_test("K", BAD.values(), ids=BAD.keys())
def test_root_of_a_matrix_that_is_no_covariance_is_refused(K):
    with pytest.raises(NotPositiveDefiniteError):
        full_root(K)


# --- a root from columns --------------------------------------------------------------------------


class Columns:
    """A matrix that is given whole, and counts the columns that are asked for."""

    def __init__(self, K, size=7):
        self.K = K
        self.diagonal = K.diagonal()
        self.size = size
        self.n_made = 0

    def square(self, rows):
        return self.K[np.ix_(rows, rows)]

    def blocks(self, rows):
        self.n_made += len(rows)
        for start in range(0, len(self.K), self.size):
            columns = slice(start, start + self.size)
            yield columns, self.K[rows, columns]


@every_matrix
def test_root_by_columns_equals_that_of_the_whole_matrix(K, monkeypatch):
    for n_candidates in (11, 1000):
        monkeypatch.setattr(roots, "_N_CANDIDATES", n_candidates)
        columns = Columns(K)
        root = root_by_columns(columns, len(K))
        check_root(root, K)
        assert columns.n_made == root.rank
        # Candidates of many rounds are not the best of all, but nearly so.
        assert root.rank <= 1.25 * rank_with_full_pivoting(K) + 3
        if root.rank > 1:
            assert root_by_columns(Columns(K), root.rank - 1) is None


def test_root_by_columns_gives_up_before_it_makes_a_column():
    K = matrix(Matern(1.0, nu=0.5), inputs(200, 3, "spread"))
    columns = Columns(K)
    assert root_by_columns(columns, 100) is None
    assert columns.n_made == 0


def test_root_by_columns_finds_inputs_that_the_first_ones_do_not_explain(monkeypatch):
    monkeypatch.setattr(roots, "_N_CANDIDATES", 20)
    X = np.concatenate([inputs(60, 1, "spread"), inputs(60, 1, "spread", seed=1) + 50.0])
    K = matrix(RBF(1.0), X)
    root = root_by_columns(Columns(K), 60)
    check_root(root, K)
    assert 0.4 < np.mean(root.pivots >= 60) < 0.6


@in_one_test("K", BAD.values(), ids=BAD.keys())
def test_root_by_columns_of_what_is_no_covariance_is_refused(K):
    with pytest.raises(NotPositiveDefiniteError):
        root_by_columns(Columns(K), len(K))


# --- what a root does -----------------------------------------------------------------------------

SINGULAR = MATRICES["RBF 1.0, n = 100, d = 1, spread"]
REGULAR = MATRICES["clusters, rough"]
KINDS = {"pivoted": (SINGULAR, PivotedRoot), "triangular": (REGULAR, TriangularRoot)}
every_kind = in_one_test(("K", "kind"), KINDS.values(), ids=KINDS.keys())


@every_kind
def test_products_and_solutions_with_a_root_equal_dense_ones(K, kind):
    root, rng = full_root(K), np.random.default_rng(0)
    assert type(root) is kind
    R = root.factor
    n, r = R.shape
    v, x = rng.standard_normal((r, 3)), rng.standard_normal((n, 3))
    scale = rng.uniform(0.5, 2.0, size=n)
    assert_allclose(root.apply(v), R @ v, atol=1e-12)
    assert_allclose(root.apply(v[:, 0]), R @ v[:, 0], atol=1e-12)
    assert_allclose(root.apply_transpose(x), R.T @ x, atol=1e-12)
    assert_allclose(root.apply_transpose(x[:, 0]), R.T @ x[:, 0], atol=1e-12)
    assert_allclose(np.tril(root.gram(scale)), np.tril((R.T * scale**2) @ R), atol=1e-11)
    # What is undone is determined to the rounding of f over the least pivot.
    assert_allclose(root.solve(R @ v), v, atol=1e-6)
    assert_allclose(root.solve(R @ v[:, 0]), v[:, 0], atol=1e-6)
    assert_allclose(root.apply(root.solve(R @ v)), R @ v, atol=1e-9)


@every_kind
@in_one_test("form", ["diagonal", "matrix"])
def test_root_of_a_precision_in_whitened_coordinates_equals_the_dense_one(K, kind, form):
    root, rng = full_root(K), np.random.default_rng(0)
    R, n = root.factor, len(K)
    H = np.diag(rng.uniform(0.5, 2.0, size=n))
    if form == "matrix":
        H += np.tril(rng.standard_normal((n, n)), -1) / n
    lower = root.precision_root(H.diagonal() if form == "diagonal" else np.asfortranarray(H))
    assert_array_equal(np.triu(lower, 1), 0.0)
    assert (lower.diagonal() > 0.0).all()
    assert_allclose(lower @ lower.T, R.T @ H @ H.T @ R, atol=1e-10)


def test_f_of_a_fixed_v_changes_little_between_neighboring_theta():
    """R v changes little, with one entry of v for each input: in an order that is spread."""
    rng = np.random.default_rng(0)
    change = {}
    for order in ("spread", "sorted"):
        X, squares = inputs(150, 2, order), []
        for length in np.geomspace(0.4, 4.0, 8):
            near, far = (full_root(matrix(RBF(s * length), X)) for s in (1.0, 1.02))
            v = rng.standard_normal((150, 40))
            squares.append((near.apply(v[near.pivots]) - far.apply(v[far.pivots])) ** 2)
        change[order] = np.sqrt(np.mean(squares))
    # That of a root without any change of pivots is 0.020; of full pivoting 0.16.
    assert change["spread"] < 0.03
    assert change["sorted"] > 3.0 * change["spread"]  # what the order is for


def test_low_rank_root_gives_up_at_a_small_cost():
    K = matrix(Matern(1.0, nu=0.5), inputs(600, 3, "spread"))
    with count_operations() as count:
        assert low_rank_root(K) is None
    assert count.per(600).total == pytest.approx(0.125, rel=0.02)
