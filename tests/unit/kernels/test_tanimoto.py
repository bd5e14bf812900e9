"""The similarity of fingerprints: its contract, and the covariance of fixed kernels."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skgpmcmc import BayesianGPClassifier
from skgpmcmc.kernels import Tanimoto
from skgpmcmc.model.composite import CompositeCovariance
from skgpmcmc.model.covariance import Covariance, make_covariance
from skgpmcmc.model.fixed import FixedCovariance

from ...helpers import short_chains

RNG = np.random.default_rng(0)
BITS = (RNG.uniform(size=(20, 30)) < 0.3).astype(float)


def test_tanimoto_kernel_is_the_share_of_common_bits():
    K = Tanimoto()(BITS, BITS[:4])
    for i, one in enumerate(BITS):
        for j, other in enumerate(BITS[:4]):
            common = np.sum((one > 0) & (other > 0))
            either = np.sum((one > 0) | (other > 0))
            assert K[i, j] == pytest.approx(common / either)
    assert_array_equal(Tanimoto()([[0.0, 0.0], [0.0, 1.0]]), np.eye(2))
    assert_array_equal(Tanimoto().diag(BITS), np.ones(20))
    assert np.linalg.eigvalsh(Tanimoto()(BITS)).min() > -1e-12


def test_tanimoto_kernel_keeps_the_contract_of_scikit_learn():
    kernel = ConstantKernel(2.0) * Tanimoto()
    for copy in (clone(kernel), pickle.loads(pickle.dumps(kernel))):
        assert copy == kernel
        assert_array_equal(copy(BITS), kernel(BITS))
    assert kernel.n_dims == 1
    K, gradient = kernel(BITS, eval_gradient=True)
    assert_allclose(gradient[:, :, 0], K)
    assert not kernel.is_stationary()
    assert repr(kernel.k2) == "Tanimoto()"
    with pytest.raises(ValueError, match="leave Y out"):
        Tanimoto()(BITS, BITS, eval_gradient=True)
    with pytest.raises(ValueError, match="got -1 in row 1 of column 0"):
        Tanimoto()([[1.0], [-1.0]])


@pytest.mark.parametrize("fixed", [Tanimoto(), RBF(2.0, "fixed") + ConstantKernel(1.0, "fixed")])
def test_matrix_of_a_fixed_kernel_is_computed_once_and_not_overwritten(fixed):
    fast = make_covariance(ConstantKernel() * fixed, BITS)
    assert isinstance(fast, CompositeCovariance)
    part = FixedCovariance(fixed, BITS)
    assert FixedCovariance.serves(fixed)
    first = part.matrix(np.empty(0))
    first[:] = np.nan
    assert_allclose(part.matrix(np.empty(0)), fixed(BITS), rtol=1e-13)
    assert "_matrix" not in vars(pickle.loads(pickle.dumps(part)))
    slow = Covariance(ConstantKernel() * fixed, BITS)
    theta = np.array([0.7])
    assert_allclose(fast.matrix(theta), slow.matrix(theta), rtol=1e-13)
    A = RNG.standard_normal((20, 20))
    assert_allclose(fast.contract(theta, A), slow.contract(theta, A), rtol=1e-10)
    assert_allclose([*fast.derivatives(theta)], [*slow.derivatives(theta)], rtol=1e-13)


def test_classifier_of_fingerprints():
    y = BITS[:, 0] + BITS[:, 1] > 0
    with short_chains():
        model = BayesianGPClassifier(
            ConstantKernel() * Tanimoto(), n_draws=30, target_ess=None, random_state=0
        ).fit(BITS, y)
    assert model.hyperparameter_names_ == ["k1__constant_value"]
    assert model.score(BITS, y) > 0.8
