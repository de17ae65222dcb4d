"""The documentation site: built without a warning, complete, and searchable from a folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import optional

ROOT = Path(__file__).resolve().parents[2]
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
SEARCHED = {
    "calibration_test": "calibrant.calibration_test.html",
    "prequential": "calibrant.prequential_lower_bound.html",
    "temperature": "calibrant.TemperatureScaling.html",
    "drift": "monitoring.html",
    "monitor": "calibrant.CalibrationMonitor.html",
    "fairness": "groups.html",
    "pipeline": "integrations.html",
    "joblib": "integrations.html",
    "ONNX": "deploying.html",
    "MLflow": "integrations.html",
    "Lightning": "recipe-torch.html",
    "DDP": "recipe-torch.html",
}
pytestmark = pytest.mark.slow
SCREENSHOTS = ("report", "monitor", "site")  # of pages, which have a theme of their own


def test_every_figure_of_the_pages_has_a_dark_variant():
    pages = [*(ROOT / "docs").glob("*.md")]
    figures = {
        name for page in pages for name in re.findall(r"images/([\w-]+)\.png", page.read_text())
    }
    drawn = {
        name for name in figures if not name.startswith(SCREENSHOTS) and not name.endswith("-dark")
    }
    assert len(drawn) > 10
    images = ROOT / "docs" / "images"
    assert [name for name in sorted(drawn) if not (images / f"{name}-dark.png").exists()] == []


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    for name in ("myst_parser", "numpydoc", "pydata_sphinx_theme", "sphinx_copybutton", "torch"):
        optional(name)
    folder = tmp_path_factory.mktemp("site")
    written = shutil.ignore_patterns("generated")  # by other builds, beside the pages
    source = shutil.copytree(ROOT / "docs", folder / "docs", ignore=written)
    for name in ("CHANGELOG.md", "CONTRIBUTING.md", "VISION.md"):
        shutil.copy(ROOT / name, folder)
    command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going"]
    built = subprocess.run(
        [*command, "-b", "html", str(source), str(folder / "site")],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), *sys.path])},
    )
    assert built.returncode == 0, built.stderr
    return folder / "site"


def test_the_site_is_built_without_a_warning_whole_and_searchable_from_a_folder(site, page):
    """One test, so that no second worker builds the site again."""
    every_page_is_there(site)
    nothing_is_fetched_from_elsewhere(site)
    for words, expected in SEARCHED.items():
        links = found_from_a_folder(site, page, words)
        assert any(expected in link for link in links), links


def every_page_is_there(site):
    pages = {page.stem for page in (ROOT / "docs").glob("*.md")}
    assert pages <= {page.stem for page in site.glob("*.html")}


def nothing_is_fetched_from_elsewhere(site):
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        fetched = re.findall(r'<(?:script|img|iframe)[^>]*\ssrc="(https?:[^"]*)', text)
        fetched += re.findall(r'<link rel="stylesheet"[^>]*href="(https?:[^"]*)', text)
        assert fetched == [], page.name


@pytest.fixture(scope="module")
def page(site):
    path = shutil.which("chromium")
    if path is None and not os.environ.get("CI"):
        pytest.skip("chromium is not installed")
    with optional("playwright.sync_api").sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser.new_page()
        browser.close()


def found_from_a_folder(site, page, words):
    page.goto(f"{(site / 'search.html').as_uri()}?q={words}")
    page.wait_for_selector("#search-results .search-summary:has-text('found')")
    return page.eval_on_selector_all("#search-results li a", "links => links.map(a => a.href)")
