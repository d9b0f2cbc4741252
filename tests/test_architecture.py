"""The map that the code should make visible, held against the code: who may import what, who prints, how long."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# A module imports only from those above it: words, rules, intent, edges, Spark, the run, the command line. `layout`
# stands below `config`, for it turns a configuration into ordinals.
ORDER = [
    *(
        "redact",
        "catalogue",
        "catalogue_many",
        "catalogue_tables",
        "errors",
        "failpoint",
        "interrupt",
        "checksum",
        "collector",
        "owner",
    ),
    *("outcome", "precedence", "naming", "sequences", "sealed"),
    *("spans", "ordercolumn", "keyhash", "keyfilter", "typed", "schema"),
    *("charset", "javaregex", "delimiter"),
    *("partitions", "partition_by", "layout"),
    *("values", "settings", "config"),
    *("formats.text", "formats.parquet_columns", "formats.key_filters"),
    *("formats.block", "formats.text_scan", "formats.text_blocks", "formats.tabular"),
    *("formats.scalar_text", "formats.time_text", "formats.escapes", "formats.nested_text"),
    *("formats.delimited", "formats.escaped"),
    *("formats.avro_schema", "formats.avro_container", "formats.avro_files", "formats.parquet_files"),
    *(
        "formats.orc_files",
        "formats.kinds",
        "formats.convert",
        "formats.roles",
        "formats.columns",
        "formats.avro_blocks",
        "formats",
    ),
    *(
        "storage.entry",
        "storage.compression",
        "storage.local_rename",
        "storage.local",
        "storage.globbing",
        "storage.stream",
    ),
    *("storage.s3_client", "storage.s3_streams", "storage.s3"),
    *("storage.hdfs_client", "storage.hdfs_streams", "storage.hdfs"),
    *("storage.remote", "storage"),
    *("manifest", "splitrecord", "table", "unit", "partitioning", "sidecar", "look", "dataset", "control", "survey"),
    *("shape", "width", "held", "named_fields", "avro_named", "named"),
    *("inputs", "joins", "plan", "unit_plan", "report"),
    *("sample.draw", "sample.products", "sample.sales", "sample"),
    *("engine", "engine.allocator", "engine.content", "engine.tally", "engine.staged"),
    *("engine.ledger", "engine.filewrite", "engine.read", "engine.merge", "engine.write"),
    *("engine.spool", "engine.mutations", "engine.winners", "engine.blockread", "engine.master", "engine.duplicates"),
    *("engine.parts", "engine.blockmerge", "engine.unitmerge", "engine.carry", "engine.blockwrite", "engine.broadcast"),
    *("engine.routes", "engine.route", "engine.locate", "engine.units"),
    *("engine.spark", "engine.records", "engine.blocks", "engine.partitioned", "engine.daemon", "engine.alone"),
    *("hive", "hive.frames", "hive.staged_table", "hive.metastore", "hive.spark_types", "hive.insert"),
    *("hive.create", "hive.live_table", "hive.table"),
    *("accounting", "staging", "publish", "pipeline", "verify_partitions", "verify", "log"),
    *("workflow.base", "workflow.journal", "workflow.claim", "workflow.lock", "workflow.masters"),
    *("workflow.recovery", "workflow.run", "workflow.outcome", "workflow.operations", "workflow.merging"),
    *("workflow.verification", "workflow"),
    *("bridge.content", "bridge.each", "bridge.tasks", "bridge.dataset", "bridge.layout"),
    *("bridge.split", "bridge.digests", "bridge.export", "bridge.write", "bridge.path_table", "bridge.importing"),
    *("bridge.metastore_table", "bridge.state", "bridge.settle", "bridge.report", "bridge.run", "bridge"),
    *("feedsplit.files", "feedsplit.rows", "feedsplit.write", "feedsplit.run", "feedsplit", "partition_runs"),
    *("many.places", "many.tables", "many.order", "many.result", "many.record", "many.attempt", "many.run", "many"),
    *("session", "progress", "cli_workflow", "cli_bridge", "cli_many", "cli_partition", "cli"),
    "",  # the package itself: its public names
]
SPARK = {
    "engine.partitioned",
    "engine.spark",
    "engine.records",
    "engine.blocks",
    "engine.daemon",
    "session",
    "progress",
}
SPARK |= {f"hive.{name}" for name in ("frames", "create", "metastore", "spark_types", "insert", "live_table", "table")}
PRINTS = {"cli"}
MOST_LINES = 400


def module_name(path):
    return ".".join(path.relative_to(ROOT / "mutator").with_suffix("").parts).removesuffix("__init__").removesuffix(".")


MODULES = {module_name(path): path for path in sorted((ROOT / "mutator").rglob("*.py"))}
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in MODULES.items()}
each_module = pytest.mark.parametrize("name", TREES, ids=lambda name: name or "mutator")


def imports(tree):
    """Yield the full names that a module imports, and where: a name from a package may be a module or not."""
    types = {inner for node in ast.walk(tree) if is_for_types(node) for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if node in types:
            continue
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def is_for_types(node):
    """Tell whether a node is ``if TYPE_CHECKING:``, whose imports never run."""
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def own_module(full):
    """Return the module of this project that an imported name stands in, or None."""
    top, _, rest = full.partition(".")
    if top != "mutator":
        return None
    while rest not in MODULES:
        rest = rest.rpartition(".")[0]
    return rest


def test_every_module_has_its_place():
    assert sorted(ORDER) == sorted(MODULES), "a new module needs a place in ORDER"


@each_module
def test_imports_go_up(name):
    above = set(ORDER[: ORDER.index(name)])
    wrong = [(line, full) for line, full in imports(TREES[name]) if own_module(full) not in above | {None}]

    assert wrong == []


def test_an_import_of_a_name_is_one_of_its_module():
    assert own_module("mutator.storage.storage_for") == "storage"
    assert own_module("mutator.storage.local.LocalStorage") == "storage.local"
    assert own_module("mutator.mutate") == ""
    assert own_module("pyspark.sql") is None


def test_spark_stays_in_its_corner():
    users = {name for name, tree in TREES.items() for _, full in imports(tree) if full.startswith(("pyspark", "py4j"))}

    assert users == SPARK


@each_module
def test_only_the_command_line_prints_and_exits(name):
    calls = {ast.unparse(node.func) for node in ast.walk(TREES[name]) if isinstance(node, ast.Call)}
    raised = {ast.unparse(node.exc) for node in ast.walk(TREES[name]) if isinstance(node, ast.Raise) and node.exc}
    found = (calls | raised) & {"print", "sys.exit", "exit", "quit", "SystemExit", "sys.stdout.write"}

    assert not found or name in PRINTS


@each_module
def test_modules_are_short(name):
    lines = MODULES[name].read_text(encoding="utf-8").count("\n")

    assert lines <= MOST_LINES


@each_module
def test_what_is_public_has_a_docstring(name):
    missing = []
    for holder in [TREES[name], *(node for node in TREES[name].body if isinstance(node, ast.ClassDef))]:
        if isinstance(holder, ast.ClassDef) and holder.name.startswith("_"):
            continue
        if not ast.get_docstring(holder):
            missing.append(getattr(holder, "name", "the module"))
        missing += [
            node.name
            for node in holder.body
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and not ast.get_docstring(node)
        ]

    assert missing == []
