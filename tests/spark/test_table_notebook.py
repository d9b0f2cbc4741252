"""A notebook of a user who works with a table on an own Spark session, in an environment that is not activated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import ROOT
from tests.support.notebook import printed_by
from tests.support.spark_versions import NEEDS_SOURCES

CELLS = [
    """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
import mutator
import pyarrow as pa
""",
    """
table = mutator.Table.create("customers", key="id", order_by="changed", op="op", buckets=2)
first = pa.table({"id": range(1, 2001), "city": ["Bonn", "Rome"] * 1000, "changed": [1] * 2000, "op": ["I"] * 2000})
table.apply(first).counts["feed inserted"]
""",
    """
customers = table.dataframe(spark)
moves = spark.createDataFrame([("Bonn", "Kyiv")], "city string, new string")
moved = customers.where("id <= 300").join(moves, "city").selectExpr("id", "new AS city", "2L AS changed", "'U' AS op")
""",
    """
report = table.apply(moved, txn=("moves", 1))
again = table.apply(moved, txn=("moves", 1))
print("merged", report.counts["feed updated"], table.version, report.runner.split(":")[0])
""",
    """
mutator.register(spark)
changes = spark.read.format("mutator").options(changes="true", startingVersion=1).load(table.path)
print("changes", sorted(tuple(row) for row in changes.groupBy("_change_type").count().collect()))
""",
    """
spark.sql(f"CREATE TEMPORARY VIEW customers USING mutator OPTIONS (path '{table.path}')")
print("cities", sorted(map(tuple, spark.sql("SELECT city, count(*) FROM customers GROUP BY city").collect())))
""",
    """
batches = table.rdd(spark, ["city"], "city = 'Kyiv'")
print("batches", batches.map(lambda batch: batch.num_rows).sum(), batches.getNumPartitions())
""",
    """
customers.where("city = 'Rome'").selectExpr("id", "city", "3L AS changed", "'D' AS op").limit(10).write.format(
    "mutator").mode("append").save(table.path)
print("left", table.refresh().dataframe(spark).count(), spark.read.format("mutator").load(table.path).count())
""",
]
KERNEL = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})  # as an installation in the kernel's environment
cells, names = {CELLS!r}, {{"__name__": "__main__"}}
for number, cell in enumerate(cells, 1):
    exec(compile(cell, f"<cell {{number}}>", "exec"), names)
"""


@NEEDS_SOURCES
@pytest.mark.thorough(keep=0)
@pytest.mark.processes
def test_a_notebook_reads_joins_and_applies(sc: Any, tmp_path: Path) -> None:
    """An own session, a kernel started by its path in another directory, and another Python first on the path."""
    lines = printed_by(KERNEL, tmp_path)

    assert [line for line in lines if line.split()[0] in PRINTED] == [
        "merged 150 2 spark",
        "changes [('update_postimage', 150), ('update_preimage', 150)]",
        "cities [('Bonn', 850), ('Kyiv', 150), ('Rome', 1000)]",
        "batches 150 2",
        "left 1990 1990",
    ]


PRINTED = ("merged", "changes", "cities", "batches", "left")
