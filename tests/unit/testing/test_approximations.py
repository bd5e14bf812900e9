"""The check of approximations: fits from given sites, fields, convergence, refused likelihoods.

Wrong gradients, evidences and draws are in `planted_bugs`.
"""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from skgpmcmc.approximations import EP, Laplace, Sites
from skgpmcmc.likelihoods import Poisson, Softmax
from skgpmcmc.testing import check_approximation


class WithoutStart(Laplace):
    def fit(self, model, theta):
        return super().fit(model, theta)


class FailsFromSites(Laplace):
    def fit(self, model, theta, start=None):
        if start is not None:
            raise NotImplementedError
        return super().fit(model, theta)


class StaysAtTheStart(Laplace):
    """It takes the given sites for those of theta."""

    def fit(self, model, theta, start=None):
        fit = super().fit(model, theta, start)
        if start is None:
            return fit
        q = replace(fit.q, sites=Sites(*start))
        return fit._replace(log_evidence=fit.log_evidence + 0.01 * float(np.sum(q.weights)))


class NeverConverges(Laplace):
    def fit(self, model, theta, start=None):
        return super().fit(model, theta, start)._replace(converged=False)


class ConvergesFromThePriorOnly(Laplace):
    def fit(self, model, theta, start=None):
        return super().fit(model, theta, start)._replace(converged=start is None)


@dataclass(eq=False)
class LosesShare(Laplace):
    """Its refined form has the default share, whatever its own is."""

    share: float = 0.5

    def with_tolerance(self, tol=1e-13):
        return type(self)(tol=min(self.tol, tol), max_iter=self.max_iter)


@dataclass(eq=False)
class KeepsShare(LosesShare):
    def with_tolerance(self, tol=1e-13):
        return replace(self, tol=min(self.tol, tol), max_iter=10 * self.max_iter)


@pytest.mark.parametrize(
    ("approximation", "complaint"),
    [
        (WithoutStart(), "fails with TypeError"),
        (FailsFromSites(), "fails with NotImplementedError"),
        (StaysAtTheStart(), "from the sites at another theta"),
        (NeverConverges(), "says converged=False"),
        (ConvergesFromThePriorOnly(), "another theta does not converge"),
        (LosesShare(share=0.7), "sets share=0.7 to its default 0.5"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_check_approximation_finds_each_planted_mistake(approximation, complaint):
    with pytest.raises(AssertionError, match=complaint):
        check_approximation(approximation)


def test_check_approximation_lets_the_limit_of_iterations_grow_to_its_default():
    check_approximation(KeepsShare(max_iter=10, share=0.7))
    check_approximation(EP(tol=1e-3, max_sweeps=10), Poisson())


def test_check_approximation_asks_the_approximation_about_the_likelihood():
    with pytest.raises(ValueError, match=r"approximation=EP .* the softmax likelihood"):
        check_approximation(EP(), Softmax(3))
