"""The architecture that the design describes, compared with the code: fourteen rooms, imports in one direction, no
circles.
"""

import ast
import re
import tomllib
from collections import Counter
from functools import cache
from graphlib import CycleError, TopologicalSorter

from tests.support.package_source import MODULES, PACKAGE, nodes, of_the_source, trees

pytestmark = of_the_source

# In the order in which data flows. A room imports only from the rooms before it; siblings never import each other.
ROOMS = [
    *("errors", "rules", "storage", "config", "formats", "dataset", "plan", "engine", "frames", "pipeline"),
    *("workflow", "bridge", "table"),
    "cli",
]
SIBLINGS = {"workflow", "bridge", "table"}
# The modules that may import pyspark.
SPARK = ("engine.spark", "bridge.hive", "table.spark_source")
PRINTS = {"cli.program"}
MOST_LINES = 400


def imports(tree):
    """Return the full names that a module imports; a name from a package may be a module or not."""
    names = []
    for node in statements(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


def statements(node):
    """Yield the statements of a module at every depth, except those that are only for type checkers."""
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, ast.stmt | ast.excepthandler | ast.match_case) and not is_for_types(inner):
            yield inner
            yield from statements(inner)


def is_for_types(node):
    """Return whether a node is ``if TYPE_CHECKING:``, whose imports never run."""
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


@cache
def imports_by_module():
    return {name: imports(tree) for name, tree in trees().items()}


def own_module(full):
    """Return the module of this project that defines an imported name, or None."""
    top, _, rest = full.partition(".")
    if top != "mutator":
        return None
    while rest not in MODULES:
        rest = rest.rpartition(".")[0]
    return rest


@cache
def uses():
    return {name: {own_module(full) for full in names} - {None} for name, names in imports_by_module().items()}


def room_of(name):
    return name.partition(".")[0].removeprefix("__main__")


def found(wrong):
    """Return the modules that have faults, with their faults."""
    return {name: faults for name, faults in wrong.items() if faults}


def circle(graph):
    """Return one circle of a graph, or None."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as fault:
        return fault.args[1]
    return None


def test_dataclasses_are_quick_to_make():
    assert not [name for name, found in imports_by_module().items() if "dataclasses.dataclass" in found]


def test_every_module_is_in_a_room():
    assert {room_of(name) for name in MODULES} - {""} <= set(ROOMS)
    assert {path.name for path in PACKAGE.glob("*.py")} == {"__init__.py", "__main__.py"}


def test_the_map_of_the_package_names_every_room_in_order():
    _, rows, _ = re.split(r"(?m)^=+ =+$", ast.get_docstring(trees()[""]))

    assert re.findall(r"(?m)^``(\w+)`` +\S", rows) == [room for room in ROOMS if room in MODULES]


def test_imports_go_to_rooms_before():
    wrong = {}
    for name, used in uses().items():
        room = room_of(name)
        before = set(ROOMS[: ROOMS.index(room)]) - (SIBLINGS if room in SIBLINGS else set()) if room else set(ROOMS)
        wrong[name] = sorted(module for module in used if room_of(module) not in before | {room})

    assert found(wrong) == {}


def test_underscored_names_stay_in_their_module():
    names = {
        name: [full.rpartition(".")[2] for full in full_names if own_module(full) is not None]
        for name, full_names in imports_by_module().items()
    }

    assert found({name: [used for used in names[name] if used.startswith("_")] for name in names}) == {}


def test_no_circle_of_modules():
    assert circle(uses()) is None


def test_no_circle_of_folders_in_a_room():
    """Each module directly in a room is a node; so is each folder. A room's ``__init__`` may import all of them."""

    def place(name):
        return ".".join(name.split(".")[:2])

    graphs = {room: {} for room in ROOMS}
    for name, used in uses().items():
        room = room_of(name)
        if name != room and room:
            graphs[room].setdefault(place(name), set()).update(
                place(one) for one in used if room_of(one) == room and place(one) not in (room, place(name))
            )

    assert {room: found for room, graph in graphs.items() if (found := circle(graph))} == {}


def test_a_circle_is_found():
    assert circle({"a": {"b"}, "b": {"a"}}) is not None
    assert circle({"a": {"b"}, "b": set()}) is None


def test_importing_a_name_counts_as_importing_its_module():
    assert own_module("mutator.storage.storage_for") == "storage"
    assert own_module("mutator.storage.local.LocalStorage") == "storage.local"
    assert own_module("mutator.mutate") == ""
    assert own_module("pyspark.sql") is None


def test_spark_stays_in_its_corner():
    users = {
        name
        for name, names in imports_by_module().items()
        if any(full.startswith(("pyspark", "py4j")) for full in names)
    }

    assert [name for name in users if not f"{name}.".startswith(tuple(f"{corner}." for corner in SPARK))] == []
    assert users


def test_only_the_command_line_prints_and_exits():
    forbidden = {"print", "sys.exit", "exit", "quit", "SystemExit", "sys.stdout.write"}
    used = {
        name
        for name, node in nodes()
        if (called := node.func if isinstance(node, ast.Call) else getattr(node, "exc", None))
        and isinstance(called, ast.Name | ast.Attribute)
        and ast.unparse(called) in forbidden
    }

    assert used <= PRINTS


def test_modules_are_short():
    lines = {name: path.read_text(encoding="utf-8").count("\n") for name, path in MODULES.items()}

    assert {name: count for name, count in lines.items() if count > MOST_LINES} == {}


def test_public_modules_classes_and_functions_have_docstrings():
    assert found({name: without_docstring(tree) for name, tree in trees().items()}) == {}


def without_docstring(tree):
    missing = [] if ast.get_docstring(tree) else ["the module"]
    for holder in [tree, *(node for node in tree.body if isinstance(node, ast.ClassDef))]:
        if isinstance(holder, ast.ClassDef) and holder.name.startswith("_"):
            continue
        missing += [
            node.name
            for node in holder.body
            if isinstance(node, ast.FunctionDef | ast.ClassDef)
            and not node.name.startswith("_")
            and not ast.get_docstring(node)
        ]
    return missing


def test_planted_faults_are_in_the_source():
    faults = tomllib.loads((PACKAGE.parent / "tests/mutants/faults.toml").read_text(encoding="utf-8"))["fault"]
    found = [(PACKAGE.parent / one["file"]).read_text(encoding="utf-8").count(one["old"].strip("\n")) for one in faults]
    assert [one["name"] for one, times in zip(faults, found, strict=True) if times != 1] == []


def test_a_public_class_has_a_name_of_its_own():
    defined = [node.name for tree in trees().values() for node in tree.body if isinstance(node, ast.ClassDef)]
    assert [name for name, times in Counter(defined).items() if times > 1 and not name.startswith("_")] == []
