"""The "?" in the HTML representation of an estimator, which links to its API page."""

from __future__ import annotations

from importlib import metadata


class DocumentationLink:
    """Links to the page of the class, if the installed package knows where its documentation is.

    The address is the entry "Documentation" of ``[project.urls]``. Without one there is no link.
    The names of the members are those that scikit-learn looks for.
    """

    _doc_link_module = "skgpmcmc"

    @property
    def _doc_link_template(self) -> str:
        address = _address()
        return f"{address}/generated/{{name}}.html" if address else ""

    def _doc_link_url_param_generator(self) -> dict[str, str]:
        # Estimators are documented where users import them from.
        package = type(self).__module__.rpartition(".")[0].removesuffix(".estimators")
        return {"name": f"{package}.{type(self).__name__}"}


def _address() -> str:
    """Return the address of the documentation in the metadata of the package, or ''."""
    try:
        entries = metadata.metadata("skgpmcmc").get_all("Project-URL", [])
    except metadata.PackageNotFoundError:
        return ""
    found = [entry.partition(",") for entry in entries]
    addresses = [url.strip() for label, _, url in found if label.lower() == "documentation"]
    return addresses[0].rstrip("/") if addresses else ""
