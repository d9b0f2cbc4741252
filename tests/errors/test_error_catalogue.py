"""The error catalogue: every error kind is used, gets its fields, and can be rendered."""

import ast
import pickle
import string
from pathlib import Path

import pytest

from mutator import errors
from mutator.errors import MutatorError, error, exceptions
from mutator.errors.display import printable

PACKAGE = Path(__file__).resolve().parents[2] / "mutator"


def kinds_raised():
    """Return every string constant of the package outside the catalogue; every error kind must be one of them."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        if path.name.endswith("_errors.py"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
    return found


def calls_of_error():
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "error":
                yield path, node


def fields_of(kind):
    return {name for _, name, _, _ in string.Formatter().parse(exceptions.CATALOGUE[kind][1]) if name is not None}


def test_every_error_kind_is_used():
    assert set(exceptions.CATALOGUE) - kinds_raised() == set()


def test_every_error_is_in_the_catalogue_with_its_fields():
    seen = 0
    for path, node in calls_of_error():
        if isinstance(node.args[0], ast.Constant) and all(keyword.arg for keyword in node.keywords):
            seen += 1
            kind, given_fields = node.args[0].value, {keyword.arg for keyword in node.keywords}
            assert kind in exceptions.CATALOGUE, f"{path.name}:{node.lineno}"
            assert fields_of(kind) == given_fields, f"{path.name}:{node.lineno}"
    assert seen > 30


@pytest.mark.parametrize("kind", exceptions.CATALOGUE)
def test_a_message_renders(kind):
    made = error(kind, **{name: f"<{name}>" for name in fields_of(kind)})

    assert made.kind == kind
    assert all(f"<{name}>" in str(made) for name in fields_of(kind))
    assert "{" not in str(made)
    again = pickle.loads(pickle.dumps(made))
    assert (type(again), again.kind, str(again), again.exit_code) == (type(made), kind, str(made), made.exit_code)


def test_each_family_has_one_exit_code():
    codes = {family: family.exit_code for family, _ in exceptions.CATALOGUE.values()}

    assert codes == {
        errors.ConfigError: 2,
        errors.DataError: 3,
        errors.StorageError: 4,
        errors.StateError: 5,
        MutatorError: 70,
    }


def test_no_message_has_control_characters():
    assert str(error("storage", path="a\x1b[2J\rb\u202e", why="x\ny")).startswith("a\\x1b[2J\\rb\\u202e: x\\ny")
    assert printable("é ü\n") == "é ü\n"
