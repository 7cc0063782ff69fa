"""Settings of the site. ``make docs`` builds it, ``make docs-test`` tests it."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

from bagwise import __version__  # noqa: E402

project = "bagwise"
author = "The bagwise developers"
copyright = f"{author}, BSD-3-Clause"
version = release = __version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.doctest",
    "sphinx.ext.extlinks",
    "sphinx.ext.mathjax",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    # our own, in _ext
    "result_pages",
    "pictures",
    "method_pages",
    "api_pages",
    "tables",
]
exclude_patterns = ["results/bench*", "**/GALLERY_HEADER.rst", "_build"]
templates_path = ["_templates"]
root_doc = "index"
default_role = "py:obj"
# A name of ours that is not there is an error; other libraries' names are no links.
nitpicky = True
nitpick_ignore_regex = [(r"py:.*", r"(?!bagwise\.).*")]

# -- docstrings ------------------------------------------------------------------------
autosummary_generate = False  # api_pages writes the pages
toc_object_entries_show_parents = "hide"  # the class is the page
autodoc_typehints = "none"  # types are in the docstrings
extlinks = {"doi": ("https://doi.org/%s", "doi:%s")}
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
numpydoc_validation_checks = set()  # `make lint` validates

# -- Markdown --------------------------------------------------------------------------
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
suppress_warnings = [
    "myst.header",  # parts of pages that begin at a lower level
    "config.cache",  # the gallery's order is a class
]

# -- look ------------------------------------------------------------------------------
html_theme = "pydata_sphinx_theme"
html_title = f"bagwise {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_show_search_summary = False  # summaries need a server, results do not
html_theme_options = {
    "logo": {"text": "bagwise"},
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_toc_level": 2,
}
html_context = {"default_mode": "auto"}
html_sidebars = {"index": [], "guide/migrating": []}  # code side by side is wide

# The formulas are rendered by a copy of MathJax from the package index: one file,
# no fonts, no other host.
_mathjax = find_spec("sphinx-mathjax-offline")
_mathjax = Path(_mathjax.origin).parent / "static" / "mathjax"
html_static_path.append(str(_mathjax / "tex-svg-full.js"))
mathjax_path = "tex-svg-full.js"
mathjax3_config = {
    "options": {"enableMenu": False},
    "svg": {"fontCache": "global"},
}

# -- gallery ---------------------------------------------------------------------------
# These plot benchmark sets and are shown without figures if the sets are missing.
_NEED_DATA = ["plot_midr_dimensions", "plot_midr_sparsity", "plot_safe_latent"]
_NEED_DATA += ["plot_binding_energies"]
_left_out = "" if os.environ.get("BAGWISE_DATA") else f"(?!{'|'.join(_NEED_DATA)})"

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": rf"[\\/]{_left_out}plot_",
    "ignore_pattern": r"serving\.py$",  # listed in the guide
    "within_subsection_order": "gallery_settings.order",
    "reset_argv": "gallery_settings.arguments",
    "remove_config_comments": True,
    "show_signature": False,
    "download_all_examples": True,
    "min_reported_time": 5,
    "only_warn_on_example_error": False,
    "abort_on_example_error": False,
    "matplotlib_animations": False,
    "doc_module": (),
    "show_memory": False,
    "write_computation_times": False,  # its page asks other hosts for scripts
}
# One thread per process: numbers do not depend on the number of cores.
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
