"""Regression integrates f out: its draws are made when somebody asks for them."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import stats
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skgpmcmc import BayesianGPRegressor
from skgpmcmc.approximations import Exact
from skgpmcmc.run.records import with_latent_draws

from ..helpers import P_LIMIT, short_chains

# A set-up is short for one hyper-parameter of the kernel.
KERNEL = ConstantKernel(1.0, "fixed") * RBF(1.0)
QUICK = {"n_chains": 2, "n_warmup": 10, "n_draws": 60, "target_ess": None, "random_state": 0}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, size=(25, 1))
    return X, 100.0 + 20.0 * np.sin(2.0 * X[:, 0]) + 2.0 * rng.standard_normal(25)


@pytest.fixture(scope="module")
@short_chains()
def fitted(data):
    return BayesianGPRegressor(KERNEL, **QUICK).fit(*data)


def twin(model):
    return pickle.loads(pickle.dumps(model))


def test_latent_draws_are_made_only_on_demand(fitted):
    fresh = twin(fitted)
    assert "latent_samples_" not in vars(fresh)
    assert fresh.latent_samples_.shape == (2, 60, 25)
    assert fresh.latent_samples_ is fresh.latent_samples_
    assert not hasattr(BayesianGPRegressor(), "latent_samples_")
    assert not hasattr(clone(fresh), "latent_samples_")


def test_latent_draws_at_equal_theta_differ(fitted):
    """Where theta stands still one law has all draws, which several tasks make."""
    own = fitted._sampling.run.models[0]
    still = replace(own.draws, theta=np.broadcast_to(own.draws.theta[0, 0], own.draws.theta.shape))
    f = with_latent_draws(own.model, Exact(), still, seed=0).f
    assert len(np.unique(f[..., 0])) == 120


def test_latent_draws_do_not_depend_on_workers_or_on_the_copy(fitted):
    here, there = twin(fitted), twin(fitted)
    assert_array_equal(there.set_params(n_jobs=2).latent_samples_, here.latent_samples_)
    assert_array_equal(twin(here).latent_samples_, here.latent_samples_)


@short_chains()
def test_latent_draws_of_another_fit_are_new(fitted, data):
    model = twin(fitted)
    before = model.latent_samples_
    model.set_params(warm_start=True, n_draws=70).fit(*data)
    assert model.latent_samples_.shape == (2, 70, 25)
    model.set_params(warm_start=False, random_state=1).fit(*data)
    assert not np.any(model.latent_samples_[:, :60] == before)


def test_latent_draws_have_the_law_of_f_given_theta(fitted, data):
    """At each theta, whitened by the closed form; in units of y."""
    X, y = data
    model, kernel = twin(fitted), fitted.kernel_
    shift, scale = y.mean(), y.std()
    z = []
    for theta, f in zip(
        model.theta_samples_.reshape(-1, 2), model.latent_samples_.reshape(-1, 25), strict=True
    ):
        K = kernel.clone_with_theta(theta[:1])(X)
        A = K @ np.linalg.inv(K + np.exp(2.0 * theta[1]) * np.eye(25))
        offset = (f - shift) / scale - A @ ((y - shift) / scale)
        # A few directions that the data leave some freedom.
        values, vectors = np.linalg.eigh(K - A @ K)
        z.append((vectors[:, -3:].T @ offset) / np.sqrt(values[-3:]))
    assert stats.kstest(np.ravel(z), "norm").pvalue > P_LIMIT


def test_psis_leave_one_out_makes_the_latent_draws(fitted):
    model = twin(fitted)
    integrated = model.loo()
    assert model._draws.f_is_mean  # which needs none
    found = model.loo("psis")
    assert np.isfinite(found.elpd)
    asked = twin(fitted)
    _ = asked.latent_samples_
    assert_array_equal(asked.loo("psis").elpd_i, found.elpd_i)
    assert_array_equal(model.loo().elpd_i, integrated.elpd_i)
