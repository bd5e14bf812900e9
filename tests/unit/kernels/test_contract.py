"""Kernels keep scikit-learn's contract, and covariances of the package equal their kernels."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    ExpSineSquared,
    Matern,
    RationalQuadratic,
)
from sklearn.gaussian_process.tests import test_kernels as of_sklearn

from skgpmcmc.kernels import Categorical, Linear, On, Tanimoto
from skgpmcmc.model.categorical import CategoricalCovariance
from skgpmcmc.model.composite import CovarianceOnColumns, SumOfCovariances
from skgpmcmc.model.covariance import Covariance, make_covariance
from skgpmcmc.model.periodic import PeriodicCovariance
from skgpmcmc.testing import check_kernel

RNG = np.random.default_rng(0)
#: Two columns of numbers, one of levels 0 to 2, and one of levels 0 and 1.
X = np.column_stack([RNG.standard_normal((14, 2)), np.arange(14) % 3, np.arange(14) % 2])
#: New rows, of which two have levels that X does not have.
Z = np.column_stack([RNG.standard_normal((5, 2)), [0, 1, 2, 3, 4], np.ones(5)])
PER_LEVEL = Categorical(2, [0.2, 0.5, 1.5], levels=(0.0, 1.0, 2.0))

#: Kernels that need two columns only, as scikit-learn's tests have two.
OF_TWO = {
    "on one": On(RBF(0.7), 1),
    "on two": On(Matern([0.7, 2.0], nu=1.5), [1, 0]),
    "on a sum": On(ConstantKernel(2.0) * RBF() + Linear(0.5), [0]),
    "on on": On(On(RBF(), 0), [1, 0]),
    "fixed": On(RBF(2.0, "fixed"), 0),
    "space and time": ConstantKernel(3.0) * On(RBF(), 0) + On(RationalQuadratic(), 1),
    "levels": Categorical(1),
    "levels of two": 2.0 * Categorical([0, 1], 0.1),
    "linear": Linear(0.3, center=[1.0, 2.0], scale=2.0),
}
MORE = {
    "constant first": (ConstantKernel(2.0) * On(RBF([1.0, 2.0]), [0, 1]), CovarianceOnColumns),
    "constant last": (On(RBF(), [1]) * ConstantKernel(3.0), CovarianceOnColumns),
    "on": (On(ConstantKernel(2.0) * RBF() + Linear(), [1]), CovarianceOnColumns),
    "nested": (On(On(RBF(), 0) + Linear(), [2, 1]), CovarianceOnColumns),
    "sum": (
        ConstantKernel(2.0) * On(RBF([1.0, 2.0]), [0, 1])
        + ConstantKernel() * On(RBF(), 1) * Categorical(3),
        SumOfCovariances,
    ),
    "per level": (PER_LEVEL, CategoricalCovariance),
    "on levels": (On(PER_LEVEL.set_params(columns=0), 2), CovarianceOnColumns),
    "two columns": (Categorical([2, 3], 0.4), CategoricalCovariance),
    "periodic": (ExpSineSquared(0.7, 1.3), PeriodicCovariance),
    "of a period": (ExpSineSquared(0.7, 1.3, periodicity_bounds="fixed"), PeriodicCovariance),
    "season": (ExpSineSquared(0.7, 1.3, "fixed"), PeriodicCovariance),
    "independent": (Categorical(2, np.inf, "fixed"), CategoricalCovariance),
}
#: Those of gradients, of two sets of rows, of diagonals and of clones are in `check_kernel`.
TESTS_OF_SKLEARN = (
    *(of_sklearn.test_kernel_clone_after_set_params, of_sklearn.test_set_get_params),
    *(of_sklearn.test_kernel_input_type, of_sklearn.test_repr_kernels),
)


@pytest.mark.parametrize("test", TESTS_OF_SKLEARN, ids=lambda test: test.__name__)
@pytest.mark.parametrize("name", OF_TWO)
def test_kernel_passes_the_tests_of_scikit_learn(name, test):
    test(clone(OF_TWO[name]))


@pytest.mark.parametrize("name", [*OF_TWO, *MORE])
def test_kernels_of_the_package_pass_check_kernel(name):
    kernel = OF_TWO[name] if name in OF_TWO else MORE[name][0]
    n_columns = 2 if name in OF_TWO else 4
    if isinstance(kernel, ExpSineSquared):
        n_columns = 1  # in several columns it is no covariance
    check_kernel(kernel, X[:, :n_columns])


@pytest.mark.parametrize("kernel", [OF_TWO["levels"], Linear(0.3)])
def test_kernel_without_parts_passes_the_test_of_theta_of_scikit_learn(kernel):
    of_sklearn.test_kernel_theta(kernel)


@pytest.mark.parametrize("kernel", [kernel for kernel, _ in MORE.values()])
def test_copies_of_a_kernel_are_equal_to_it(kernel):
    for copy in (clone(kernel), pickle.loads(pickle.dumps(kernel))):
        assert copy == kernel
        assert_array_equal(copy(X), kernel(X))
        assert repr(copy) == repr(kernel)


@pytest.mark.parametrize("name", MORE)
def test_covariance_equals_the_kernel_and_has_its_slopes(name):
    kernel, kind = MORE[name]
    fast, slow = make_covariance(kernel, X), Covariance(kernel, X)
    assert isinstance(fast, kind)
    theta = fast.start + 0.3
    K, cross = slow.matrix(theta), slow.cross(theta, Z)
    assert_allclose(fast.matrix(theta), K, rtol=1e-12)
    assert_allclose(fast.cross(theta, Z), cross, rtol=1e-12)
    assert_allclose(fast.fast_cross(theta, fast.at_new(Z)), cross, rtol=1e-9)
    assert_allclose(fast.square(theta, Z), slow.square(theta, Z), rtol=1e-10)
    assert_allclose(fast.diagonal(theta, Z), slow.diagonal(theta, Z), rtol=1e-12)
    rng = np.random.default_rng(1)
    A = rng.standard_normal((14, 14))
    B = rng.standard_normal((14, 5))
    slopes, cross_slopes = [], []
    for r in range(len(theta)):
        step = 1e-5 * (np.arange(len(theta)) == r)
        slopes.append((slow.matrix(theta + step) - slow.matrix(theta - step)) / 2e-5)
        cross_slopes.append((slow.cross(theta + step, Z) - slow.cross(theta - step, Z)) / 2e-5)
    near = {"rtol": 1e-6, "atol": 1e-7}  # of finite differences
    assert_allclose(fast.contract(theta, A), [np.vdot(A, dK) for dK in slopes], **near)
    assert_allclose(
        fast.contract_cross(theta, fast.at_new(Z), B, fast.cross(theta, Z)),
        [np.vdot(B, dK) for dK in cross_slopes],
        **near,
    )
    if slopes:
        assert_allclose([*fast.derivatives(theta)], slopes, **near)


def test_covariance_of_some_inputs_and_a_pickled_one_are_of_the_same_columns():
    kernel = MORE["sum"][0]
    whole = make_covariance(kernel, X)
    theta = whole.start
    few = whole.of_inputs(np.array([3, 0, 7]))
    assert_allclose(few.matrix(theta), whole.matrix(theta)[np.ix_([3, 0, 7], [3, 0, 7])])
    copy = pickle.loads(pickle.dumps(whole))
    assert_array_equal(copy.matrix(theta), whole.matrix(theta))


def test_parts_on_the_same_columns_compute_distances_of_new_rows_once():
    first = ConstantKernel() * On(RBF(), [0, 1])
    covariance = make_covariance(first + On(Matern(nu=1.5), [0, 1]), X)
    new = covariance.at_new(Z)
    covariance.cross(covariance.start, new)
    assert len(new._of_columns) == 1


def test_tanimoto_on_the_columns_of_a_fingerprint():
    bits = (RNG.uniform(size=(6, 9)) < 0.4).astype(float)
    mixed = np.column_stack([X[:6], bits])
    on_bits = On(Tanimoto(), range(4, 13))
    assert_array_equal(on_bits(mixed), Tanimoto()(bits))


def test_periodic_covariance_has_no_overflow_and_sends_no_matrices():
    covariance = make_covariance(ExpSineSquared(periodicity_bounds="fixed"), X)
    tiny = covariance.matrix(np.array([-400.0]))
    assert_array_equal(tiny[:2, :2], np.eye(2))
    assert np.all(np.isfinite(covariance.contract(np.array([-400.0]), np.ones((14, 14)))))
    assert_array_equal(covariance.matrix(np.array([400.0])), np.ones((14, 14)))
    kept = set(vars(pickle.loads(pickle.dumps(covariance))))
    assert kept == {"kernel", "X", "names", "start"}
