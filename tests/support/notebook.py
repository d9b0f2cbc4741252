"""A notebook whose environment is not activated: its kernel is started by its path, and another Python is first."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.patience import PATIENCE

_DROPPED = ("PYTHONPATH", "VIRTUAL_ENV", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "MASTER", "SPARK_LOCAL_DIRS")


def printed_by(code: str, place: Path) -> list[str]:
    """Run code in a kernel of its own in another directory; return the lines that it prints."""
    other = place / "bin"
    other.mkdir()
    (other / "python3").write_text("#!/bin/sh\necho workers must not run this >&2; exit 1\n")
    (other / "python3").chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if name not in _DROPPED}
    java = os.path.join(environment.get("JAVA_HOME", "/usr"), "bin")
    environment["PATH"] = f"{other}:{java}:/usr/bin:/bin"
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, cwd=place, env=environment, capture_output=True, text=True, timeout=4 * PATIENCE)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
