"""The rank of the matrix of a kernel, beside singular values."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern, WhiteKernel

from skgpmcmc.kernels import On, effective_rank
from skgpmcmc.numerics.linalg import NotPositiveDefiniteError

from ...helpers import in_one_test

X = np.random.default_rng(0).standard_normal((300, 3))
KERNELS = {
    "rbf": RBF(4.0),
    "constant": ConstantKernel(7.0) * RBF([2.0, 1e3, 1e3]),
    "column": On(RBF(0.5), [1]) + On(RBF(0.5), [2]),
    "linear": DotProduct(1.0),
}


@in_one_test("kernel", KERNELS.values(), ids=KERNELS.keys())
def test_rank_is_about_the_number_of_singular_values_beyond_rounding(kernel):
    K = kernel(X)
    values = np.linalg.svd(K, compute_uv=False)
    n_large = np.count_nonzero(values > 1e-11 * K.max())
    n_beyond = np.count_nonzero(values > 1e-14 * K.max())
    rank = effective_rank(kernel, X)
    assert n_large <= rank <= 1.15 * n_beyond + 2
    assert effective_rank(kernel, X, max_rank=rank) == rank
    assert effective_rank(kernel, X, max_rank=rank - 1) is None


def test_rank_of_equal_inputs_is_that_of_the_distinct_ones():
    twice = np.concatenate([X[:50], X[:50]])
    assert effective_rank(Matern(0.5, nu=0.5), twice) == 50
    assert effective_rank(WhiteKernel(1.0) + RBF(), X[:50]) == 50


@in_one_test(
    "given, error, message",
    [
        ((RBF(), X, 0), ValueError, "max_rank must be"),
        ((RBF(), X[:, 0], 5), ValueError, "2D array"),
        ((RBF(), np.full((3, 2), np.nan), 5), ValueError, "NaN"),
    ],
)
def test_what_is_no_question_is_refused(given, error, message):
    kernel, inputs, most = given
    with pytest.raises(error, match=message):
        effective_rank(kernel, inputs, max_rank=most)


def test_kernel_that_is_no_covariance_is_refused():
    with pytest.raises(NotPositiveDefiniteError):
        effective_rank(DotProduct(1.0) ** 0.5 + ConstantKernel(0.1), np.abs(X))
