"""The machine, and a scratch directory in memory, so that the disk is not measured."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

__all__ = ["available_memory", "describe", "file_system", "scratch"]

MEMORY_FILES = Path("/dev/shm")


def scratch(needed: int) -> Path:
    """Make a scratch directory for that many bytes, on the memory file system if it has room."""
    where = None
    if MEMORY_FILES.is_dir() and os.access(MEMORY_FILES, os.W_OK):
        # Files there use memory that the contenders need.
        room = min(shutil.disk_usage(MEMORY_FILES).free, available_memory() // 2)
        where = MEMORY_FILES if room >= needed else None
    return Path(tempfile.mkdtemp(prefix="mutator-bench-", dir=where))


def file_system(path: Path) -> str:
    """Return a description of the file system of a path."""
    return "memory file system" if path.is_relative_to(MEMORY_FILES) else "disk"


def describe() -> dict[str, str]:
    """Return a description of the machine for readers of the figures."""
    return {
        "cores": str(os.cpu_count()),
        "memory": f"{_meminfo('MemTotal') / 2**30:.0f} GiB",
        "processor": _processor(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "mutator": _commit(),
    }


def available_memory() -> int:
    """Return the number of bytes that are available without swapping."""
    return _meminfo("MemAvailable")


def _meminfo(name: str) -> int:
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise LookupError(name)


def _commit() -> str:
    """Return the commit of this checkout, with `-dirty` if it has changes."""
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    try:
        done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown commit"
    return f"commit {done.stdout.strip()}"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
