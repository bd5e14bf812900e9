"""The comparison with a known answer: its z-scores are standard normal, and mistakes show."""

import numpy as np
import pytest
from scipy import stats

from skgpmcmc.testing import PROBABILITIES, Reference, exact_answer_test

QUANTILES = stats.norm.ppf(PROBABILITIES)


def metropolis(n_draws, q, rng, n_chains=4):
    """Chains of a random walk on q standard normal variables, which repeats many values."""
    x = rng.standard_normal((n_chains, q))
    draws = np.empty((n_chains, n_draws, q))
    for i in range(n_draws):
        new = x + 3.0 * rng.standard_normal(x.shape)
        accepted = np.log1p(-rng.uniform(size=x.shape)) < 0.5 * (x**2 - new**2)
        x = np.where(accepted, new, x)
        draws[:, i] = x
    return draws


@pytest.mark.parametrize("reference_error", [0.0, 0.02])
def test_z_scores_of_right_chains_are_standard_normal(reference_error):
    rng = np.random.default_rng(0)
    q = 150
    mean = reference_error * rng.standard_normal(q)
    quantiles = QUANTILES + reference_error * rng.standard_normal((q, 3))
    reference = Reference(mean, quantiles, reference_error, reference_error)
    report = exact_answer_test(metropolis(800, q, rng), reference)
    assert report.z.shape == (q, 4)
    assert report.worst < 4.0
    low, high = stats.chi2(q - 1).ppf([1e-4, 1.0 - 1e-4]) / (q - 1)
    for z in report.z.T:
        assert 0.9 * low < z.var(ddof=1) < 1.1 * high
        assert abs(z.mean()) < 4.0 / np.sqrt(q)


def test_z_scores_have_the_sign_of_the_deviation():
    samples = np.random.default_rng(0).standard_normal((4, 1000, 1))
    right = Reference(np.zeros(1), QUANTILES[None])
    assert exact_answer_test(samples, right).worst < 4.0
    assert (exact_answer_test(samples + 0.2, right).z > 4.0).all()
    assert (exact_answer_test(samples - 0.2, right).z < -4.0).all()
    low, median, high = exact_answer_test(1.3 * samples, right).z[0, 1:]
    assert low < -4.0 < median < 4.0 < high


def test_exact_answer_test_catches_chains_that_never_reach_a_tail():
    samples = np.clip(np.random.default_rng(0).standard_normal((4, 500, 1)), -1.5, 1.5)
    z = exact_answer_test(samples, Reference(np.zeros(1), QUANTILES[None])).z[0]
    assert z[1] > 4.0
    assert z[3] < -4.0
    assert np.isfinite(z).all()


def test_exact_answer_test_without_quantiles_compares_means():
    samples = np.random.default_rng(0).standard_normal((4, 500, 2))
    assert exact_answer_test(samples, Reference(np.zeros(2))).z.shape == (2, 1)
