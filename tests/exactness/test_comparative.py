"""The bench of the comparative evaluation: what stands still, and how methods are ordered."""

import numpy as np
import pytest
from scipy.signal import lfilter

from benchmarks.papers import comparative
from benchmarks.papers.comparative import Length, cells, measure, order, simulated
from skgpmcmc.parameterizations import AncillaryAugmentation, SufficientAugmentation
from skgpmcmc.transitions import HyperUpdate

TINY = Length(n_data=1, n_chains=2, n_warmup=10, n_draws=20)
SCALE = comparative.Scale((20,), (2,), (), {}, {})


@pytest.mark.statistical
@pytest.mark.parametrize("cell", list(cells(SCALE)), ids=lambda cell: f"{cell.table} {cell.group}")
def test_every_method_of_every_table_runs(cell):
    for method in cell.methods:
        (result,) = measure(cell, method, TINY)["sets"]
        assert len(result["ess"]) == 2
        assert sum(result["operations"].values()) > 0.0
        assert all(0.0 <= rate <= 1.0 for rate in result["acceptance"].values())


def test_inputs_hyperparameters_and_f_are_the_same_for_all_likelihoods():
    first, *others = (simulated(name, 20, 2, 0) for name in comparative.LIKELIHOODS)
    for other in others:
        np.testing.assert_array_equal(first.model.covariance.X, other.model.covariance.X)
        np.testing.assert_array_equal(first.theta, other.theta)
        np.testing.assert_array_equal(first.f, other.f)


@pytest.mark.parametrize("kind", [SufficientAugmentation, AncillaryAugmentation])
def test_chains_of_theta_start_from_the_f_that_generated_the_data(kind):
    problem = simulated("lrg", 20, 2, 0)
    run = comparative.hyper_run(problem, "MH", TINY, [0], kind)
    prepared = run.set_ups[0]
    (part,) = prepared.transition.moves
    assert isinstance(part, HyperUpdate)
    model, state = problem.model, prepared.states[0]
    assert state.theta[0] == problem.theta[0]
    assert (state.theta[1:] != problem.theta[1:]).all()
    if kind is SufficientAugmentation:
        np.testing.assert_array_equal(state.f, problem.f)
    else:
        truth = model.prior_at(problem.theta).whiten(problem.f)
        np.testing.assert_allclose(state.prior.whiten(state.f), truth, rtol=1e-6, atol=1e-6)


def test_order_of_convergence_sorts_methods_and_joins_ties():
    rng = np.random.default_rng(0)

    def method(r_hat):
        sets = [{"r_hat_of_each": r_hat + 0.01 * rng.standard_normal(40)}]
        return {"length": {"n_draws": 100}, "sets": sets}

    methods = {"slow": method(2.0), "fast": method(1.0), "as fast": method(1.0)}
    assert order(methods) in ("2, 3|1", "3, 2|1", "2|3|1", "3|2|1")
    methods["stuck"] = {"length": {"n_draws": 100}, "sets": [{"r_hat_of_each": [None] * 40}]}
    assert order(methods).endswith("1|4")
    methods["short"] = {**method(1.0), "length": {"n_draws": 50}}
    assert order(methods).endswith("1|4")


def test_a_stuck_chain_has_no_effective_draws():
    chain = np.random.default_rng(0).standard_normal((200, 2))
    assert comparative._least(chain, comparative._geyer) > 100.0
    chain[:, 1] = 3.0
    assert comparative._least(chain, comparative._geyer) == 0.0


@pytest.mark.parametrize("phi", [0.0, 0.6, 0.95])
def test_effective_draws_of_an_autoregression_match_theory(phi):
    n = 20_000
    noise = np.random.default_rng(1).standard_normal((n, 3))
    chain = lfilter([1.0], [1.0, -phi], noise, axis=0)
    wanted = n * (1.0 - phi) / (1.0 + phi)
    for ess in (comparative._geyer, comparative._autoregressive):
        np.testing.assert_allclose(ess(chain), wanted, rtol=0.2)
