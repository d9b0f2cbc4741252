"""dbt's snapshot on DuckDB."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
from pathlib import Path

from bench.contenders.contender import Contender, Ran
from bench.layout import PATCHED_FIELDS

__all__ = ["DbtSnapshot"]

_FIELDS = ", ".join(PATCHED_FIELDS[:-1])
_PROJECT = "name: bench\nversion: '1.0'\nprofile: bench\nmodel-paths: [models]\nsnapshot-paths: [snapshots]\n"
_PROFILE = "bench:\n  target: dev\n  outputs:\n    dev: {{type: duckdb, path: '{path}', threads: 2}}\n"
_SNAPSHOT = """{% snapshot items_snapshot %}
{{ config(target_schema='main', unique_key='id', strategy='timestamp', updated_at='changed') }}
select * from items
{% endsnapshot %}
"""


class DbtSnapshot(Contender):
    """``dbt snapshot`` with the strategy ``timestamp``: a change that is older than the open version is lost."""

    def start(self, scratch: Path) -> dict[str, str]:
        """Write a project."""
        self.project = scratch / "dbt"
        for name in ("models", "snapshots"):
            (self.project / name).mkdir(parents=True, exist_ok=True)
        (self.project / "dbt_project.yml").write_text(_PROJECT)
        (self.project / "snapshots" / "items.sql").write_text(_SNAPSHOT)
        return {name: importlib.metadata.version(name) for name in ("dbt-core", "dbt-duckdb", "duckdb")}

    def prepare(self, master: Path, state: Path) -> None:
        """Make the table that dbt would have made of the events."""
        import duckdb

        state.mkdir(parents=True, exist_ok=True)
        self.pristine, self.path = state / "pristine.duckdb", state / "bench.duckdb"
        (self.project / "profiles.yml").write_text(_PROFILE.format(path=self.path))
        if self.pristine.exists():
            return
        with duckdb.connect(str(self.pristine)) as connection:
            connection.execute(
                f"CREATE TABLE items_snapshot AS SELECT {_FIELDS}, changed, md5(id || '|' || changed) AS dbt_scd_id, "
                "changed AS dbt_updated_at, changed AS dbt_valid_from, lead(changed) OVER (PARTITION BY id ORDER BY "
                f"changed) AS dbt_valid_to FROM ({_of(master / '*')})"
            )

    def reset(self) -> None:
        """Make a new copy of the database."""
        shutil.copyfile(self.pristine, self.path)

    def run(self, feed: Path, output: Path) -> Ran:
        """Take a snapshot of the feed."""
        import duckdb

        with duckdb.connect(str(self.path)) as connection:
            connection.execute(f"CREATE OR REPLACE VIEW items AS {_of(feed)}")
        command = [Path(sys.executable).parent / "dbt", "snapshot", "--quiet", "--profiles-dir", self.project]
        environment = {**os.environ, "DO_NOT_TRACK": "1"}
        subprocess.run(command, cwd=self.project, check=True, stdout=subprocess.PIPE, env=environment)
        return Ran("one process")

    def export(self, output: Path, to: Path) -> Path:
        """Write the versions as Parquet."""
        import duckdb

        to.mkdir(parents=True)
        times = "epoch(changed)::BIGINT AS time, epoch(dbt_valid_to)::BIGINT AS valid_to"
        with duckdb.connect(str(self.path), read_only=True) as connection:
            connection.execute(f"COPY (SELECT {_FIELDS}, {times} FROM items_snapshot) TO '{to}/part.parquet'")
        return to


def _of(directory: Path) -> str:
    """Return the rows of files, with their time as a timestamp."""
    return f"SELECT {_FIELDS}, make_timestamp(time * 1000000) AS changed FROM read_parquet('{directory}/*.parquet')"
