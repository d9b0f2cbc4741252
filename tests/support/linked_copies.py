"""Copies of directories in which hard links stay hard links."""

from __future__ import annotations

import shutil
from pathlib import Path


def copy_tree(source: Path, target: Path) -> None:
    copies: dict[int, str] = {}

    def copy(path: str, to: str) -> None:
        node = Path(path).stat().st_ino
        if node in copies:
            Path(to).hardlink_to(copies[node])
        else:
            copies[node] = shutil.copy2(path, to)

    shutil.copytree(source, target, copy_function=copy)
