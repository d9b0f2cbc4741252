"""The syntax trees of the package's modules, parsed once by the one worker that runs the tests with this mark."""

import ast
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "mutator"
of_the_source = pytest.mark.xdist_group("source")


def module_name(path):
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix("__init__").removesuffix(".")


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


@cache
def trees():
    """Return the syntax tree of each module, by its name within the package."""
    return {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in MODULES.items()}


@cache
def nodes():
    """Return (module, node) for each node of a syntax tree that a test looks at: constants, calls and raised names."""
    kinds = (ast.Constant, ast.Call, ast.Raise)
    return [(name, node) for name, tree in trees().items() for node in ast.walk(tree) if isinstance(node, kinds)]
