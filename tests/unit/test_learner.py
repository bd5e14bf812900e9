"""The set-up goes on learning where its emulator is found to be wrong."""

import numpy as np
import pytest

from skgpmcmc.approximations import Laplace
from skgpmcmc.warmup import perform
from skgpmcmc.warmup.emulator.design import search
from skgpmcmc.warmup.emulator.learn import Learner

from ..helpers import make_model, toy_classes


def finish(work):
    """Do what a part of a set-up asks for; returns the number of batches."""
    n_batches, results = 0, None
    while True:
        try:
            tasks = work.send(results)
        except StopIteration:
            return n_batches
        n_batches += 1
        results = [perform(task).value for task in tasks]


@pytest.fixture
def learner():
    model = make_model(*toy_classes(30, 2, 0))
    path = search(model, Laplace(), model.start)
    learner = Learner(model, Laplace(), np.random.default_rng(0), [path])
    finish(learner.measure_scale())
    return learner


def test_complete_design_stays(learner):
    finish(learner.refine(12))
    assert 0.0 < learner.held_out_error < 0.05
    assert finish(learner.refine(6)) == 0


def test_known_error_makes_the_design_grow(learner):
    finish(learner.refine(12))
    n_points = len(learner.design)
    assert finish(learner.refine(6, known_error=3.0)) > 0
    assert len(learner.design) > n_points
    assert 0.0 < learner.held_out_error < 0.05


def test_points_that_only_the_emulator_believes_in_count_where_pi_star_is_in_doubt(learner):
    finish(learner.refine(12))
    target = learner.emulate()
    point = learner.design.best
    emulated = float(target.emulator.value_and_gradient(point.theta)[0])
    lower = point.log_density + emulated - 40.0 - point.log_evidence
    pocket = point._replace(log_evidence=emulated - 40.0, log_density=lower)
    assert learner._error(target, [pocket], everywhere=False) == np.inf  # no point counts
    assert learner._error(target, [pocket], everywhere=True) == pytest.approx(40.0)
