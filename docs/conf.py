"""Settings of Sphinx, which builds these pages as a site: ``make docs``."""

from mutator.errors.version import VERSION

project = "mutator"
author = "The mutator authors"
copyright = "2026, The mutator authors"  # noqa: A001  # the name that Sphinx reads
release = version = VERSION

extensions = ["myst_parser"]
myst_heading_anchors = 4
# A table may have words in quotes, and Parquet has no emphasis: only what pages use.
myst_enable_extensions = []
suppress_warnings = ["misc.highlighting_failure"]  # blocks of output that look like no language
nitpicky = True

html_theme = "furo"
html_title = "mutator"
html_show_sphinx = False
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["tables.css"]
html_js_files = ["accessible.js"]
html_extra_path = ["mutator.schema.json"]
