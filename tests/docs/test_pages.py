"""The commands of pages print their output, one after the other in a directory for each page."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.cluster import ROOT
from tests.support.console import compare, console_blocks, same
from tests.support.html_page import check

FILE = re.compile(r"`([\w./+=]+)`[^`]*:\n\n```(?:json|csv|text)\n(.*?)```", re.DOTALL)
RECIPES = [one for one in re.split(r"(?m)^## ", (ROOT / "docs" / "recipes.md").read_text()) if console_blocks(one)]
OF_TABLES = (
    (r"TIME\.\d+\+00:00", "TIME"),
    (r"/\S*/sales\b", "sales"),
    (r"[\d,]+ bytes", "N bytes"),
    (r"(?m) +\S+ +N s$", " BYTES N s"),
    (r"\d{4}-\d\d-\d\d [\d:.]+Z(?=,\d+,[A-Z]-)", "COMMITTED"),
    (r"\b[0-9a-f]{32}\b", "DIGEST"),
    (r"(\.parquet) +[\d,]+ ", r"\1 N "),
    (r"(?m) +", " "),
)


def plain(text: str) -> str:
    """Return what is the same in each run of commands on tables."""
    text = same(text)
    for pattern, word in OF_TABLES:
        text = re.sub(pattern, word, text)
    return text


def timeless(text: str) -> str:
    return re.sub(r"\d{4}-\d\d-\d\d [\d:.]+Z", "TIME", text)


class Page(NamedTuple):
    """Pages with commands in one directory."""

    names: str
    count: int  # of commands
    shown: Callable[[str], str]  # takes away what differs from run to run
    only: str = ""  # what is in the blocks of the commands
    made: str = ""  # by them: a pattern of files


PAGES = (
    Page("changes", 2, timeless, made="changed/part-*.parquet"),
    Page("patches", 4, lambda text: same(text.replace(f"{ROOT}/", "").replace("/data/", ""))),
    Page("history", 17, str),
    Page("truncates", 6, timeless, made="changed/part-*.parquet"),
    Page("diff", 3, str),
    Page("dialects", 4, str),
    Page("explain", 16, lambda text: same(text.replace(f"{ROOT}/", "").replace("/data/", ""))),
    Page("reports", 11, lambda text: re.sub(" +", " ", same(text))),
    Page("table table_versions", 20, plain),
    Page("workflow", 7, plain),
    Page("workflow_table", 6, plain),
    Page("sales_table", 18, plain),
    Page("insert_overwrite", 7, lambda text: timeless(plain(text)), "mutator table"),
    Page("insert_overwrite", 5, same, "mutator run"),
)


def put_files(text: str, directory: Path) -> None:
    """Write the files that a page shows."""
    for path, content in FILE.findall(text):
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_text(content)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.names} {page.only}".strip())
def test_every_command_of_a_page_prints_its_output(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    text = "".join((ROOT / "docs" / f"{name}.md").read_text() for name in page.names.split())
    put_files(text, tmp_path)
    block = "".join(one for one in console_blocks(text) if page.only in one)
    commands = compare(block, tmp_path, monkeypatch, capfd, page.shown)
    assert len(commands) == page.count
    assert not page.made or [*tmp_path.glob(page.made)]
    for path in re.findall(r"--html (\S+)", " ".join(commands)):
        check((tmp_path / path).read_text())


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda one: one.partition("\n")[0])
def test_every_command_of_a_recipe_prints_its_output(
    recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    put_files(recipe, tmp_path)
    assert compare("".join(console_blocks(recipe)), tmp_path, monkeypatch, capfd)


def test_there_are_all_recipes() -> None:
    assert len(RECIPES) == 3


def test_the_page_on_the_sales_table_shows_its_settings() -> None:
    shown = re.search(r"```toml\n(.*?)```", (ROOT / "docs" / "sales_table.md").read_text(), re.DOTALL)
    assert shown is not None
    assert shown[1] == (ROOT / "sample_data" / "sales_table" / "table.toml").read_text()
