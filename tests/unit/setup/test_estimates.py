"""What is learned of estimates of p(y | theta): where chains go, and from how many draws."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from skgpmcmc.approximations import EP
from skgpmcmc.chain import InProcessExecutor
from skgpmcmc.chain.time_limit import OutOfTimeError, TimeLimit, apply_limit
from skgpmcmc.setup import Request, estimates
from skgpmcmc.setup.emulator.learn import learn_emulator
from skgpmcmc.setup.emulator.noise import TrialEstimate
from skgpmcmc.setup.emulator.options import EmulatorOptions
from skgpmcmc.setup.estimates import calibrate_estimates
from skgpmcmc.setup.report import EmulatorSettings

from ...helpers import Watched, make_model, toy_classes
from .emulator.test_design import Impossible

SETTINGS = EmulatorSettings(0.1, 0.05, None, emulates=True)
#: Log of the relative variance of a weight, that wants this number of draws.
WANTED = 200
LOG_VARIANCE = np.log(WANTED * 0.1**2)


@pytest.fixture(scope="module")
def known():
    """Of a hundred latent values: with fewer, draws reach their upper bound."""
    model = make_model(*toy_classes(100, 2, 0))
    rng = np.random.default_rng(0)
    request = Request(model, EP(), [model.start] * 2, [], rng, None, 0)
    return learn_emulator(request, InProcessExecutor(), EmulatorOptions())


def probing(known, monkeypatch, gap, log_variance):
    """Let probes find a gap to the evidence, (m,), and the log of the relative variance, (m,)."""
    thetas, evidence, _ = known.choose_trial_points()
    probes = zip(thetas, evidence + gap, log_variance, strict=True)
    found = {tuple(theta): TrialEstimate(*own, 0.01) for theta, *own in probes}
    monkeypatch.setattr(estimates, "estimate_at", lambda *of: found[tuple(of[2])])


def test_correction_of_the_evidence_follows_typical_points(known):
    """Elsewhere all is different: that hardly counts, however regular it is."""
    thetas, evidence, _ = known.choose_trial_points()
    typical = np.arange(len(thetas)) % 2 == 0
    batch = known.held_out[-1]._replace(
        theta=thetas,
        log_evidence=evidence,
        shares=np.where(typical, 1.0, 0.0),
    )
    known = replace(known, held_out=(batch,))
    with pytest.MonkeyPatch.context() as patch:
        probing(known, patch, np.where(typical, 0.3, 2.3), np.full(len(thetas), LOG_VARIANCE))
        _, found = calibrate_estimates(known, SETTINGS, InProcessExecutor())
    at = thetas[typical]
    assert np.abs(found.correction.value(at) - 0.3).mean() < 0.1
    assert found.error < 0.5  # of all places alike it is one


def test_number_of_importance_draws_gives_the_wanted_noise(known, monkeypatch):
    n = len(known.choose_trial_points()[0])
    probing(known, monkeypatch, np.full(n, 0.7), np.full(n, LOG_VARIANCE))
    after, found = calibrate_estimates(known, SETTINGS, InProcessExecutor())
    assert found.n_importance == pytest.approx((WANTED, WANTED), rel=0.05)
    assert found.noise == pytest.approx(0.1, rel=0.05)
    assert found.correction.value(known.design.best.theta) == pytest.approx(0.7, abs=0.02)
    assert found.error < 0.02
    assert after.n_evaluations == known.n_evaluations + n
    _, fixed = calibrate_estimates(known, replace(SETTINGS, n_importance=7), InProcessExecutor())
    assert fixed.n_importance == (7, 7)
    assert fixed.noise == pytest.approx(0.1 * np.sqrt(WANTED / 7), rel=0.05)


def test_estimates_after_trajectories_have_at_least_as_many_draws_as_inputs(known, monkeypatch):
    """They cost little beside the fits of a trajectory, which leads the chains here."""
    thetas, evidence, _ = known.choose_trial_points()
    states = [
        SimpleNamespace(position=theta, log_evidence=value)
        for theta, value in zip(thetas, evidence, strict=True)
    ]
    led = replace(known, examined=None, exploration=SimpleNamespace(states=states))
    n = len(thetas)
    few = np.full(n, np.log(40 * 0.1**2))
    for state, n_draws in ((known, 40), (led, known.model.n_inputs)):
        probing(state, monkeypatch, np.zeros(n), few)
        _, found = calibrate_estimates(state, SETTINGS, InProcessExecutor())
        assert found.n_importance == pytest.approx((n_draws, n_draws), rel=0.05)


def test_every_probe_has_its_own_random_stream(known):
    workers = Watched()
    _, found = calibrate_estimates(known, SETTINGS, workers)
    ((_, items, _),) = workers.batches
    assert len({str(item[5]) for item in items}) == len(items)
    assert EmulatorOptions().fewest_draws <= found.n_importance[0] <= found.n_importance[1]
    assert sum(found.mixture({"walk": None}, 0.03).probabilities) == pytest.approx(1.0)


def test_calibration_of_estimates_fails_if_no_probe_has_a_likelihood(known):
    impossible = known.model.with_observations(likelihood=Impossible())
    with pytest.raises(RuntimeError, match="No chain can start"):
        calibrate_estimates(replace(known, model=impossible), SETTINGS, InProcessExecutor())


def test_calibration_of_estimates_is_not_made_in_part(known):
    with apply_limit(TimeLimit(-np.inf)), pytest.raises(OutOfTimeError):
        calibrate_estimates(known, SETTINGS, InProcessExecutor())
