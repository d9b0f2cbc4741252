"""Delta, Iceberg and Hudi on Spark: ``MERGE INTO`` a table with the same rows."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import ClassVar

from bench.contenders.contender import Contender, Ran, Skipped
from bench.contenders.spark import Shuffled, fold, read, session
from bench.environment import CACHE, DELTA, HUDI, ICEBERG, Environment
from bench.layout import MASTER_FIELDS, is_text

__all__ = ["Delta", "DeltaVectors", "Hudi", "HudiOnRead", "Iceberg", "IcebergOnRead"]


class Lakehouse(Contender):
    """The common base of the three."""

    environment: Environment
    settings: ClassVar[dict[str, str]]
    how = "copy-on-write merge"
    number = 0  # of the copy of the table

    def start(self, scratch: Path) -> dict[str, str]:
        """Start Spark with the jar; skip if Maven cannot be reached and the jar is missing."""
        import pyspark

        jars = {"spark.jars.packages": self.environment.jar, "spark.jars.ivy": str(CACHE / "ivy")}
        try:
            self.spark = session(scratch, **jars, **self._settings(scratch))
        except Exception as fault:  # noqa: BLE001  # the class for a JVM that did not start depends on the Spark version
            raise Skipped(
                f"{self.environment.jar}: Maven cannot be reached, or Spark did not start ({fault})"
            ) from None
        return {self.environment.name: self.environment.jar.rpartition(":")[2], "pyspark": pyspark.__version__}

    def stop(self) -> None:
        """Stop Spark."""
        self.spark.stop()

    def prepare(self, master: Path, state: Path) -> None:
        """Write the master as a table."""
        self.state = state
        for copy in state.glob("table-*"):  # of this contender's previous process, if it was stopped to free memory
            shutil.rmtree(copy)
        if not self._pristine().exists():
            self._write(read(self.spark, master, MASTER_FIELDS), self._pristine())

    def reset(self) -> None:
        """Copy the table to a new path, which no cache knows."""
        shutil.rmtree(self._copy(), ignore_errors=True)
        self.number += 1
        shutil.copytree(self._pristine(), self._copy())
        self.spark.sql("DROP TABLE IF EXISTS master")
        self.spark.sql(f"CREATE TABLE master USING {self.environment.name} LOCATION '{self._copy()}'")

    def run(self, feed: Path, output: Path) -> Ran:
        """Fold the feed and merge it."""
        shuffled = Shuffled(self.spark)
        fold(self.spark, feed).createOrReplaceTempView("feed")
        self.spark.sql(
            f"""MERGE INTO {self._table()} AS target USING feed AS source ON target.id = source.id
                WHEN MATCHED AND source.op = 'D' AND source.time >= target.time THEN DELETE
                WHEN MATCHED AND source.op <> 'D' AND source.time >= target.time THEN UPDATE SET
                    {", ".join(f"{self._target(name)} = source.{name}" for name in MASTER_FIELDS)}
                WHEN NOT MATCHED AND source.op <> 'D' THEN INSERT ({", ".join(MASTER_FIELDS)})
                    VALUES ({", ".join(f"source.{name}" for name in MASTER_FIELDS)})"""
        )
        return Ran(self.how, shuffled.bytes)

    def export(self, output: Path, to: Path) -> Path:
        """Read the table back."""
        line = f"concat_ws(',', {', '.join(MASTER_FIELDS)}) AS line"
        self.spark.sql(f"SELECT {line} FROM {self._table()}").write.text(str(to))
        return to

    def _settings(self, scratch: Path) -> dict[str, str]:
        return self.settings

    def _pristine(self) -> Path:
        return self.state / "pristine"

    def _copy(self) -> Path:
        return self.state / f"table-{self.number}"

    def _table(self) -> str:
        return "master"

    def _target(self, name: str) -> str:
        return f"target.{name}"

    def _write(self, rows, path: Path) -> None:
        rows.write.format(self.environment.name).save(str(path))


class Delta(Lakehouse):
    """Delta, configured as in its documentation."""

    environment = DELTA
    settings: ClassVar[dict[str, str]] = {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }


class DeltaVectors(Delta):
    """Delta with deletion vectors.

    Its log is read in two partitions: the default of 50 makes a merge of 100 rows several times as slow.
    """

    how = "merge with deletion vectors"
    settings: ClassVar[dict[str, str]] = Delta.settings | {
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.databricks.delta.properties.defaults.enableDeletionVectors": "true",
    }


class Hudi(Lakehouse):
    """Hudi, copy-on-write, with the time as its ordering field."""

    environment = HUDI
    table_type = "COPY_ON_WRITE"
    options: ClassVar[dict[str, str]] = {}
    settings: ClassVar[dict[str, str]] = {
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
    }

    def prepare(self, master: Path, state: Path) -> None:
        """Write the master as a table; with Parquet, use its codec."""
        self.codec = {} if is_text(master) else {"hoodie.parquet.compression.codec": "snappy"}
        for name, value in self.codec.items():
            self.spark.conf.set(name, value)
        super().prepare(master, state)

    def _write(self, rows, path: Path) -> None:
        options = {
            "hoodie.table.name": "master",
            "hoodie.datasource.write.table.type": self.table_type,
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.precombine.field": "time",
            "hoodie.datasource.write.partitionpath.field": "",
            "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
            "hoodie.datasource.write.operation": "bulk_insert",
        }
        rows.write.format("hudi").options(**options, **self.options, **self.codec).mode("overwrite").save(str(path))


class HudiOnRead(Hudi):
    """Hudi, merge-on-read.

    The condition of the merge has compared the times, so the last commit wins: by event time, a reader drops the
    deletes of a merge (github.com/apache/hudi/issues/19978).
    """

    how = "merge-on-read merge"
    table_type = "MERGE_ON_READ"
    options: ClassVar[dict[str, str]] = {"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"}


class Iceberg(Lakehouse):
    """Iceberg with a directory as its catalogue; its paths are absolute, so a reset rolls back instead of copying."""

    environment = ICEBERG
    settings: ClassVar[dict[str, str]] = {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
    }
    properties: ClassVar[dict[str, str]] = {}

    def _settings(self, scratch: Path) -> dict[str, str]:
        return self.settings | {"spark.sql.catalog.lake.warehouse": str(scratch / "lake")}

    def prepare(self, master: Path, state: Path) -> None:
        """Write the master as a table, and remember its snapshot."""
        table = read(self.spark, master, MASTER_FIELDS).writeTo(self._table())
        codec = {} if is_text(master) else {"write.parquet.compression-codec": "snappy"}
        for name, value in (codec | self.properties).items():
            table = table.tableProperty(name, value)
        table.createOrReplace()
        (self.snapshot,) = self.spark.sql(
            f"SELECT snapshot_id FROM {self._table()}.snapshots ORDER BY committed_at DESC LIMIT 1"
        ).first()

    def reset(self) -> None:
        """Roll back, and remove the files that the last run has written."""
        self.spark.sql(f"CALL lake.system.rollback_to_snapshot('bench.master', {self.snapshot})")
        self.spark.sql(
            "CALL lake.system.expire_snapshots(table => 'bench.master', older_than => now(), retain_last => 1)"
        )

    def _table(self) -> str:
        return "lake.bench.master"

    def _target(self, name: str) -> str:
        return name


class IcebergOnRead(Iceberg):
    """Iceberg, merge-on-read, with the deletion vectors of format version 3."""

    how = "merge-on-read merge"
    properties: ClassVar[dict[str, str]] = {
        "format-version": "3",
        **{f"write.{command}.mode": "merge-on-read" for command in ("delete", "update", "merge")},
    }
