"""The check of likelihoods finds wrong predictions; other mistakes are in `planted_bugs`."""

import re

import numpy as np
import pytest

from skgpmcmc.likelihoods import Gaussian, NegativeBinomial, Poisson, Probit
from skgpmcmc.testing import check_likelihood

COUNTS = [0.0, 3.0]
NUMBERS = [-0.5, 1.2]


class DoubledMean(Poisson):
    def predictive_moments(self, mean, var):
        moments = super().predictive_moments(mean, var)
        return moments._replace(mean=2.0 * moments.mean)


class WithoutUncertainty(Poisson):
    """Its variance lacks that of the rate."""

    def predictive_moments(self, mean, var):
        moments = super().predictive_moments(mean, var)
        return moments._replace(var=moments.mean)


class MeanAtTheMean(Poisson):
    """Its mean is right where f is known."""

    def predictive_moments(self, mean, var):
        return super().predictive_moments(mean, var)._replace(mean=np.exp(mean + 0.0 * var))


class WithoutOverdispersion(NegativeBinomial):
    def predictive_moments(self, mean, var):
        return Poisson().predictive_moments(mean, var)


class ShiftedByOneCount(Poisson):
    def predictive_cdf(self, y, mean, var):
        return super().predictive_cdf(y + 1.0, mean, var)


class WithoutVarianceOfF(Gaussian):
    def predictive_cdf(self, y, mean, var):
        return super().predictive_cdf(y, mean, 0.0 * var)


class ShiftedByAConstant(Gaussian):
    """Its slope is right."""

    def predictive_cdf(self, y, mean, var):
        return super().predictive_cdf(y, mean, var) - 0.05


@pytest.mark.parametrize(
    ("likelihood", "targets", "complaint"),
    [
        (DoubledMean(), COUNTS, "mean of predictive_moments(-1.2, 0): samples"),
        (WithoutUncertainty(), COUNTS, "variance of predictive_moments(-1.5, 0.3)"),
        (MeanAtTheMean(), COUNTS, "mean of predictive_moments(-1.5, 0.3)"),
        (WithoutOverdispersion(1.5), COUNTS, "variance of predictive_moments(-1.2, 0): samples"),
        (ShiftedByOneCount(), COUNTS, "increase of predictive_cdf at y = 0 under N(-1.5, 0.3)"),
        (WithoutVarianceOfF(), NUMBERS, "slope of predictive_cdf at y = -0.5 under N(-1.5, 0.3)"),
        (ShiftedByAConstant(), NUMBERS, "of the samples are at most y"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_check_likelihood_finds_wrong_predictions(likelihood, targets, complaint):
    with pytest.raises(AssertionError, match=re.escape(complaint)):
        check_likelihood(likelihood, targets)


@pytest.mark.parametrize(
    ("likelihood", "targets"),
    [(Poisson(), COUNTS), (NegativeBinomial(1.5), COUNTS), (Gaussian(), NUMBERS)],
    ids=lambda value: type(value).__name__,
)
def test_check_likelihood_passes_right_predictions(likelihood, targets):
    check_likelihood(likelihood, targets)


def test_check_likelihood_asks_for_an_object_in_place_of_a_class():
    with pytest.raises(AssertionError, match=re.escape("pass an object, Probit()")):
        check_likelihood(Probit, [-1.0, 1.0])
