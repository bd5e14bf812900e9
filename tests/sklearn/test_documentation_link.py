"""The link of the HTML representation leads to the API page of the class, or nowhere."""

import re
from email.message import Message
from importlib import metadata
from pathlib import Path

from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_html_repr

import skgpmcmc
from skgpmcmc import BayesianGPClassifier, baselines

from ..helpers import in_one_test

ADDRESS = "https://docs.example.org/stable"
ESTIMATORS = {
    **{f"skgpmcmc.{name}": getattr(skgpmcmc, name) for name in skgpmcmc.__all__ if name[0] == "B"},
    "skgpmcmc.baselines.EPMLClassifier": baselines.EPMLClassifier,
    "skgpmcmc.baselines.PlattSVC": baselines.PlattSVC,
}


def install(monkeypatch, *addresses):
    """Give the installed package some addresses."""
    about = Message()
    for entry in addresses:
        about["Project-URL"] = entry
    monkeypatch.setattr(metadata, "metadata", lambda name: about)


@in_one_test("page", ESTIMATORS)
def test_link_of_an_estimator_leads_to_its_listed_page(monkeypatch, page):
    install(monkeypatch, "Source, https://example.org/git", f"Documentation, {ADDRESS}/")
    assert ESTIMATORS[page]()._get_doc_link() == f"{ADDRESS}/generated/{page}.html"
    listed = (Path(__file__).parents[2] / "docs" / "api.rst").read_text("utf-8")
    assert re.search(f"^   {page.removeprefix('skgpmcmc.')}$", listed, re.M)


def test_html_representation_contains_the_link(monkeypatch):
    install(monkeypatch, f"Documentation, {ADDRESS}")
    page = f'href="{ADDRESS}/generated/skgpmcmc.BayesianGPClassifier.html"'
    assert page in BayesianGPClassifier()._repr_html_()
    assert page in estimator_html_repr(make_pipeline(StandardScaler(), BayesianGPClassifier()))


def test_no_link_without_a_documentation_address(monkeypatch):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    install(monkeypatch, "Source, https://example.org/git")
    assert BayesianGPClassifier()._get_doc_link() == ""
    assert "href=" not in BayesianGPClassifier()._repr_html_()
    monkeypatch.setattr(metadata, "metadata", missing)
    assert baselines.EPMLClassifier()._get_doc_link() == ""


def test_no_link_for_a_subclass_outside_the_package(monkeypatch):
    install(monkeypatch, f"Documentation, {ADDRESS}")
    assert type("Own", (BayesianGPClassifier,), {"__module__": "other"})()._get_doc_link() == ""
