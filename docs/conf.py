"""How the site is built: ``make docs`` reads the documents where they lie and writes ``build/docs``."""

from __future__ import annotations

import os

from papilio.version import __version__

project = "Papilio"
author = "the Papilio developers"
release = version = __version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode", "sphinx_copybutton"]
if "READTHEDOCS" in os.environ:  # links to other libraries need their sites, which a build elsewhere does not
    extensions.append("sphinx.ext.intersphinx")
intersphinx_mapping = {
    "python": ("https://docs.python.org/3", None),
    "numpy": ("https://numpy.org/doc/stable", None),
    "pandas": ("https://pandas.pydata.org/docs", None),
    "pyarrow": ("https://arrow.apache.org/docs", None),
    "scipy": ("https://docs.scipy.org/doc/scipy", None),
    "networkx": ("https://networkx.org/documentation/stable", None),
    "polars": ("https://docs.pola.rs/api/python/stable", None),
}
# The whole project is the source, so that a link means the same here and in a checkout.
root_doc = "docs/index"
include_patterns = [
    "*.md", "docs/**.md", "examples/README.md", "deploy/README.md", "benchmarks/results/*.md",
]  # fmt: skip
html_theme = "furo"
html_title = "Papilio"
html_static_path = ["_static"]
html_css_files = ["site.css"]

myst_heading_anchors = 3
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_execution_in_temp = True
nb_merge_streams = True

autodoc_typehints = "none"
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True

copybutton_prompt_text = "$ "
