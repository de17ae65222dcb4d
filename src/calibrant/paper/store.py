"""Results on disk: written aside and renamed, found again, skipped where nothing changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from calibrant._writing import replaced, write_whole
from calibrant.exceptions import InvalidDocumentError
from calibrant.paper.figures import draw
from calibrant.paper.page import page
from calibrant.paper.study import StudyResult

FIGURES = ("png", "svg")
PAGE = "index.html"


class Store:
    """A folder of results: ``STEM.json``, ``.csv``, ``.png`` and ``.svg``, and one page of all.

    The JSON is written last, so a study whose JSON is there is complete.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def save(self, result: StudyResult) -> None:
        """Write the files of one result."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._draw(result)
        write_whole(self.path(result.stem, "csv"), result.to_csv())
        write_whole(self.path(result.stem, "json"), result.to_json())

    def _draw(self, result: StudyResult) -> None:
        for kind, data in draw(result).items():
            with replaced(self.path(result.stem, kind)) as stream:
                stream.write(data)

    def path(self, stem: str, kind: str) -> Path:
        """Return where a file of a result is."""
        return self.folder / f"{stem}.{kind}"

    def load(self, stem: str) -> StudyResult | None:
        """Return a result, or None if there is none that can be read."""
        try:
            return StudyResult.from_json(self.path(stem, "json").read_bytes())
        except (OSError, InvalidDocumentError):
            return None

    def finished(self, stem: str, identity: dict[str, Any]) -> bool:
        """Tell whether this very run is here, complete; missing figures are drawn again."""
        result = self.load(stem)
        if result is None or result.identity() != identity:
            return False
        if not all(self.path(stem, kind).exists() for kind in FIGURES):
            self._draw(result)
        if not self.path(stem, "csv").exists():
            write_whole(self.path(stem, "csv"), result.to_csv())
        return True

    def results(self, order: list[str]) -> list[StudyResult]:
        """Return all results here, in the order of the studies."""
        loaded = [self.load(path.stem) for path in sorted(self.folder.glob("*.json"))]
        known = [result for result in loaded if result is not None and result.study in order]
        return sorted(known, key=lambda result: order.index(result.study))

    def write_page(self, order: list[str]) -> Path:
        """Write the page of all results here."""
        results = self.results(order)
        figures = {r.stem: self.path(r.stem, "png").read_bytes() for r in results}
        target = self.folder / PAGE
        write_whole(target, page(results, figures))
        return target
