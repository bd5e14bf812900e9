"""The mean of a function that falls from one to zero, and what counts make of it."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from skgpmcmc.likelihoods import Gaussian, NegativeBinomial, Poisson, Volatility
from skgpmcmc.numerics.quadrature import average_decreasing

from ...helpers import every_pair, in_one_test

SD = np.array([[1e-160, 1e-9, 0.03, 0.3, 1.0, 2.0]])


def law_of(likelihood, f):
    """Law of a target given f, as SciPy has it."""
    if isinstance(likelihood, Poisson):
        return stats.poisson(np.exp(f))
    if isinstance(likelihood, Volatility):
        return stats.norm(0.0, np.exp(f))
    k = likelihood.shape
    return stats.nbinom(k, k / (k + np.exp(f)))


def by_many_nodes(likelihood, y, mean, sd):
    """Brute force: the trapezoidal rule, spaced by a thousandth of a standard deviation."""
    node = np.linspace(-9.0, 9.0, 18_001)
    weight = stats.norm.pdf(node) / stats.norm.pdf(node).sum()
    return law_of(likelihood, mean + sd * node).cdf(y) @ weight


LAWS = (Poisson(), NegativeBinomial(0.3), NegativeBinomial(3.0), NegativeBinomial(1e4))


@in_one_test(
    ("likelihood", "y", "shift"), every_pair(LAWS, (0.0, 3.0, 100.0, 1e5), (-2.0, 0.0, 0.7))
)
def test_distribution_function_of_counts_agrees_with_sums(likelihood, y, shift):
    mean = np.log(y + 1.0) + shift * np.maximum(SD, 0.05)
    pairs = zip(mean[0], SD[0], strict=True)
    expected = [by_many_nodes(likelihood, y, m, s) for m, s in pairs]
    at = np.array([[y]])
    found = [
        likelihood.predictive_cdf(at, m[:, None], s[:, None] ** 2)
        for m, s in zip(mean.T, SD.T, strict=True)
    ]
    assert_allclose(np.ravel(found), expected, atol=1e-7)


@pytest.mark.parametrize("y", [-4.0, -1e-3, 0.0, 1e-3, 1.0, 30.0])
def test_distribution_function_of_volatility_agrees_with_quadrature(y):
    for mean in (-2.0, 0.0, 1.5):
        expected = [by_many_nodes(Volatility(), y, mean, s) for s in SD[0]]
        means, var = np.full((6, 1), mean), SD.T**2
        found = Volatility().predictive_cdf(np.full((6, 1), y), means, var)
        assert_allclose(found[:, 0], expected, atol=1e-7)


@in_one_test("likelihood", [Poisson(), NegativeBinomial(3.0)], ids=lambda law: law.name)
def test_distribution_function_of_counts_increases_between_counts(likelihood):
    y = np.linspace(0.0, 12.0, 49)[:, None]
    at_most = likelihood.predictive_cdf(y, np.full((49, 2), 1.0), np.full((49, 1), 0.2))
    assert np.all(np.diff(at_most, axis=0) > 0.0)
    assert np.all((at_most > 0.0) & (at_most < 1.0))


def test_average_of_a_falling_function_agrees_with_a_closed_form():
    """A normal distribution function, whose mean over a normal f is known."""
    law, y = Gaussian(0.2), np.array([[0.3]])
    mean, var = np.array([[-1.0, 0.29, 0.5]]), np.array([[0.7]])

    def at_most(f):
        return stats.norm.sf(f, y[..., None], 0.2)

    found = average_decreasing(at_most, y - 1.4, y + 1.4, mean, var)
    assert_allclose(found, law.predictive_cdf(y, mean, var), atol=1e-9)
