"""The page that adds a likelihood: its classes pass, and each of them with a planted mistake fails.

``test_docs.py`` runs the page from top to bottom; here only its definitions are taken from it.
"""

import doctest
from pathlib import Path

import numpy as np
import pytest

from skgpmcmc import BayesianGPRegressor
from skgpmcmc.likelihoods import Cuts, Derivatives, ParameterDerivatives
from skgpmcmc.testing import check_likelihood

PAGE = Path(__file__).parents[2] / "docs" / "adding_a_likelihood.rst"
TARGETS = {"WaitingTime": [0.05, 4.0], "Cauchy": [0.3, -4.0]}


def definitions():
    """What the page imports and defines, without what it does with that."""
    namespace = {"__name__": "adding_a_likelihood"}
    for example in doctest.DocTestParser().get_examples(PAGE.read_text("utf-8")):
        if example.source.startswith(("from ", "import ", "def ", "class ", "@", "N", "P")):
            exec(example.source, namespace)
    return namespace


@pytest.fixture(scope="module")
def page():
    return definitions()


def examine(likelihood):
    check_likelihood(likelihood, TARGETS[likelihood.__class__.__mro__[1].__name__])


@pytest.mark.parametrize("name", TARGETS)
def test_what_the_page_arrives_at_passes(page, name):
    check_likelihood(page[name](), TARGETS[name])


@pytest.mark.parametrize("part", Derivatives._fields)
@pytest.mark.parametrize("name", TARGETS)
def test_wrong_sign_in_a_derivative_is_refused(page, name, part):
    class Wrong(page[name]):
        log_concave = False  # whatever else is wrong, the derivatives are looked at first

        def derivatives(self, y, f):
            right = super().derivatives(y, f)
            return right._replace(**{part: -getattr(right, part)})

    with pytest.raises(AssertionError, match=f"{part} derivative of log p"):
        examine(Wrong())


@pytest.mark.parametrize("part", ParameterDerivatives._fields)
def test_wrong_sign_in_a_parameter_derivative_is_refused(page, part):
    class Wrong(page["WaitingTime"]):
        def parameter_derivatives(self, y, f):
            right = super().parameter_derivatives(y, f)
            return right._replace(**{part: -getattr(right, part)})

    with pytest.raises(AssertionError, match="with respect to shape"):
        examine(Wrong(shape=2.5))


@pytest.mark.parametrize("name", TARGETS)
def test_wrong_sampling_is_refused(page, name):
    class Wrong(page[name]):
        def sample(self, f, rng):
            return super().sample(f + 0.2, rng)

    with pytest.raises(AssertionError, match="sampled"):
        examine(Wrong())


@pytest.mark.parametrize("name", TARGETS)
def test_wrong_information_is_refused(page, name):
    class Wrong(page[name]):
        def fisher_information(self, f):
            return 1.2 * super().fisher_information(f)

    with pytest.raises(AssertionError, match="sampled squared score"):
        examine(Wrong())


def test_cuts_at_the_wrong_places_are_refused(page):
    class Wrong(page["Cauchy"]):
        def bend(self, y):
            return Cuts(y[:, None] + 50.0 + page["PLACES"])

    with pytest.raises(AssertionError, match="log normalizer"):
        examine(Wrong(noise_scale=0.02))


def test_an_estimator_refuses_what_has_no_cuts(page):
    regressor = BayesianGPRegressor(likelihood=page["WithoutCuts"]())
    with pytest.raises(ValueError, match=r"is not log-concave, .* `bend` to return Cuts"):
        regressor.fit(np.arange(5.0)[:, None], np.arange(5.0))
