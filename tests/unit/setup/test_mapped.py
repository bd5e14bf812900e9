"""How the set-up of mapped moves chooses and tunes."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skgpmcmc.approximations import Exact, SubsetOfData
from skgpmcmc.chain import InProcessExecutor
from skgpmcmc.likelihoods import Gaussian
from skgpmcmc.model import (
    LatentGP,
    Observations,
    default_hyperprior,
    default_kernel,
    make_covariance,
)
from skgpmcmc.samplers import DiscretizingChain
from skgpmcmc.setup import Request, mapped
from skgpmcmc.setup.mapped import PilotResult, _cost_per_step, autocorrelation_times, run_pilot
from skgpmcmc.transitions import UnivariateSlice

from ...helpers import in_one_test


@in_one_test("r", [0.2, 0.9])
def test_autocorrelation_times_of_autoregressions(r):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 200))
    steps = [x]
    for _ in range(199):
        x = r * x + np.sqrt(1.0 - r**2) * rng.standard_normal(x.shape)
        steps.append(x)
    found = autocorrelation_times(np.stack(steps, axis=-1))
    assert_allclose(found, (1.0 + r) / (1.0 - r), rtol=0.15)


def test_a_chain_that_stands_still_is_the_slowest():
    runs = np.random.default_rng(0).standard_normal((2, 4, 30))
    runs[1] = runs[1, :, :1]
    moving, still = autocorrelation_times(runs)
    assert moving < 1.5
    assert still > 100.0


class _Target:
    cost = 3.0


class _Layer:
    target = _Target()


def test_cost_adds_up_evaluations_of_both_kinds():
    pilots = [PilotResult(np.zeros(1), None, n, [c]) for n, c in ((0.5, 10.0), (1.5, 30.0))]
    assert _cost_per_step(pilots, [_Layer()], 100.0) == pytest.approx(20.0 * 3.0 + 100.0)


@pytest.mark.parametrize("operator", ["mh", "slice"])
def test_pilots_begin_where_those_of_the_dearer_have_ended(operator, monkeypatch):
    """From far outside the target, a chain that goes there would seem to mix well."""
    for name in ("_N_TUNING", "_N_PILOT", "_N_JUDGED"):  # where pilots begin is all that matters
        monkeypatch.setattr(mapped, name, 5)
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(40, 1))
    covariance = make_covariance(default_kernel(1), X)
    y = np.sin(6.0 * X[:, 0]) + 0.1 * rng.standard_normal(40)
    prior = default_hyperprior(covariance, Gaussian())
    model = LatentGP(covariance, Observations(Gaussian(), y), prior)
    request = Request(
        model, Exact(), [model.start] * 2, rng.spawn(2), rng, None, 40, SubsetOfData()
    )
    workers = Watched()
    DiscretizingChain(operator=operator).set_up(request, workers)
    pilots = [(items, results) for made, items, results in workers.batches if made is run_pilot]
    sizes = [len(items[0][2][0].target.model.y) for items, _ in pilots]
    whole = [items[0][1].whole for items, _ in pilots]
    if operator == "mh":
        assert (sizes, whole) == ([16, 8, 4], [False] * 3)
    else:
        assert (sizes, whole) == ([16, 16, 8, 8, 4, 4], [False, True] * 3)
    for (_, ended), (items, _) in pairwise(pilots):
        for result, item in zip(ended, items, strict=True):
            assert_array_equal(item[3], result.theta)


class Watched(InProcessExecutor):
    """Keeps what it has made."""

    def __init__(self):
        self.batches = []

    def map(self, function, items, stage, **told):
        results = super().map(function, items, stage, **told)
        self.batches.append((function, items, results))
        return results


class Normal:
    """Two coordinates, of standard deviations 1 and 100."""

    spreads = np.array([1.0, 100.0])

    def __init__(self, position, log_density=None):
        self.position, self.log_density = position, log_density

    def at(self, position):
        return Normal(position, -0.5 * float(np.sum((position / self.spreads) ** 2)))


def test_a_slice_with_widths_of_its_own_needs_fewer_evaluations():
    rng = np.random.default_rng(0)
    target = Normal(None)
    plain = UnivariateSlice()
    shaped = plain.with_spreads_of(np.diag([1.0, 1e4]))
    assert shaped.reverse().spreads == shaped.spreads == (1.0, 100.0)
    means = []
    for operator in (plain, shaped):
        point, positions = target.at(np.zeros(2)), []
        for _ in range(300):
            point = operator.move(target, point, rng).point
            positions.append(point.position)
        means.append(np.std(positions, axis=0))
    assert means[0][1] < 60.0
    assert_allclose(means[1], [1.0, 100.0], rtol=0.2)
