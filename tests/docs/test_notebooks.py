"""The notebooks of docs/notebooks run, cell after cell, and print what they show.

Run as a script, this file writes the outputs of now into them: read the difference.
"""

from __future__ import annotations

import base64
import contextlib
import importlib.util
import io
import json
from pathlib import Path

import pytest

from conftest import optional

FOLDER = Path(__file__).resolve().parents[2] / "docs/notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def outputs_of(code: str, name: str, namespace: dict[str, object]) -> list[dict[str, object]]:
    """Run a cell without Jupyter; return what it prints and the figures that it shows."""
    import matplotlib.pyplot as plt

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, name, "exec"), namespace)
    text = printed.getvalue()
    lines = text.splitlines(keepends=True)
    outputs: list[dict[str, object]] = [{"output_type": "stream", "name": "stdout", "text": lines}]
    outputs = outputs if text else []
    for number in plt.get_fignums():
        picture = io.BytesIO()
        plt.figure(number).savefig(picture, format="png", dpi=80)
        data = {"image/png": base64.b64encode(picture.getvalue()).decode()}
        outputs.append({"output_type": "display_data", "data": data, "metadata": {}})
    plt.close("all")
    return outputs


def cells_of(path: Path) -> list[dict[str, object]]:
    """Return the code cells of a notebook."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def text_of(outputs: list[dict[str, object]]) -> str:
    """Return the printed part: pictures depend on the fonts of the machine."""
    return "".join("".join(each["text"]) for each in outputs if "text" in each)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_cell_runs_and_prints_what_the_notebook_shows(path, monkeypatch, tmp_path):
    optional("matplotlib").use("Agg")
    if "import torch" in path.read_text(encoding="utf-8"):
        optional("torch")
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for number, cell in enumerate(cells_of(path)):
        outputs = outputs_of("".join(cell["source"]), path.name, namespace)
        assert text_of(outputs) == text_of(cell["outputs"]), f"{path.name}, code cell {number}"
        assert len(outputs) == len(cell["outputs"])


def test_there_are_three_notebooks_of_the_current_format():
    assert [path.stem for path in NOTEBOOKS] == ["groups", "measure-repair-certify", "torch"]
    for path in NOTEBOOKS:
        document = json.loads(path.read_text(encoding="utf-8"))
        assert (document["nbformat"], document["nbformat_minor"]) == (4, 5)
        assert all(cell["id"] for cell in document["cells"])


def refresh(path: Path) -> None:
    """Put what the cells give now into the notebook."""
    document = json.loads(path.read_text(encoding="utf-8"))
    namespace: dict[str, object] = {"__name__": "__main__"}
    for cell in document["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"] = outputs_of("".join(cell["source"]), path.name, namespace)
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    import matplotlib

    matplotlib.use("Agg")
    for each in NOTEBOOKS:
        if each.stem != "torch" or importlib.util.find_spec("torch"):
            refresh(each)
