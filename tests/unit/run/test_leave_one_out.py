"""Leave-one-out with f integrated out: draws of theta, their weights, and what they come to."""

from dataclasses import replace
from functools import partial

import joblib
import numpy as np
import pytest
from arviz_stats.base.array import array_stats
from numpy.testing import assert_array_equal
from scipy import stats
from scipy.special import logsumexp
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skgpmcmc import BayesianGPClassifier, BayesianGPRegressor
from skgpmcmc.run.leave_one_out import LeaveOneOut, PointwiseDensities, _average, _thin

from ...helpers import short_chains

RNG = np.random.default_rng(0)
X = np.linspace(0.0, 3.0, 12)[:, None]
Y = np.sin(2.0 * X[:, 0]) + 0.3 * RNG.standard_normal(12)
QUICK = {"n_chains": 2, "n_warmup": 20, "n_draws": 40, "target_ess": None, "random_state": 0}


@pytest.fixture(scope="module")
def regressor():
    with short_chains():
        return BayesianGPRegressor(normalize_y=False, **QUICK).fit(X, Y)


def densities(model):
    """Log p(y_i | y_-i, theta) and log p(y_i again | y, theta) of each draw, in closed form."""
    found = []
    for theta in model.theta_samples_.reshape(-1, 4):
        K = model.kernel_.clone_with_theta(theta[:3])(X)
        noise = np.exp(2.0 * theta[3])
        inverse = np.linalg.inv(K + noise * np.eye(12))
        var = 1.0 / inverse.diagonal()  # R&W (5.12)
        mean = Y - inverse @ Y * var
        inside = K @ inverse @ Y, (K - K @ inverse @ K).diagonal() + noise
        found.append(
            [stats.norm.logpdf(Y, m, np.sqrt(v)) for m, v in ((mean, var), inside)],
        )
    return np.moveaxis(found, 1, 0).reshape(2, 2, 40, 12)


def test_elpd_of_a_regression_equals_its_closed_form(regressor):
    left_out, inside = densities(regressor)
    result = regressor.loo()
    axes = {"chain_axis": 0, "draw_axis": 1}
    relative = array_stats.ess(left_out, method="mean", relative=True, **axes)
    efficiency = float(np.clip(np.mean(relative), 0.0, 1.0))
    for i in range(12):
        elpd, k, _ = array_stats.loo(left_out[..., i], r_eff=efficiency, **axes)
        assert result.elpd_i[i] == pytest.approx(elpd, abs=1e-7)
        assert result.pareto_k[i] == pytest.approx(k, abs=1e-5)
    lppd = logsumexp(inside.reshape(80, 12), axis=0) - np.log(80.0)
    assert result.p_loo == pytest.approx(lppd.sum() - result.elpd, abs=1e-6)
    assert result.method == "integrated"


def test_line_of_leave_one_out_says_what_the_weights_are_over():
    result = LeaveOneOut(-9.0, 2.0, 3.0, np.full(3, -3.0), np.array([0.1, 0.2, 0.3]), "integrated")
    assert str(result) == "elpd -9.0 +- 2.0, p_loo 3.0 (weights over the hyper-parameters)"
    bad = replace(result, pareto_k=np.array([0.1, 0.8, np.inf]))
    assert "; 2 rows with Pareto k > 0.7 of the weights over the hyper-parameters: fit" in str(bad)
    other = replace(bad, method="psis")
    assert 'weights over f and the hyper-parameters: use method="integrated"' in str(other)


def test_number_of_workers_does_not_change_leave_one_out(regressor):
    found = regressor.loo()
    with joblib.parallel_config(backend="threading", n_jobs=2):
        assert_array_equal(regressor.loo().elpd_i, found.elpd_i)


def test_leave_one_out_refuses_an_unknown_method(regressor):
    with pytest.raises(ValueError, match=r"method must be one of \['integrated', 'psis'\]"):
        regressor.loo("is")


def test_leave_one_out_of_fixed_hyper_parameters_needs_no_weights():
    kernel = ConstantKernel(1.0, "fixed") * RBF(1.0, "fixed")
    model = BayesianGPClassifier(kernel, sampler="aa", **{**QUICK, "n_draws": 4}).fit(X, Y > 0.0)
    result = model.loo()
    assert_array_equal(result.pareto_k, 0.0)
    assert np.all(result.elpd_i < 0.0)
    assert result.p_loo > 0.0


def test_many_draws_are_thinned_evenly():
    theta = np.arange(6000.0).reshape(2, 3000, 1)
    few = _thin(theta)
    assert few.shape == (2, 500, 1)
    assert_array_equal(few[:, [0, -1]], theta[:, [0, -1]])
    steps = np.diff(few[:, :, 0], axis=1)
    assert steps.min() >= 6
    assert steps.max() <= 7
    assert_array_equal(_thin(theta[:, :500]), theta[:, :500])
    assert _thin(np.empty((2, 3000, 0))).shape == (1, 1, 0)


def test_pareto_tail_is_shorter_if_chains_repeat_values():
    """Its length is that for as many effective draws as there are: ArviZ has 3 sqrt(S / r_eff)."""
    rng = np.random.default_rng(0)
    log_lik = np.repeat(1.5 * rng.standard_t(4.0, (4, 100, 3)), 8, axis=1)
    result = _average(PointwiseDensities(log_lik, log_lik, log_lik))
    axes = {"chain_axis": 0, "draw_axis": 1}
    relative = array_stats.ess(log_lik, method="mean", relative=True, **axes)
    assert np.mean(relative) < 0.2
    smoothed = partial(array_stats.loo, **axes)
    for i in range(3):
        elpd, k, _ = smoothed(log_lik[..., i], r_eff=float(np.mean(relative)))
        assert result.left_out[i] == pytest.approx(elpd, rel=1e-10)
        assert result.pareto_k[i] == pytest.approx(k, rel=1e-10)
        _, other, _ = smoothed(log_lik[..., i], r_eff=1.0)
        assert abs(other - k) > 1e-3
