"""The Python of Spark's workers in a session that another program started."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from mutator.errors import error

if TYPE_CHECKING:
    from pyspark import SparkContext

_MODULES = ("mutator", "numpy", "pyarrow", "xxhash", "fastavro", "cramjam")
_MISSING = f"""
from importlib.util import find_spec
print(*[name for name in {_MODULES} if find_spec(name) is None], sep=", ")
"""


def use_own_python(sc: SparkContext) -> None:
    """Let the workers of a local master run the driver's Python, unless PYSPARK_PYTHON names another one.

    Raises ConfigError if that one lacks a module, before any task runs.
    """
    if not (sc.master or "").startswith("local"):
        return
    if "PYSPARK_PYTHON" not in os.environ:
        sc.pythonExec = sys.executable
    if shutil.which(sc.pythonExec) == sys.executable:
        paths = sc.environment.get("PYTHONPATH", "").split(os.pathsep)
        package = str(Path(__file__).resolve().parents[3])  # the driver may have it from a path of its own
        if package not in paths:
            sc.environment["PYTHONPATH"] = os.pathsep.join([package, *filter(None, paths)])
        return
    missing = _missing(sc.pythonExec, sc.environment.get("PYTHONPATH", ""))
    if missing == "mutator" and sc._python_includes:
        return  # one of the files that are shipped may have it
    if missing:
        raise error("spark.python", python=sc.pythonExec, missing=missing, own=sys.executable)


@cache
def _missing(python: str, paths: str) -> str:
    """Return the modules that a Python lacks; all of them if it does not run. paths: added to its PYTHONPATH."""
    inherited = os.environ.get("PYTHONPATH", "")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (paths, inherited)))}
    try:
        done = subprocess.run([python, "-c", _MISSING], env=env, capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return ", ".join(_MODULES)
    return done.stdout.strip()
