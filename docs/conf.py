"""Sphinx configuration; the build needs no network and runs no example."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))
os.environ.setdefault("MPLBACKEND", "Agg")

from skgpmcmc import __version__

project = "skgpmcmc"
author = "The skgpmcmc developers"
copyright = author  # the name that Sphinx reads
version = release = __version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "benchmark_tables",
    "class_pages",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "auto_examples"]
default_role = "literal"  # in docstrings, single backticks are code

autosummary_generate = True
autodoc_typehints = "none"  # the docstrings give shapes and scales, which types do not
autodoc_member_order = "bysource"
numpydoc_show_class_members = False  # the template lists them

html_theme = "pydata_sphinx_theme"
html_title = f"skgpmcmc {release}"
html_show_sourcelink = False
html_theme_options = {
    "navigation_with_keys": False,
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
}
