"""With every hyper-parameter fixed: f is what chains are judged by, and predictions sharpen."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skgpmcmc import BayesianGPClassifier
from skgpmcmc.prediction import groups
from skgpmcmc.run import ConvergenceGoal, summarize_convergence
from skgpmcmc.run.chains import ROUND_LENGTH
from skgpmcmc.run.records import Draws, judged_quantities

from ..helpers import make_model, toy_classes

KERNEL = ConstantKernel(4.0, "fixed") * RBF(0.7, "fixed")
QUICK = {"kernel": KERNEL, "approximation": "laplace", "n_importance": 4, "n_chains": 2}


def fit(n=6, **settings):
    X, y = toy_classes(n, 2, seed=1)
    return BayesianGPClassifier(**{**QUICK, "random_state": 0, **settings}).fit(X, y)


def test_target_ess_is_reached_for_f_if_theta_is_fixed():
    """No hyper-parameter has to reach it, which is no reason to stop at once."""
    model = fit(n_draws=2000, target_ess=300.0, max_rhat=1.05, n_warmup=5)
    n_draws = model.theta_samples_.shape[1]
    assert ROUND_LENGTH < n_draws < 2000
    found = summarize_convergence(model.latent_samples_)
    assert min(found.ess_bulk.min(), found.ess_tail.min()) >= 300.0
    assert found.r_hat.max() <= 1.05
    # A round earlier it was not enough.
    of_model = model._predictor.model
    earlier = Draws(model.theta_samples_[:, :-50], model.latent_samples_[:, :-50], [], None)
    assert ROUND_LENGTH == 50
    assert (
        ConvergenceGoal(1.05, 300.0).estimate_missing(judged_quantities(of_model, model._draws))
        == 0.0
    )
    assert ConvergenceGoal(1.05, 300.0).estimate_missing(judged_quantities(of_model, earlier)) > 0.0


def test_convergence_is_judged_by_theta_or_else_by_f():
    """theta where there is any; else the log-likelihood, and values all over the rows."""
    X, y = toy_classes(40, 2, seed=0)
    free, fixed = make_model(X, y), make_model(X, y, kernel=KERNEL)
    rng = np.random.default_rng(0)
    f = rng.standard_normal((2, 5, 40))
    some = Draws(rng.standard_normal((2, 5, 2)), f, [], None)
    assert judged_quantities(free, some) is some.theta
    found = judged_quantities(fixed, Draws(np.empty((2, 5, 0)), f, [], None))
    assert found.shape == (2, 5, 11)
    assert_allclose(found[1, 3, 0], fixed.likelihood.log_prob(fixed.y, f[1, 3]).sum())
    assert_allclose(found[..., 1], f[..., 0])
    assert_allclose(found[..., -1], f[..., 39])


def test_predictions_with_fixed_theta_use_all_draws():
    """They share one factorization, and importance draws that grow with their number."""
    model = fit(n_draws=70, n_warmup=0, max_predict_draws=10)
    assert model._predictor.theta.shape == (140, 0)
    predictor = model._predictor
    assert predictor.multiplicity.tolist() == [1.0] * 140
    for n_draws, n_fresh in ((1, 48), (2, 52), (140, 48 + 4 * 139)):
        some = predictor.group(np.arange(n_draws))
        ((given, _),) = predictor.strategy.make_conditionals(some)
        assert given.coefficients.shape == (6, n_draws + n_fresh)


@pytest.mark.statistical
def test_error_of_predictions_falls_with_the_root_of_the_number_of_draws():
    """The standard deviation over refits falls as one over the root of the number of draws.

    From 160 to 1440 draws, that is by a factor of 3: with fewer, importance draws are as many as a
    prediction has at least. Of 24 refits each, the log of the ratio has a standard error of 0.21:
    from 1.4 to 6.5 it is within 3.7 of them.
    """
    x_new = np.full((1, 2), 0.4)

    def spread(n_draws, seeds):
        found = [
            fit(
                6, n_draws=n_draws, target_ess=None, n_warmup=5, n_chains=1, random_state=seed
            ).predict_proba(x_new)
            for seed in seeds
        ]
        return np.std([p[0, 1] for p in found], ddof=1)

    ratio = spread(160, range(24)) / spread(1440, range(24, 48))
    assert 1.4 < ratio < 6.5


def test_predictions_by_parts_of_the_draws_agree_with_those_at_once(monkeypatch):
    """In parts of any size, from other random numbers, to the same within their error."""
    model = fit(n_draws=300, n_warmup=5, predict_cache_bytes=0)
    X_new = np.random.default_rng(0).uniform(size=(5, 2))
    whole = model.predict_proba(X_new)
    np.testing.assert_array_equal(model.predict_proba(X_new), whole)
    assert_allclose(model.predict_proba(X_new[[3]])[0], whole[3], atol=1e-10)
    monkeypatch.setattr(groups, "_MOST_AT_ONCE", 70)
    parts = model.predict_proba(X_new)
    assert_allclose(parts, whole, atol=0.03)
    assert not np.array_equal(parts, whole)
