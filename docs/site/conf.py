"""Sphinx's settings for the site; `build.py` beside it lays out what it reads."""

from typing import Any

from sphinx.application import Sphinx

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


def setup(app: Sphinx) -> None:
    """Sphinx calls this once."""
    app.connect("html-page-context", _navigate_by_titles, priority=1)


def _navigate_by_titles(app: Sphinx, _: str, __: str, context: dict[str, Any], *___: object) -> None:
    """Navigation shows titles, for which Sphinx copied all headings of all pages for each page: half of a build."""
    resolve = context["toctree"]
    leaves = [data for name, data in app.env.metadata.items() if name not in app.env.toctree_includes]

    def toctree(**options: object) -> str:
        for metadata in leaves:
            metadata["tocdepth"] = 1
        try:
            return str(resolve(**options))
        finally:
            for metadata in leaves:
                del metadata["tocdepth"]

    context["toctree"] = toctree
