"""Sphinx configuration; the build needs no network, and runs the examples for their figures."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))
os.environ.setdefault("MPLBACKEND", "Agg")
# One thread for linear algebra: the examples run side by side.
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

from skgpmcmc import __version__  # noqa: E402

project = "skgpmcmc"
author = "The skgpmcmc developers"
copyright = author  # the name that Sphinx reads
version = release = __version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "benchmark_tables",
    "check_links",
    "class_pages",
    "mathml",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "sg_execution_times.rst"]
default_role = "literal"  # in docstrings, single backticks are code
html_math_renderer = "mathml"  # shows without a network; see _ext/mathml.py
math_number_all = True

autosummary_generate = True
autodoc_typehints = "none"  # the docstrings give shapes and scales, which types do not
autodoc_member_order = "bysource"
numpydoc_show_class_members = False  # the template lists them

# The button copies the code, without prompts and output.
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "within_subsection_order": "gallery_order.Order",
    "backreferences_dir": "generated/backreferences",  # pages of the API show these examples
    "doc_module": ("skgpmcmc",),
    "min_reported_time": 1e9,  # no timings on pages: they would be those of the building machine
    "write_computation_times": False,
    "show_memory": False,
    "show_signature": False,
    "parallel": 2,
}

html_theme = "pydata_sphinx_theme"
html_title = f"skgpmcmc {release}"
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["equations.css", "tables.css"]
html_theme_options = {
    "navigation_with_keys": False,
    "show_prev_next": False,
    # Pages with wide tables have the whole width.
    "secondary_sidebar_items": {
        "**": ["page-toc"],
        "benchmarks": [],
        "classifier_study": [],
        "comparative": [],
        "pseudo_marginal": [],
    },
    "header_links_before_dropdown": 7,
}
html_sidebars = {"index": []}
