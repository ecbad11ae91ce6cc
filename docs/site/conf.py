"""Sphinx's settings for the site; `build.py` beside it lays out what it reads."""

project = "NNC"
extensions = ["myst_parser"]
html_theme = "furo"
html_title = "NNC for Python"
myst_heading_anchors = 4
exclude_patterns = ["_build"]
# Formulas that name no language are no code.
highlight_language = "none"
html_static_path = ["static"]
html_css_files = ["style.css"]
# From a file system the pages found may not be read for it.
html_show_search_summary = False
html_show_copyright = False
