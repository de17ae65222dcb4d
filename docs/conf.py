"""How Sphinx builds the site from the pages in this folder: `scripts/docs`."""

from __future__ import annotations

import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS), str(DOCS.parent / "src")]

from calibrant import __version__  # noqa: E402

project = "calibrant"
author = "The calibrant developers"
copyright = author  # noqa: A001
version = release = __version__
language = "en"
extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "numpydoc",
    "myst_parser",
    "sphinx_copybutton",
    "site_extensions",
]
exclude_patterns = ["_build"]
default_role = "py:obj"  # in docstrings, `calibration_error` is a link
add_module_names = False
autosummary_ignore_module_all = False
autodoc_typehints = "none"  # the docstrings say more
autodoc_member_order = "bysource"

# Classes list their methods with their text on one page: nothing to click through.
numpydoc_show_class_members = False

myst_enable_extensions = ["attrs_inline", "deflist", "dollarmath"]
myst_heading_anchors = 4
myst_dmath_double_inline = True
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_title = f"calibrant {version}"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_copy_source = html_show_sourcelink = False
html_sidebars = {"index": []}
html_theme_options = {
    "logo": {"text": html_title},
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "show_prev_next": False,
    "show_toc_level": 2,
    "navigation_depth": 2,
    "navbar_end": ["theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-light",
    "pygments_dark_style": "a11y-dark",
}
