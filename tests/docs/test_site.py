"""The pages as a site: links, spelling, reading ease, and the files that describe the project."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from mutator.errors.version import VERSION
from tests.support.browser import DESK, PHONE, opened

pytest.importorskip("sphinx", reason="Sphinx is not installed: pip install -e '.[docs]'")

import readability

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))
TEXTS = [*(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")), *PAGES]
HARDEST = 12  # the automated readability index of a text for the last year of school


def sentences(text):
    """Return the sentences of a page, one a line, in words apart: without examples, tables, headings and addresses."""
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    text = re.sub(r"(?m)^(\||    |#).*$", "", text)
    text = re.sub(r"`[^`]*`", "word", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"(?m)^\s*(- |\d+\. )", "\n\n", text)
    found = (re.findall(r"[\w'-]+|[^\w\s]", one) for one in re.split(r"(?<=[.!?:;])\s+|\n\n+", text))
    return "\n".join(" ".join(words) for words in found if words)


@pytest.fixture(name="site", scope="module")
def built_site(tmp_path_factory):
    """Build the site with every warning an error, such as one of a wrong link; return the directory."""
    place = tmp_path_factory.mktemp("docs") / "site"
    command = [sys.executable, "-m", "sphinx", "-n", "-W", "--keep-going", "-q", ROOT / "docs", place]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return place


@pytest.mark.rest
@pytest.mark.processes
def test_the_site_has_all_pages_and_needs_no_network(site):
    assert {path.stem for path in PAGES} <= {path.stem for path in site.glob("*.html")}
    assert "late" in (site / "searchindex.js").read_text()
    for page in site.glob("*.html"):
        assert not re.findall(r'(?:src|href)="https?://[^"]*\.(?:js|css|woff2?)"', page.read_text()), page.name


@pytest.mark.rest
@pytest.mark.processes
@pytest.mark.parametrize(("width", "scheme"), [(DESK, "light"), (PHONE, "dark")])
def test_the_site_can_be_read_by_everybody(site, width, scheme):
    with opened() as browser:
        for page in ("index", "tutorial", "settings", "mistakes", "s3", "performance"):
            browser.show(site / f"{page}.html", width, scheme)

            assert browser.violations() == [], page
            assert browser.value("document.documentElement.scrollWidth") == width, page  # tables and drawings scroll
            drawings = '[...document.querySelectorAll("article img[src$=\\".svg\\"]")]'
            assert browser.value(f"{drawings}.every(one => one.width > 700)"), page  # or its text is too small
            assert browser.value("[...document.images].every(one => one.naturalWidth)"), page


def test_each_page_is_in_the_index():
    index = (ROOT / "docs" / "index.md").read_text()
    listed = re.findall(r"(?m)^([\w-]+)$", "".join(re.findall(r"```\{toctree\}\n(.*?)```", index, re.DOTALL)))

    assert sorted(listed) == sorted(path.stem for path in PAGES if path.stem != "index")


def test_links_of_the_readme_lead_somewhere():
    for text in TEXTS[:3]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", text.read_text()):
            assert (ROOT / target).exists(), f"{text.name}: {target}"


def test_the_spelling_is_right():
    done = subprocess.run([sys.executable, "-m", "codespell_lib", *TEXTS], capture_output=True, text=True, cwd=ROOT)

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("page", [one for one in TEXTS if one.stem != "changelog"], ids=lambda path: path.name)
def test_a_page_is_easy_to_read(page):
    measured = readability.getmeasures(sentences(page.read_text()), lang="en")

    assert measured["readability grades"]["ARI"] <= HARDEST


def test_the_changelog_has_the_version():
    changelog = (ROOT / "CHANGELOG.md").read_text()

    assert "## Unreleased" in changelog or f"## {VERSION} " in changelog


@pytest.mark.processes
def test_the_workflow_of_github_has_the_form_that_it_requires():
    workflow = ROOT / ".github" / "workflows" / "ci.yml"
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", workflow]

    done = subprocess.run(command, capture_output=True, text=True)

    assert done.returncode == 0, done.stdout + done.stderr
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"run: make ([\w-]+)", workflow.read_text()):
        assert re.search(rf"(?m)^{target}:", makefile), target
