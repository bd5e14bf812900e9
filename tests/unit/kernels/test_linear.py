"""The kernel of linear functions: its contract, its prior, and what estimators do."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct

from skgpmcmc import BayesianGPRegressor
from skgpmcmc.kernels import Linear
from skgpmcmc.model.covariance import Covariance, make_covariance
from skgpmcmc.model.default_priors import default_priors
from skgpmcmc.model.fixed import FixedCovariance
from skgpmcmc.model.linear import LinearCovariance
from skgpmcmc.model.parts import complete_kernel
from skgpmcmc.samplers import Marginal

from ...helpers import short_chains

RNG = np.random.default_rng(0)
X = RNG.standard_normal((9, 3))
Z = RNG.standard_normal((4, 3))
CENTER = np.array([0.5, -1.0, 2.0])


def test_linear_kernel_is_a_dot_product_of_centered_rows():
    kernel = Linear(2.5, center=CENTER)
    expected = ConstantKernel(2.5) * DotProduct(0.0)
    assert_allclose(kernel(X, Z), expected(X - CENTER, Z - CENTER), rtol=1e-14)
    assert_allclose(kernel.diag(X), np.diag(kernel(X)), rtol=1e-14)
    assert_allclose(Linear()(X), X @ X.T, rtol=1e-14)


def test_gradient_of_the_linear_kernel_agrees_with_finite_differences():
    kernel = Linear(0.7, center=CENTER)
    _, gradient = kernel(X, eval_gradient=True)
    step = 1e-5
    up, down = (kernel.clone_with_theta(kernel.theta + s)(X) for s in (step, -step))
    assert_allclose(gradient[:, :, 0], (up - down) / (2 * step), rtol=1e-8, atol=1e-9)
    assert Linear(0.7, "fixed")(X, eval_gradient=True)[1].shape == (9, 9, 0)
    with pytest.raises(ValueError, match="one set of rows"):
        kernel(X, Z, eval_gradient=True)


def test_linear_kernel_keeps_the_contract_of_scikit_learn():
    kernel = ConstantKernel() * RBF() + Linear(3.0, center=CENTER)
    for copy in (clone(kernel), pickle.loads(pickle.dumps(kernel))):
        assert copy == kernel
        assert_array_equal(copy(X), kernel(X))
    assert [h.name for h in kernel.hyperparameters][-1] == "k2__slope_variance"
    assert kernel.theta[-1] == np.log(3.0)
    assert not kernel.is_stationary()
    assert repr(kernel.k2) == "Linear(slope_variance=3)"
    assert kernel.set_params(k2__slope_variance=1.0).k2.slope_variance == 1.0


@pytest.mark.parametrize("kernel", [Linear(center=CENTER), Linear(2.0, "fixed")])
def test_covariance_of_the_linear_kernel_equals_the_kernel(kernel):
    fast, slow = make_covariance(kernel, X), Covariance(kernel, X)
    assert isinstance(fast, LinearCovariance if kernel.n_dims else FixedCovariance)
    theta = fast.start + 0.3
    assert_allclose(fast.matrix(theta), slow.matrix(theta), rtol=1e-13)
    assert_allclose(fast.cross(theta, Z), slow.cross(theta, Z), rtol=1e-13)
    A = RNG.standard_normal((9, 9))
    assert_allclose(fast.contract(theta, A), slow.contract(theta, A), rtol=1e-10)
    assert_allclose([*fast.derivatives(theta)], [*slow.derivatives(theta)], rtol=1e-13)


def test_linear_kernel_counts_distances_in_scales():
    scale = np.array([2.0, 0.5, 4.0])
    assert_allclose(Linear(0.7, scale=scale)(X), Linear(0.7)(X / scale), rtol=1e-14)
    assert_allclose(Linear(0.7, scale=2.0).diag(X), 0.25 * Linear(0.7).diag(X), rtol=1e-14)


def test_fit_gives_a_linear_kernel_the_root_mean_square_distance_as_scale():
    kernel = complete_kernel(ConstantKernel() * RBF() + Linear(), X)
    assert_allclose(kernel.k2.center, X.mean(axis=0))
    assert kernel.k2.scale == pytest.approx(np.sqrt(np.sum(X.var(axis=0))))
    assert np.mean(kernel.k2.diag(X)) == pytest.approx(1.0)
    given = complete_kernel(Linear(center=0.0, scale=3.0), X)
    assert (given.center, given.scale) == (0.0, 3.0)
    assert complete_kernel(Linear(), np.ones((3, 2))).scale == 1.0
    with pytest.raises(ValueError, match="the scale of Linear must be positive"):
        complete_kernel(Linear(scale=[1.0, 0.0, 2.0]), X)


@pytest.mark.parametrize("scale", [None, 1.0, 50.0])
def test_default_prior_of_slopes_is_one_of_the_function_at_a_typical_row(scale):
    kernel = complete_kernel(Linear(scale=scale), X)
    typical = np.sqrt(np.mean(kernel.diag(X)))
    law = default_priors(kernel, X)["slope_variance"]
    assert np.sqrt(law.median()) * typical == pytest.approx(1.0)
    assert np.sqrt(law.ppf(0.95)) * typical == pytest.approx(np.exp(1.5 * 1.6449), rel=1e-4)
    power = default_priors(kernel**2, X)["kernel__slope_variance"]
    assert power.median() * typical**2 == pytest.approx(1.0)


def test_fit_centers_the_linear_kernel_on_the_training_inputs():
    """Then the posterior does not depend on the origin and the unit of the inputs.

    Predictions use every draw: which draws make a subset, rounding errors may decide.
    """
    y = X @ [1.0, -0.5, 0.2] + 0.1 * RNG.standard_normal(9)
    kernel = ConstantKernel() * RBF() + Linear()
    settings = {"n_draws": 30, "target_ess": None, "max_predict_draws": None, "random_state": 0}
    settings |= {"n_chains": 2, "n_warmup": 20, "sampler": Marginal(moves="random_walk")}
    with short_chains():
        here = BayesianGPRegressor(kernel, **settings).fit(X, y)
        far = BayesianGPRegressor(kernel, **settings).fit(4.0 * X + 64.0, y)
        given = BayesianGPRegressor(kernel.set_params(k2__center=CENTER), **settings).fit(X, y)
    assert_allclose(here.kernel_.k2.center, X.mean(axis=0))
    assert_allclose(far.predict(4.0 * Z + 64.0), here.predict(Z), rtol=1e-7)
    assert far.kernel_.k2.scale == pytest.approx(4.0 * here.kernel_.k2.scale)
    assert_array_equal(given.kernel_.k2.center, CENTER)
