"""The cells from which the draws of predictions are chosen."""

import numpy as np
from numpy.testing import assert_array_equal

from skgpmcmc.prediction.subset import divide_into_cells


def test_cells_do_not_depend_on_the_origin_and_unit_of_theta():
    """All standardized widths are one, but for rounding, which must not choose the direction."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        theta = rng.standard_normal((200, 3))
        shifted = theta * rng.uniform(0.2, 5.0, 3) + rng.uniform(-5.0, 5.0, 3)
        cells = divide_into_cells(theta, 8)
        assert_array_equal(np.sort(np.concatenate(cells)), np.arange(200))
        for one, other in zip(cells, divide_into_cells(shifted, 8), strict=True):
            assert_array_equal(np.sort(one), np.sort(other))


def test_cells_have_nearly_equal_sizes():
    theta = np.random.default_rng(0).standard_normal((103, 2))
    sizes = [len(cell) for cell in divide_into_cells(theta, 10)]
    assert min(sizes) >= 10
    assert max(sizes) <= 11
