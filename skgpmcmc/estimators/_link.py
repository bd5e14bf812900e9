"""The "?" in the HTML representation of an estimator, which links to its API page."""

from __future__ import annotations

from importlib import metadata


class DocumentationLink:
    """Mixin that links an estimator to the API page of its class, if the address is known.

    The address is the entry "Documentation" of ``[project.urls]``. Without one there is no link.
    scikit-learn prescribes the names of the members.
    """

    _doc_link_module = "skgpmcmc"

    @property
    def _doc_link_template(self) -> str:
        try:
            entries = metadata.metadata("skgpmcmc").get_all("Project-URL", [])
        except metadata.PackageNotFoundError:
            return ""
        for entry in entries:
            label, _, url = entry.partition(",")
            if label.lower() == "documentation":
                return f"{url.strip().rstrip('/')}/generated/{{name}}.html"
        return ""

    def _doc_link_url_param_generator(self) -> dict[str, str]:
        # The API page is named after the module that users import the class from.
        package = type(self).__module__.rpartition(".")[0].removesuffix(".estimators")
        return {"name": f"{package}.{type(self).__name__}"}
