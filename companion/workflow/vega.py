"""Puts Vega beside the book, once for all pages: what draws the explorer of ranks.

The script comes with the package vl-convert, in the versions that Vega-Altair writes for.
"""

from pathlib import Path

import vl_convert

from companion.store.paths import HTML
from companion.store.rows import write_file

LICENCE = "/* Vega {}, Vega-Lite {} and Vega-Embed {}, bundled by vl-convert: BSD-3-Clause. */"


def script() -> str:
    """Vega, Vega-Lite and Vega-Embed as one classic script that defines ``vegaEmbed``."""
    lite = vl_convert.get_vegalite_versions()[-1]
    versions = vl_convert.get_vega_version(), lite, vl_convert.get_vega_embed_version()
    bundle = vl_convert.javascript_bundle(vl_version=lite)
    return f"{LICENCE.format(*versions)}\n(() => {{{bundle}}})();\n"


def write(html: Path = HTML) -> None:
    """Writes the script where the pages look for it."""
    write_file(html / "_static" / "vega.js", script())
