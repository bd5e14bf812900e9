"""One goal says when chains are long enough, for those who stop and for those who report."""

import numpy as np
import pytest

from skgpmcmc.run import (
    ConvergenceGoal,
    Diagnostics,
    gelman_rubin,
    rank_r_hat,
    summarize_convergence,
)
from skgpmcmc.run.convergence import MIN_ESS

from ...helpers import in_one_test


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def heavy_tails():
    """Chains whose bulk mixes at once, while they stay in the tails for long."""
    x = normal(4, 400, 1)
    scale = np.repeat(np.where(np.arange(8) % 4 == 0, 6.0, 1.0), 50)
    return x * scale[:, None]


@in_one_test(
    ("r_hat", "bulk", "tail", "target", "expected"),
    [
        (1.0, 100.0, 100.0, None, True),
        (1.0, 99.0, 500.0, None, False),
        (1.0, 500.0, 99.0, None, False),
        (1.02, 500.0, 500.0, None, False),
        (np.inf, 0.0, 0.0, None, False),
        (1.0, 400.0, 400.0, 400.0, True),
        (1.0, 399.0, 500.0, 400.0, False),
        (1.0, 500.0, 399.0, 400.0, False),
        (1.0, 50.0, 50.0, 20.0, False),  # the least of MIN_ESS holds as well
        (1.0, 100.0, 100.0, 20.0, True),
    ],
)
def test_convergence_goal_is_met_if_every_measure_is(r_hat, bulk, tail, target, expected):
    values = (np.array([value]) for value in (r_hat, bulk, tail))
    assert ConvergenceGoal(1.01, target).is_met(*values).tolist() == [expected]


def test_convergence_goal_includes_the_tail_ess():
    chains = heavy_tails()
    found = summarize_convergence(chains)
    assert found.ess_tail[0] < found.ess_bulk[0]
    between = 0.5 * float(found.ess_tail[0] + found.ess_bulk[0])
    assert found.r_hat[0] < 1.1
    assert ConvergenceGoal(1.1, between).estimate_missing(chains) > 0.0
    assert ConvergenceGoal(1.1, MIN_ESS).estimate_missing(normal(4, 400, 1)) == 0.0


def test_sampling_never_stops_below_the_ess_of_the_warning():
    chains = normal(2, 40, 2)
    assert summarize_convergence(chains).ess_bulk.min() < MIN_ESS
    assert ConvergenceGoal(2.0, 20.0).estimate_missing(chains) > 0.0


def test_chains_that_differ_never_reach_the_goal():
    chains = normal(4, 2000, 2)
    chains[0, :, 1] += 0.4
    found = summarize_convergence(chains)
    assert found.r_hat[1] > 1.01
    assert min(found.ess_bulk.min(), found.ess_tail.min()) > MIN_ESS
    assert ConvergenceGoal(1.5, MIN_ESS).estimate_missing(chains) == 0.0
    # By chance R-hat exceeds one by a share of one over the number of draws; here it never falls,
    # and so much is missing each time.
    expected = (found.r_hat[1] - 1.0) / 0.01 - 1.0
    assert ConvergenceGoal(1.01, MIN_ESS).estimate_missing(chains) == pytest.approx(expected)
    assert ConvergenceGoal(1.0, MIN_ESS).estimate_missing(chains) == np.inf


def test_slightly_large_r_hat_asks_for_few_more_draws():
    chains = normal(4, 200, 1)
    chains[0] += 0.5
    r_hat = float(summarize_convergence(chains).r_hat[0])
    assert r_hat > 1.0
    limit = 1.0 + (r_hat - 1.0) / 1.1
    assert ConvergenceGoal(limit, MIN_ESS).estimate_missing(chains) == pytest.approx(0.1)


def test_missing_draws_follow_from_the_effective_sample_size():
    chains = normal(4, 400, 1)
    found = summarize_convergence(chains)
    least = float(np.minimum(found.ess_bulk, found.ess_tail).min())
    assert ConvergenceGoal(1.1, 3.0 * least).estimate_missing(chains) == pytest.approx(2.0)
    chains[:] = chains[:1]  # nothing is known of chains that are copies of one another
    chains[:, :, 0] = 1.0
    assert ConvergenceGoal(1.1, MIN_ESS).estimate_missing(chains) == np.inf


@in_one_test("target_ess", [None, 20.0, 150.0, 600.0])
@in_one_test("n_draws", [30, 60, 400])
def test_stopping_rule_and_convergence_report_agree(n_draws, target_ess):
    """A run that has met its target is not reported as too short, and the other way round."""
    chains = heavy_tails()[:, :n_draws] if n_draws == 60 else normal(4, n_draws, 2)
    found = summarize_convergence(chains)
    report = object.__new__(Diagnostics)
    vars(report).update(r_hat=found.r_hat, ess_bulk=found.ess_bulk, ess_tail=found.ess_tail)
    goal = ConvergenceGoal(1.05, MIN_ESS if target_ess is None else target_ess)
    assert (goal.estimate_missing(chains) == 0.0) == report.converged(1.05, target_ess)


@in_one_test(
    "r_hat",
    [lambda x: rank_r_hat(x)[0], lambda x: gelman_rubin(x).estimate[0]],
    ids=["rank", "Gelman-Rubin"],
)
def test_single_chain_is_judged_by_its_two_halves(r_hat):
    chain = normal(1, 400, 1)
    assert r_hat(chain) < 1.02
    chain[:, 200:] += 3.0
    assert r_hat(chain) > 1.5
