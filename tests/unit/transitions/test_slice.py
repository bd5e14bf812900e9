"""Slice moves keep a density from which their starts are exact draws."""

import numpy as np
import pytest
from scipy import stats

from skgpmcmc.transitions import EllipticalSlice
from skgpmcmc.transitions.slice import UnivariateSlice
from skgpmcmc.transitions.surrogate import CheapPoint

from ...helpers import make_model

#: Least p-value; a right move fails for one seed in ten thousand.
LEAST = 1e-4


class Exponential:
    """The law of -log of a uniform variable, in each of two coordinates."""

    def value_and_gradient(self, x):
        inside = (x >= 0.0).all(axis=-1)
        return np.where(inside, -x.sum(axis=-1), -np.inf), -np.ones_like(x)

    def log_prob(self, x):
        return self.value_and_gradient(x)[0]

    def at(self, x):
        return CheapPoint.at(self, x) if (x >= 0.0).all() else None


@pytest.mark.parametrize("max_widths", [1, 3])
def test_univariate_slice_keeps_an_exponential_law(max_widths):
    rng = np.random.default_rng(0)
    target = Exponential()
    move = UnivariateSlice(max_widths=max_widths)
    ends = []
    for start in rng.exponential(size=(1500, 2)):
        point = target.at(start)
        for _ in range(3):
            point = move.move(target, point, rng).point
        ends.append(point.position)
    assert stats.kstest(np.ravel(ends), "expon").pvalue > LEAST


def test_elliptical_slice_keeps_the_posterior_of_a_row():
    """Starts have the exact posterior: they come from its distribution function on a grid."""
    rng = np.random.default_rng(1)
    model = make_model(np.zeros((1, 1)), np.array([1.0]))
    prior = model.prior_at(model.start)
    scale = float(prior.K[0, 0]) ** 0.5
    grid = scale * np.linspace(-6.0, 6.0, 4001)
    density = stats.norm.cdf(grid) * stats.norm.pdf(grid, scale=scale)
    cdf = np.cumsum(density) / density.sum()
    move = EllipticalSlice()
    ends = []
    for u in rng.uniform(size=3000):
        state = model.state_in(prior, np.interp([u], cdf, grid))
        for _ in range(2):
            state, _ = move.step(model, state, rng)
        ends.append(state.f[0])
    assert stats.kstest(np.interp(ends, grid, cdf), "uniform").pvalue > LEAST
