"""What the site needs beyond Sphinx: formulas as MathML, pictures with a dark variant, notebooks.

All of it works in a page that is opened from a folder, without a server and without a network.
"""

from __future__ import annotations

import inspect
import json
import re
import zlib
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.transforms.references import Substitutions
from docutils.utils.math import MathError, latex2mathml
from myst_parser.parsers.sphinx_ import MystParser
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util import logging
from sphinx.util.nodes import make_refnode
from sphinx.writers.html5 import HTML5Translator

LOGGER = logging.getLogger(__name__)


def mathml(node: nodes.math | nodes.math_block) -> str:
    """Return a formula as MathML, which browsers draw without a script."""
    try:
        text = latex2mathml.tex2mathml(node.astext(), as_block=isinstance(node, nodes.math_block))
    except MathError as error:
        LOGGER.warning("%s", error, location=node)
        return ""
    # Bars of an absolute value would be spaced like a sum: only at the end of a row browsers know.
    text = text.replace('<mo class="mathopen">|</mo>', '<mo form="prefix">|</mo>')
    return re.sub(r"(?<!<mrow>)(\n *)<mo>\|</mo>", r'\1<mo form="postfix">|</mo>', text)


def inline_formula(self: HTML5Translator, node: nodes.math) -> None:
    """Write a formula in a line."""
    self.body.append(mathml(node))
    raise nodes.SkipNode


def displayed_formula(self: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula that stands by itself."""
    self.body.append(f'<div class="formula">{mathml(node)}</div>\n')
    raise nodes.SkipNode


class DarkPictures(SphinxTransform):
    """Beside ``name.png`` put ``name-dark.png`` if it exists: the theme shows one of the two."""

    default_priority = Substitutions.default_priority

    def apply(self, **kwargs: Any) -> None:
        """Double the pictures of a page that have a dark variant."""
        for picture in list(self.document.findall(nodes.image)):
            path = Path(picture["uri"])
            dark = path.with_name(f"{path.stem}-dark{path.suffix}")
            folder = Path(self.env.doc2path(self.env.docname)).parent
            if ":" in picture["uri"] or not (folder / dark).exists():
                continue
            twin = picture.deepcopy()
            twin["uri"] = dark.as_posix()
            twin["classes"] = [*twin["classes"], "only-dark"]
            picture["classes"] = [*picture["classes"], "only-light"]
            picture.parent.insert(picture.parent.index(picture) + 1, twin)


class FoldedTables(SphinxTransform):
    """Fold the long tables of pages that are mostly numbers; a click opens them."""

    default_priority = Substitutions.default_priority
    fewest = 12
    """Rows from which on a table is folded: about a third of a screen."""

    def apply(self, **kwargs: Any) -> None:
        """Put long tables into ``details``."""
        if self.env.docname not in self.config.folded_pages:
            return
        for table in list(self.document.findall(nodes.table)):
            rows = len(list(table.findall(nodes.row))) - 1
            if rows < self.fewest:
                continue
            opening = f'<details class="folded"><summary>A table of {rows} rows</summary>'
            around = [nodes.raw("", tag, format="html") for tag in (opening, "</details>")]
            place = table.parent.index(table)
            table.parent.insert(place, around[0])
            table.parent.insert(place + 2, around[1])


class NotebookParser(MystParser):
    """Reads a notebook as the page that its cells and their stored outputs make.

    Sphinx extensions for notebooks bring Jupyter, about forty packages; the notebooks here are run
    by a test, so that a page only has to show them.
    """

    supported = ("ipynb",)

    def parse(self, inputstring: str, document: nodes.document) -> None:
        """Parse the Markdown that the notebook amounts to."""
        cells = json.loads(inputstring)["cells"]
        super().parse("\n\n".join(map(markdown_of, cells)), document)


def markdown_of(cell: dict[str, Any]) -> str:
    """Return a cell and its outputs as Markdown."""
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return source
    parts = [f"```python\n{source}\n```"]
    for output in cell["outputs"]:
        data = output.get("data", {"text/plain": output.get("text", [])})
        if "image/png" in data:
            parts.append(f"![picture](data:image/png;base64,{''.join(data['image/png']).strip()})")
        else:
            parts.append(f"```text\n{''.join(data['text/plain']).rstrip()}\n```")
    return "\n\n".join(parts)


def write_inventories(app: Sphinx, config: Any) -> None:
    """Give intersphinx the names of other projects that docstrings link to, without a network.

    ``inventories.txt`` has a paragraph for each project: its name and address, and below a line
    for each object, with its role and page. ``$`` at the end of a page stands for the name.
    """
    paragraphs = Path(app.confdir, "inventories.txt").read_text(encoding="utf-8").split("\n\n")
    for paragraph in paragraphs:
        (project, address), *objects = [line.split() for line in paragraph.strip().splitlines()]
        lines = [f"{name} {role} 1 {page} -" for name, role, page in objects]
        head = f"# Sphinx inventory version 2\n# Project: {project}\n# Version: \n# zlib\n"
        target = Path(app.doctreedir, f"{project}.inv")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(head.encode() + zlib.compress("\n".join(lines).encode()))
        config.intersphinx_mapping[project] = (address, str(target))


def skip_foreign_members(
    app: Sphinx, what: str, name: str, member: Any, skip: bool, _: Any
) -> bool:
    """Leave out what scikit-learn or torch document: their methods have pages of their own."""
    member = inspect.unwrap(getattr(member, "__func__", member))
    home = getattr(member, "__module__", None) or "calibrant"
    return skip or (callable(member) and not home.startswith("calibrant"))


def find_by_last_name(app: Sphinx, env: Any, node: Any, text: nodes.Node) -> nodes.Node | None:
    """Resolve `CoxTestResult` and `Certificate.recheck`, whichever module they are of."""
    target = node.get("reftarget", "")
    if node.get("refdomain") != "py" or not target[:1].isupper():
        return None
    objects = env.get_domain("py").objects
    name = min((name for name in objects if name.endswith(f".{target}")), key=len, default=None)
    if name is None:
        return None
    found = objects[name]
    return make_refnode(app.builder, node["refdoc"], found.docname, found.node_id, text, name)


def add_guide_pages(
    app: Sphinx, what: str, name: str, member: Any, options: Any, lines: list[str]
) -> None:
    """End a docstring with links to the pages that explain it."""
    short = name.removeprefix("calibrant.")
    pages = [page for page, names in app.config.guide_pages.items() if short in names.split()]
    if pages:
        lines += [
            "",
            ".. rubric:: In the guide",
            "",
            ", ".join(f":doc:`/{page}`" for page in pages),
        ]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register what is above."""
    app.add_html_math_renderer("mathml", (inline_formula, None), (displayed_formula, None))
    app.add_transform(DarkPictures)
    app.add_transform(FoldedTables)
    app.add_config_value("folded_pages", set(), "env")
    app.add_source_suffix(".ipynb", "ipynb")
    app.add_source_parser(NotebookParser)
    app.add_config_value("guide_pages", {}, "env")
    app.connect("config-inited", write_inventories, priority=100)  # before intersphinx reads them
    app.connect("missing-reference", find_by_last_name)
    app.connect("autodoc-skip-member", skip_foreign_members)
    app.connect("autodoc-process-docstring", add_guide_pages, priority=600)  # after numpydoc
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
