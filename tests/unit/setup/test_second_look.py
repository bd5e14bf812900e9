"""A second look: where chains show an emulator to be wrong after it was examined."""

import warnings
from dataclasses import replace
from types import SimpleNamespace

import joblib
import numpy as np
import pytest

from skgpmcmc.approximations import EP
from skgpmcmc.chain.counts import ChainCounts
from skgpmcmc.run.chains import sample_chains
from skgpmcmc.samplers import PseudoMarginal
from skgpmcmc.setup import Request, emulated
from skgpmcmc.setup.emulator.options import EmulatorOptions

from ...helpers import Watched, in_one_test, make_model, streams, toy_classes

LED = emulated.propose_by_emulator


class Elsewhere:
    """An emulated posterior that is far from where it was when it was examined."""

    def __init__(self, target, by):
        self.target, self.by = target, by

    def with_correction(self, correction):
        return Elsewhere(self.target.with_correction(correction), self.by)

    def log_prob(self, theta):
        return self.target.log_prob(theta - self.by)


def misled(monkeypatch, n_times):
    """Lead chains by a wrong emulator so many times; returns the list of those that led."""
    leads = []

    def led(known, estimates, n_chains, workers):
        state, right = LED(known, estimates, n_chains, workers)
        leads.append(known)
        if len(leads) > n_times:
            return state, right
        wrong = Elsewhere(known.examined.posterior, 4.0 * known.scale)
        poor = replace(known, examined=known.examined._replace(posterior=wrong, error=0.0))
        # Chains begin where they would: they find out.
        _, proposals = LED(poor, estimates, n_chains, workers)
        return state, proposals._replace(starts=right.starts)

    monkeypatch.setattr(emulated, "propose_by_emulator", led)
    return leads


def set_up(n_warmup=30):
    """Of four chains; returns what it prepared, and its executor."""
    model, workers = make_model(*toy_classes(12, 2, 1)), Watched()
    starts = [model.start] * 4
    request = Request(model, EP(), starts, streams(4, 2), np.random.default_rng(3), None, n_warmup)
    return PseudoMarginal().set_up(request, workers), workers


def test_low_acceptance_of_chains_refines_the_emulator_once(monkeypatch):
    leads = misled(monkeypatch, 1)
    prepared, workers = set_up()
    first, second = leads
    assert workers.stages.count("burn-in") == 2
    # Places where chains stayed have joined the design, and emulators are examined anew.
    look = workers.stages.index("a second look")
    theirs = {tuple(theta) for s in workers.batches[look - 1][2] for theta in s.theta}
    shown = {tuple(point.theta) for point in workers.batches[look][2]}
    assert 1 <= len(shown) <= EmulatorOptions().batch(2)
    assert shown <= theirs & {tuple(theta) for theta in second.design.theta}
    assert second.examined.posterior is not first.examined.posterior
    assert len(second.held_out) > len(first.held_out)
    # All of it is counted, and the chains go on from the second time.
    segments = [s for _, _, found in workers.batches for s in found if hasattr(s, "counts")]
    n_evaluations = sum(segment.counts.n_evaluations for segment in segments)
    assert prepared.n_evaluations > n_evaluations + len(second.design)
    assert [segment.state for segment in workers.batches[-1][2]] == list(prepared.states)


def test_low_acceptance_after_the_refinement_causes_a_warning(monkeypatch):
    leads = misled(monkeypatch, 2)
    said = r"Chains accept \d+% of the proposals of the emulator, where it predicts \d+%, also"
    with pytest.warns(UserWarning, match=said):
        _, workers = set_up()
    assert len(leads) == 2
    assert workers.stages.count("a second look") == 1


@in_one_test("n_warmup", [0, 1])
def test_few_iterations_do_not_refine_the_emulator(n_warmup):
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("error")
        leads = misled(patch, 2)
        prepared, workers = set_up(n_warmup)
    assert len(leads) == 1
    assert "a second look" not in workers.stages
    assert prepared.n_tuned == n_warmup


def test_expected_acceptance_does_not_refine_the_emulator():
    _, workers = set_up()
    assert workers.stages.count("burn-in") == 1
    assert "a second look" not in workers.stages


@in_one_test(
    ("n_accepted", "n_made", "expected"),
    [(0, 0, False), (0, 18, False), (0, 19, True), (45, 200, False), (28, 200, True)],
)
def test_refinement_needs_an_acceptance_improbable_at_a_quarter_of_the_prediction(
    n_accepted, n_made, expected
):
    """At a prediction of 0.9, what would have a probability of a hundredth at a quarter of that."""
    counts = ChainCounts()
    counts.n_steps["rotation"], counts.n_accepted["rotation"] = n_made, n_accepted
    counts.n_steps["random walk"] = 1000
    led, known = (
        SimpleNamespace(main="rotation"),
        SimpleNamespace(usable=True, acceptance=0.9, options=EmulatorOptions()),
    )
    assert emulated._is_surprising(counts, led, known) is expected
    known.usable = False  # nothing was predicted
    assert not emulated._is_surprising(counts, led, known)


def test_draws_after_a_refinement_do_not_depend_on_workers():
    model, draws = make_model(*toy_classes(12, 2, 1)), []
    for n_jobs in (1, 2):
        with pytest.MonkeyPatch.context() as patch, joblib.parallel_config("threading"):
            leads = misled(patch, 1)
            run = sample_chains(
                [model], PseudoMarginal(), EP(), n_importance=None, n_chains=2, n_warmup=30,
                n_draws=5, seed=np.random.SeedSequence(1), n_jobs=n_jobs,
            )  # fmt: skip
        assert len(leads) == 2
        draws.append(run.models[0].draws.theta)
    np.testing.assert_array_equal(*draws)
