"""How the set-up of mapped moves chooses and tunes."""

import numpy as np
from numpy.testing import assert_allclose

from skgpmcmc.setup.mapped import autocorrelation_times
from skgpmcmc.transitions import UnivariateSlice

from ...helpers import in_one_test


@in_one_test("r", [0.2, 0.9])
def test_autocorrelation_times_of_autoregressions_match_theory(r):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 200))
    steps = [x]
    for _ in range(199):
        x = r * x + np.sqrt(1.0 - r**2) * rng.standard_normal(x.shape)
        steps.append(x)
    found = autocorrelation_times(np.stack(steps, axis=-1))
    assert_allclose(found, (1.0 + r) / (1.0 - r), rtol=0.15)


def test_chain_that_stands_still_has_the_longest_autocorrelation_time():
    runs = np.random.default_rng(0).standard_normal((2, 4, 30))
    runs[1] = runs[1, :, :1]
    moving, still = autocorrelation_times(runs)
    assert moving < 1.5
    assert still > 100.0


class Normal:
    """Two coordinates, of standard deviations 1 and 100."""

    spreads = np.array([1.0, 100.0])

    def __init__(self, position, log_density=None):
        self.position, self.log_density = position, log_density

    def at(self, position):
        return Normal(position, -0.5 * float(np.sum((position / self.spreads) ** 2)))


def test_slice_with_tuned_widths_needs_fewer_evaluations():
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
