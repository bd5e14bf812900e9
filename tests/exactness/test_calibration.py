"""Simulation-based calibration: of a toy, of its wrong twins, and of every estimator.

The toy has a posterior that is sampled exactly, so that its ranks are uniform by construction.
"""

from functools import partial
from itertools import product

import numpy as np
import pytest
from scipy import stats
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from benchmarks.common import load_results
from benchmarks.sbc import N_KEPT, calibrate
from skgpmcmc.likelihoods import Gaussian
from skgpmcmc.testing import Statistic, rank_p_value, simulation_based_calibration

from ..helpers import make_model, seeded

#: Family-wise over the statistics of a test.
LEVEL = 1e-4
#: A wrong twin must be caught beyond doubt.
CAUGHT = 1e-6

N_REPLICATES = 200
NOISE = 0.5
GRID = np.linspace(-4.0, 6.0, 401)
STEP = GRID[1] - GRID[0]


# --- the toy --------------------------------------------------------------------------------------


def toy():
    """Three points, Gaussian noise of known scale; the variance of f is the one component."""
    return make_model(
        np.array([[0.0], [0.4], [1.0]]),
        np.zeros(3),
        Gaussian(NOISE, fixed=True),
        ConstantKernel() * RBF(1.0, "fixed"),
        priors={"k1__constant_value": stats.lognorm(0.7, scale=2.0)},
    )


def exact_draws(model, rng, *, jacobian=True, width=1.0, shift=0.0, size=63):
    """Independent draws: theta from its density on a grid, f in closed form; or wrong ones."""
    correlation, U = np.linalg.eigh(model.covariance.matrix(np.zeros(1)))
    z = U.T @ model.y
    total = np.exp(GRID)[:, None] * correlation + NOISE**2
    log_p = model.hyperprior.log_prob(GRID[:, None]) - (0.0 if jacobian else GRID)
    log_p -= 0.5 * (np.log(total) + z**2 / total).sum(axis=1)
    p = np.exp(log_p - log_p.max())
    theta = rng.choice(GRID, size=size, p=p / p.sum()) + STEP * rng.uniform(-0.5, 0.5, size)
    prior = np.exp(theta)[:, None] * correlation
    share = prior / (prior + NOISE**2)
    f = share * z + width * NOISE * np.sqrt(share) * rng.standard_normal((size, 3))
    return theta[None, :, None], (f @ U.T + shift)[None]


def from_the_prior(model, rng):
    """Draws that know nothing of the targets."""
    theta, f, _ = zip(*(model.simulate(rng) for _ in range(63)), strict=True)
    return np.array([theta]), np.array([f])


def examined(fit, **settings):
    settings = {"n_replicates": N_REPLICATES, "rng": np.random.default_rng(seeded()), **settings}
    return simulation_based_calibration(toy(), fit, **settings)


def test_calibration_test_passes_for_exact_draws():
    report = examined(exact_draws)
    assert report.p_value > LEVEL, report
    assert list(report.ranks) == [
        "k1__constant_value",
        "f at the first point",
        "log p(y | f)",
        "law of the norm of v",
    ]
    every = np.concatenate(list(report.ranks.values()))
    assert (every.min(), every.max()) == (0, 63)


@pytest.mark.statistical
def test_ranks_stay_uniform_if_some_targets_are_refused():
    report = examined(exact_draws, accept=lambda y: y[0] > 1.0)
    assert report.p_value > LEVEL, report


long = pytest.mark.statistical


@pytest.mark.parametrize(
    "error",
    [
        pytest.param({"width": 0.6}, id="too narrow"),
        pytest.param({"width": 1.6}, marks=long, id="too wide"),
        pytest.param({"jacobian": False}, marks=long, id="no Jacobian"),
        pytest.param({"shift": 0.25}, marks=long, id="shifted"),
    ],
)
def test_calibration_test_catches_each_wrong_posterior(error):
    report = examined(partial(exact_draws, **error))
    assert report.p_value < CAUGHT, report


@pytest.mark.statistical
def test_log_likelihood_ranks_alone_catch_a_fit_that_ignores_the_data():
    report = examined(from_the_prior)
    assert report.p_values["k1__constant_value"] > LEVEL
    assert report.p_values["log p(y | f)"] < CAUGHT


@pytest.mark.statistical
def test_tied_ranks_are_broken_at_random():
    constant = Statistic("constant", lambda draws: np.zeros(len(draws.f)), None)
    report = examined(exact_draws, statistics=[constant])
    assert report.p_value > LEVEL, report


@pytest.mark.statistical
def test_dependent_draws_show_in_the_effective_sample_size():
    def repeated(model, rng):
        theta, f = exact_draws(model, rng, size=8)
        return np.repeat(theta, 8, axis=1), np.repeat(f, 8, axis=1)

    report = examined(repeated)
    assert np.median(report.ess["k1__constant_value"]) < 0.5 * report.n_kept
    assert report.p_value < CAUGHT


def test_too_few_draws_are_refused():
    with pytest.raises(ValueError, match="n_kept=100 draws are ranked, but a fit has only 63"):
        examined(exact_draws, n_kept=100)


# --- the p-value ----------------------------------------------------------------------------------


def test_rank_p_value_equals_the_exact_probability():
    n, n_kept = 4, 3
    outcomes = np.array(list(product(range(n_kept + 1), repeat=n)))
    p = np.array([rank_p_value(ranks, n_kept) for ranks in outcomes])
    for value in np.unique(p.round(9)):
        assert np.mean(p <= value + 1e-8) == pytest.approx(value, abs=1e-8)


@pytest.mark.parametrize("ranks", [np.zeros(50, int), np.full(50, 20), np.arange(50) % 11])
def test_rank_p_value_of_non_uniform_ranks_is_small(ranks):
    assert rank_p_value(ranks, 20) < CAUGHT


# --- estimators -----------------------------------------------------------------------------------


@pytest.mark.parametrize("case", load_results("sbc").get("cases", {}))
def test_committed_calibration_ranks_are_uniform(case):
    """All of them took part, none fails, and the p-values are those of the ranks."""
    result = load_results("sbc")["cases"][case]
    p = {name: rank_p_value(ranks, N_KEPT) for name, ranks in result["ranks"].items()}
    assert p == pytest.approx(result["p_values"])
    assert all(len(ranks) == result["n_replicates"] for ranks in result["ranks"].values())
    assert len(p) * min(p.values()) > LEVEL


@pytest.mark.statistical
@pytest.mark.parametrize("case", ["classifier", "regressor"])
def test_estimator_is_calibrated(case):
    """What is behind the committed ranks, with few replicates.

    Every default sampler is compared with quadrature in `test_every_model` and
    `test_grid_posterior`, which see smaller mistakes than so few ranks.
    """
    report = calibrate(case, n_replicates=10, seed=seeded())
    assert report.p_value > LEVEL, report
    # Chains are continued until theta has twice the draws that are kept; functions of f may have
    # fewer.
    least = min(ess.min() for ess in report.ess.values())
    assert least > 0.5 * report.n_kept, report
