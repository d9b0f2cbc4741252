"""DuckLake: ``DELETE`` and ``MERGE INTO`` a table whose log is a DuckDB database."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from bench.contenders.contender import Contender, Ran, Skipped
from bench.layout import FEED_FIELDS, MASTER_FIELDS

__all__ = ["DuckLake"]


class DuckLake(Contender):
    """DuckLake supports one action for matched rows, so one transaction has two statements."""

    def start(self, scratch: Path) -> dict[str, str]:
        """Load the extension from its package: DuckDB itself would download it from a host of its own."""
        import duckdb
        import duckdb_ext

        files = [file for home in duckdb_ext.__path__ for file in Path(home).rglob("ducklake.duckdb_extension")]
        if not files:
            raise Skipped("the package has no extension for this platform")
        self.database = duckdb.connect(config={"temp_directory": str(scratch / "duckdb")})
        self.database.execute(f"LOAD '{files[0]}'")
        (release,) = self.database.execute(
            "SELECT extension_version FROM duckdb_extensions() WHERE extension_name = 'ducklake'"
        ).fetchone()
        return {"ducklake": f"{release} on duckdb {duckdb.__version__}"}

    def prepare(self, master: Path, state: Path) -> None:
        """Write the master as a table. The log has the absolute path of its files, so the copy is the pristine one."""
        self.database.execute("DETACH DATABASE IF EXISTS lake")
        self.pristine, self.lake = state / "pristine", state / "lake"
        if not self.pristine.exists():
            self.lake.mkdir(parents=True)
            self._attach()
            rows = f"SELECT {', '.join(MASTER_FIELDS)} FROM read_parquet('{master}/*.parquet')"
            self.database.execute(f"CREATE TABLE lake.master AS {rows}")
            self.database.execute("DETACH DATABASE lake")
            shutil.copytree(self.lake, self.pristine)

    def reset(self) -> None:
        """Restore the log, and link the files, which no commit changes."""
        self.database.execute("DETACH DATABASE IF EXISTS lake")
        shutil.rmtree(self.lake, ignore_errors=True)
        shutil.copytree(self.pristine, self.lake, copy_function=_link_parquet)

    def run(self, feed: Path, output: Path) -> Ran:
        """Attach the table, fold the feed, and merge it."""
        self._attach()
        self.database.execute(
            f"""CREATE OR REPLACE TEMP TABLE winners AS
                SELECT {", ".join(FEED_FIELDS)} FROM read_parquet('{feed}/*.parquet')
                QUALIFY row_number() OVER (PARTITION BY id ORDER BY time DESC) = 1"""
        )
        fields, values = ", ".join(MASTER_FIELDS), ", ".join(f"source.{name}" for name in MASTER_FIELDS)
        changed = ", ".join(f"{name} = source.{name}" for name in MASTER_FIELDS)
        self.database.execute("BEGIN")
        self.database.execute(
            """DELETE FROM lake.master USING winners source
               WHERE master.id = source.id AND source.op = 'D' AND source.time >= master.time"""
        )
        self.database.execute(
            f"""MERGE INTO lake.master target USING (SELECT * FROM winners WHERE op <> 'D') source
                ON target.id = source.id
                WHEN MATCHED AND source.time >= target.time THEN UPDATE SET {changed}
                WHEN NOT MATCHED THEN INSERT ({fields}) VALUES ({values})"""
        )
        self.database.execute("COMMIT")
        return Ran("delete, then merge, with delete files")

    def export(self, output: Path, to: Path) -> Path:
        """Read the table back."""
        to.mkdir(parents=True)
        rows = f"SELECT {', '.join(MASTER_FIELDS)} FROM lake.master"
        self.database.execute(f"COPY ({rows}) TO '{to}/part.parquet' (FORMAT parquet, COMPRESSION snappy)")
        return to

    def stop(self) -> None:
        """Close the database."""
        self.database.close()

    def _attach(self) -> None:
        self.database.execute(f"ATTACH 'ducklake:{self.lake}/log.ducklake' AS lake (DATA_PATH '{self.lake}/files')")


def _link_parquet(source: str, target: str) -> None:
    (os.link if source.endswith(".parquet") else shutil.copy2)(source, target)
