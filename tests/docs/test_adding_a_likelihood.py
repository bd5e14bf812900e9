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


@pytest.fixture(scope="module")
def page():
    """What the page imports and defines, without what it does with that."""
    namespace = {"__name__": "adding_a_likelihood"}
    for example in doctest.DocTestParser().get_examples(PAGE.read_text("utf-8")):
        if example.source.startswith(("from ", "import ", "def ", "class ", "@", "N", "P")):
            exec(example.source, namespace)
    return namespace


@pytest.mark.parametrize("name", TARGETS)
def test_final_classes_of_the_page_pass_check_likelihood(page, name):
    check_likelihood(page[name](), TARGETS[name])


def negated(part):
    return lambda right: right._replace(**{part: -getattr(right, part)})


#: A method, what is made of its result, and the complaint.
MISTAKES = [
    *(
        ("derivatives", negated(part), f"{part} derivative of log p")
        for part in Derivatives._fields
    ),
    ("sample", lambda y: 1.2 * y, "sampled"),
    ("fisher_information", lambda information: 1.2 * information, "sampled squared score"),
]
OF_PARAMETERS = [
    ("parameter_derivatives", negated(part), "with respect to shape")
    for part in ParameterDerivatives._fields
]


@pytest.mark.parametrize(
    ("name", "mistake"),
    [(name, mistake) for name in TARGETS for mistake in MISTAKES]
    + [("WaitingTime", mistake) for mistake in OF_PARAMETERS],
)
def test_check_likelihood_finds_each_planted_mistake(page, name, mistake):
    method, change, complaint = mistake

    class Wrong(page[name]):
        pass

    if method == "derivatives":
        Wrong.log_concave = False  # or else a positive second one is found before
    setattr(Wrong, method, lambda self, *of: change(getattr(super(Wrong, self), method)(*of)))
    wrong = Wrong(shape=2.5) if method == "parameter_derivatives" else Wrong()
    with pytest.raises(AssertionError, match=complaint):
        check_likelihood(wrong, TARGETS[name])


def test_check_likelihood_finds_cuts_at_wrong_places(page):
    class Wrong(page["Cauchy"]):
        def bend(self, y):
            return Cuts(y[:, None] + 50.0 + page["PLACES"])

    with pytest.raises(AssertionError, match="log normalizer"):
        check_likelihood(Wrong(noise_scale=0.02), TARGETS["Cauchy"])


def test_estimator_refuses_a_likelihood_without_log_concavity_and_without_cuts(page):
    regressor = BayesianGPRegressor(likelihood=page["WithoutCuts"]())
    with pytest.raises(ValueError, match=r"is not log-concave, .* `bend` to return Cuts"):
        regressor.fit(np.arange(5.0)[:, None], np.arange(5.0))
