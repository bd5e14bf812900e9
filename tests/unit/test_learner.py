"""The set-up goes on learning where its emulator is found to be wrong."""

import numpy as np
import pytest

from skgpmcmc.approximations import Laplace
from skgpmcmc.warmup import Request, perform
from skgpmcmc.warmup.emulator.learn import _error, measured, refined, searched

from ..helpers import make_model, toy_classes


def finish(step):
    """Do what a step of a set-up asks for; returns its result and the number of batches."""
    n_batches, results = 0, None
    while True:
        try:
            tasks = step.send(results)
        except StopIteration as end:
            return end.value, n_batches
        n_batches += 1
        results = [perform(task).value for task in tasks]


def begun(model, n_starts=1):
    """What is known after searches from the kernel's own values."""
    rng = np.random.default_rng(0)
    request = Request(model, Laplace(), [model.start] * n_starts, [None] * n_starts, rng, None, 0)
    known, _ = finish(searched(request))
    return finish(measured(known))[0]


@pytest.fixture(scope="module")
def complete():
    return finish(refined(begun(make_model(*toy_classes(30, 2, 0))), 12))[0]


def test_complete_design_stays(complete):
    assert 0.0 < complete.held_out_error < 0.1
    same, n_batches = finish(refined(complete, 6))
    assert n_batches == 0
    assert same.design is complete.design


def test_known_error_makes_the_design_grow(complete):
    known, n_batches = finish(refined(complete, 6, known_error=3.0))
    assert n_batches > 0
    assert len(known.design) > len(complete.design)
    assert 0.0 < known.held_out_error < 0.1


def test_what_was_known_before_a_step_stays(complete):
    n_points, root = len(complete.design), complete.root.copy()
    known, _ = finish(refined(complete, 6, known_error=3.0))
    assert known.n_evaluations > complete.n_evaluations
    assert len(complete.design) == n_points
    np.testing.assert_array_equal(complete.root, root)


def test_points_that_only_the_emulator_believes_in_count(complete):
    known = complete.emulated()
    target, point = known.target(), known.design.best
    emulated = float(target.emulator.value_and_gradient(point.theta)[0])
    lower = point.log_density + emulated - 40.0 - point.log_evidence
    pocket = point._replace(log_evidence=emulated - 40.0, log_density=lower)
    assert _error(known, target, [pocket]) == pytest.approx(40.0)
