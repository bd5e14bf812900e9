"""The search for quantiles of counts."""

import numpy as np
from numpy.testing import assert_array_equal
from scipy import stats

from skgpmcmc.prediction.quantiles import _find_counts

from ...helpers import in_one_test

PROBABILITIES = [1e-6, 0.05, 0.5, 0.95, 1.0 - 1e-9]
MEANS = np.geomspace(1e-3, 1e9, 40)


def search(law, probability, first, largest=1e20):
    """Search by the distribution functions of laws that have a parameter for each row."""
    n_rows = []

    def cdf(y, rows):
        n_rows.append(len(rows))
        return law(rows).cdf(y)

    return _find_counts(cdf, probability, first, largest), n_rows


@in_one_test("factor", [1e-3, 1.0, 1e3])
def test_count_is_the_least_with_the_probability_wherever_the_search_begins(factor):
    for probability in PROBABILITIES:
        first = np.ceil(factor * MEANS)
        found, _ = search(lambda rows: stats.poisson(MEANS[rows]), probability, first)
        assert (
            stats.poisson(MEANS).cdf(found)
            >= probability - 1e-9 * min(probability, 1 - probability)
        ).all()
        assert (stats.poisson(MEANS).cdf(found - 1.0) < probability).all()


def test_successes_are_found_by_halving_their_trials():
    trials = np.array([1.0, 2.0, 7.0, 1000.0, 2.0**26 - 1.0])
    for probability in PROBABILITIES:
        found, n_rows = search(lambda rows: stats.binom(trials[rows], 0.3), probability, trials)
        assert_array_equal(found, stats.binom(trials, 0.3).ppf(probability))
        assert len(n_rows) <= 28
        assert n_rows[-1] == 1  # only the rows whose search goes on


def test_count_beyond_the_largest_is_infinite():
    found, _ = search(lambda rows: stats.poisson(MEANS[rows]), 0.5, np.ones(40), largest=1e5)
    assert_array_equal(found, np.where(MEANS < 6e4, stats.poisson(MEANS).ppf(0.5), np.inf))
