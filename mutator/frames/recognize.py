"""Recognize tables by the names of their classes, so that no library is imported for it."""

from typing import Any

ARROW_STREAM = "Arrow stream"
ARROW_TABLE = "Arrow table"
PANDAS = "pandas DataFrame"
SPARK = "Spark DataFrame"
LAZY = "Polars LazyFrame"
READER = "Arrow record batch reader"
RDD = "Spark RDD"

# (first part of the module, name of the class) -> what people call it
_KINDS = {
    ("pandas", "DataFrame"): PANDAS,
    ("polars", "DataFrame"): "Polars DataFrame",
    ("polars", "LazyFrame"): LAZY,
    ("pyspark", "DataFrame"): SPARK,
    ("pyspark", "RDD"): RDD,
    ("pyarrow", "Table"): ARROW_TABLE,
    ("pyarrow", "RecordBatch"): "Arrow record batch",
    ("pyarrow", "RecordBatchReader"): READER,
}
# Values that look like tables and are not.
_OTHERS = {
    ("pandas", "Series"): "a pandas Series, which is one column: series.to_frame() makes a DataFrame of it",
    ("polars", "Series"): "a Polars Series, which is one column: series.to_frame() makes a DataFrame of it",
    ("pyarrow", "Array"): "an Arrow array, which is one column: pa.table({'name': array}) makes a table of it",
    ("pyarrow", "ChunkedArray"): "an Arrow array, which is one column: pa.table({'name': array}) makes a table of it",
    ("mutator", "Table"): "a mutator.Table: table.scan() gives its rows, and table.export(directory) a dataset of them",
    ("pyarrow", "Dataset"): "an Arrow dataset: name the directory itself, or give dataset.to_table()",
}


def kind_of(value: Any) -> str | None:
    """Return what a table in memory is called; None for anything else.

    >>> import pyarrow as pa
    >>> kind_of(pa.table({"id": [1]})), kind_of("master"), kind_of(None)
    ('Arrow table', None, None)
    """
    names = _class_names(value)
    if any(name in _OTHERS for name in names) or type(value).__module__.startswith("pyspark.pandas"):
        return None
    kind = next((_KINDS[name] for name in names if name in _KINDS), None)
    if kind is None and hasattr(value, "__arrow_c_stream__") and not isinstance(value, type):
        return ARROW_STREAM
    return kind


def is_connect(frame: Any) -> bool:
    """Return whether a Spark DataFrame, or a session, is one of Spark Connect."""
    return type(frame).__module__.startswith("pyspark.sql.connect")


def described(value: Any) -> str:
    """Return what a value of the wrong type is, for messages.

    >>> described(None), described(7), described([{"id": 7}]), described([])
    ('None', '7, an int', 'a list', 'an empty list')
    """
    if value is None:
        return "None"
    if type(value).__module__.startswith("pyspark.pandas"):
        return "a pandas-on-Spark frame: frame.to_spark() makes a Spark DataFrame of it"
    if (other := next((_OTHERS[name] for name in _class_names(value) if name in _OTHERS), None)) is not None:
        return other
    if is_connect(value):
        return f"a {type(value).__name__} of Spark Connect"
    if (kind := kind_of(value)) is not None:
        return f"{_article(kind)} {kind}"
    name = type(value).__name__
    if isinstance(value, list | tuple | set | frozenset) and not value:
        return f"an empty {name}"
    if isinstance(value, str | bytes | int | float):
        shown = repr(value)
        return f"{shown if len(shown) <= 60 else shown[:60] + '…'}, {_article(name)} {name}"
    return f"{_article(name)} {name}"


def _class_names(value: Any) -> list[tuple[str, str]]:
    return [(one.__module__.partition(".")[0], one.__name__) for one in type(value).__mro__]


def _article(noun: str) -> str:
    return "an" if noun[:1].lower() in "aeiou" else "a"
