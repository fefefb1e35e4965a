"""Configuration of Sphinx for the pages that `site.py` collects."""

from importlib.metadata import version as installed

project = "custodes"
author = "The custodes developers"
version = release = installed("custodes")

extensions = ["myst_parser", "sphinx_copybutton"]
myst_heading_anchors = 4  # [text](page.md#heading), as forges have it

smartquotes = False  # '' is an empty label

html_theme = "furo"
html_title = f"custodes {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
