"""The commands of docs/recipes.md print their output, recipe by recipe."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.test_readme import compare
from tests.support.cluster import ROOT
from tests.support.console import console_blocks

PAGE = (ROOT / "docs" / "recipes.md").read_text()
FILES = re.compile(r"`([\w./+=]+)` has these:\n\n```json\n(.*?)```", re.DOTALL)
RECIPES = [one for one in re.split(r"(?m)^## ", PAGE) if console_blocks(one)]


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda one: one.partition("\n")[0])
def test_every_command_of_a_recipe_prints_its_output(
    recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for path, content in FILES.findall(recipe):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text(content)
    compare("".join(console_blocks(recipe)), tmp_path, monkeypatch, capfd)


def test_there_are_all_recipes() -> None:
    assert len(RECIPES) == 3
    assert len(FILES.findall(PAGE)) == 2
