"""Directory trees of partitions: writing files, runs, and reading rows back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support import local_engine


def put_all(directory: Path, files: dict[str, bytes]) -> str:
    for name, content in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return str(directory)


def run(config: dict[str, str], master: str, feed: str | None, output: Path, **how: Any) -> Any:
    return local_engine.mutate(config, master=master, feed=[feed] if feed else [], output=str(output), **how)


def rows_by_directory(output: Path) -> dict[str, list[bytes]]:
    found: dict[str, list[bytes]] = {}
    for path in sorted(output.rglob("part-*.txt")):
        found.setdefault(str(path.parent.relative_to(output)), []).extend(path.read_bytes().split(b"\n")[:-1])
    return found
