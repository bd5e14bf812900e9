"""The models that NumPyro's NUTS is given in the benchmarks are those of the package."""

import numpy as np
import pytest

from benchmarks import nuts
from skgpmcmc.approximations.exact import Exact
from skgpmcmc.covariance import default_kernel, make_covariance
from skgpmcmc.likelihoods import Gaussian, Poisson, Probit
from skgpmcmc.model import LatentGP, default_hyperprior

pytest.importorskip("numpyro")

N = 12


def model_of(likelihood, y, offset=None):
    X = np.random.default_rng(0).uniform(size=(N, 2))
    covariance = make_covariance(default_kernel(2), X, 1e-6)
    return LatentGP(covariance, likelihood, default_hyperprior(covariance, likelihood), y, offset)


def difference(model, peer, log_likelihood, rng):
    """Our log density minus NumPyro's at a random point, natural scale of theta."""
    from numpyro.infer.util import log_density

    theta = model.start + 0.5 * rng.standard_normal(len(model.start))
    v = rng.standard_normal(N)
    sites = {name: np.exp(theta[[j]]) for j, name in enumerate(nuts.SITES) if j < len(theta)}
    theirs, _ = log_density(peer, (), {}, {**sites, "v": v})
    jacobian = theta.sum()  # NumPyro's density is that of the natural scale here
    return log_likelihood(theta, v) + model.hyperprior.log_prob(theta) - jacobian - float(theirs)


def whitened(model):
    def log_likelihood(theta, v):
        f = model.prior_at(theta).unwhiten(v)
        return model.observations_at(theta).total(f) - 0.5 * v @ v

    return log_likelihood


def poisson():
    y, offset = np.arange(N) % 4.0, np.full(N, 0.3)
    model = model_of(Poisson(), y, offset)
    return model, nuts.make_poisson_model(model.covariance.X, y, offset, jitter=1e-6)


def probit():
    y = np.where(np.arange(N) % 3 > 0, 1.0, -1.0)
    model = model_of(Probit(), y)
    return model, nuts.make_model(model.covariance.X, y, jitter=1e-6)


@pytest.mark.parametrize("pair", [probit, poisson])
def test_whitened_models_have_our_density(pair):
    model, peer = pair()
    rng = np.random.default_rng(1)
    gaps = [difference(model, peer, whitened(model), rng) for _ in range(4)]
    np.testing.assert_allclose(gaps, gaps[0], atol=1e-7)  # a constant apart


def test_regression_without_f_has_our_density():
    y = np.random.default_rng(2).standard_normal(N)
    model = model_of(Gaussian(noise_scale=0.3), y)
    peer = nuts.make_marginal_model(model.covariance.X, y, jitter=1e-6)
    rng = np.random.default_rng(1)

    def log_likelihood(theta, v):
        return Exact().fit(model, theta).log_evidence

    gaps = [difference(model, peer, log_likelihood, rng) for _ in range(4)]
    np.testing.assert_allclose(gaps, gaps[0], atol=1e-7)
