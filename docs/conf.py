"""Sphinx configuration; the build needs no network, and runs the examples for their figures."""

import os
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(Path(__file__).parent / "_ext"))
os.environ.setdefault("MPLBACKEND", "Agg")
# One thread for linear algebra: the examples run side by side.
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import gallery  # noqa: E402

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
    "changelog",
    "check_links",
    "class_pages",
    "mathml",
]
templates_path = ["_templates"]
# The page docs/learn.rst takes the place of the index that the gallery makes of the tutorials.
exclude_patterns = ["_build", "sg_execution_times.rst", "start/index.rst"]
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
    "examples_dirs": ["../tutorials", "../examples"],
    "gallery_dirs": ["start", "auto_examples"],
    "filename_pattern": "/",  # all scripts are run
    "subsection_order": gallery.SECTIONS,
    "within_subsection_order": "gallery.Order",
    "reset_modules": ("matplotlib", "gallery.prepare"),
    # A page of the reference ends with the examples that use its class.
    "backreferences_dir": "generated/backreferences",
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
html_css_files = ["equations.css", "pages.css", "tables.css"]
html_favicon = "_static/favicon.svg"
html_theme_options = {
    "logo": {
        "image_light": "_static/logo.svg",
        "image_dark": "_static/logo.svg",
        "alt_text": "",  # the name stands beside it
        "text": html_title,
    },
    "navbar_end": ["source-link", "theme-switcher"],
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
    "header_links_before_dropdown": 8,
}
html_sidebars = {"index": [], "changelog": []}

# The link to the source in the header: the repository, if its address is known, else the pages
# with the source that are part of the documentation.
_urls = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"].get("urls", {})
html_context = {
    "source_address": next((_urls[name] for name in ("Source", "Repository") if name in _urls), "")
}
