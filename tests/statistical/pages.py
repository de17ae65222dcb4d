"""Tables on pages of the documentation, between two markers, read back."""

from __future__ import annotations

START, END = "<!-- tables: start -->", "<!-- tables: end -->"


def tables_of(page: str) -> dict[str, dict[str, dict[str, list[float]]]]:
    """Return the numbers of every cell by the title of its table, its row and its column."""
    tables: dict[str, dict[str, dict[str, list[float]]]] = {}
    columns: list[str] = []
    for line in page.split(START)[1].split(END)[0].splitlines():
        if line.startswith("### "):
            tables[line[4:]], columns = {}, []
        elif line.startswith("| |"):
            columns = [part.strip() for part in line.strip("|").split("|")[1:]]
        elif line.startswith("| "):
            row, *cells = (part.strip() for part in line.strip("|").split("|"))
            values = [[float(x) for x in cell.split(" / ") if x] for cell in cells]
            list(tables.values())[-1][row] = dict(zip(columns, values, strict=True))
    return tables
