"""Options that let the JVM of a session of our own start faster: less compilation, and an archive of classes.

Most of the time of a short run is that of a JVM that loads ten thousand classes. An archive (class data sharing) has
them as the JVM keeps them in memory. The first JVM of a Java and a Spark writes one when it ends, about 120 MB, into
the user's cache directory, and later ones map it. Without one, they start as always.

The options of the user follow ours, so they win.

The Python of Spark's workers in a session that another program started.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import xxhash
from pyspark import SparkContext
from pyspark.find_spark_home import _find_spark_home

from mutator.engine.usable_cores import usable_cores
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


# The optimising compiler takes more time than it saves: Python does the work, and the JVM moves bytes.
_QUICK = ("-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
# Collectors with threads take time from the tasks where cores are few, and save it where they are many.
_COLLECTOR, _FEW_CORES = "-XX:+UseSerialGC", 4
# The JVM's own warnings would be on stdout, among them one for each class that an archive cannot have.
_LOG = ("-Xlog:disable", "-Xlog:all=error:stderr")

_MAGIC = 0xF00BABA8.to_bytes(4, "little")  # of an archive: the JVM writes it last
_DAY = 86400.0
_MAKING = _DAY / 24  # after this time, a JVM that was to write an archive has not done so
_UNUSED = 30 * _DAY  # then an archive is removed
_LAUNCHER, _DRIVER = "SPARK_LAUNCHER_OPTS", "SPARK_SUBMIT_OPTS"
_GIVEN = (_DRIVER, "PYSPARK_SUBMIT_ARGS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")


@contextmanager
def quick_jvm() -> Iterator[None]:
    """Give these options to a JVM that starts within the ``with`` block."""
    if SparkContext._gateway is not None:  # it is running
        yield
        return
    home = Path(_find_spark_home())
    given = _given_options(home)
    is_chosen = re.search(r"-XX:\+Use\w+GC", given)  # two collectors are an error
    collector = () if is_chosen or usable_cores() > _FEW_CORES else (_COLLECTOR,)
    archive = () if re.search(r"-Xshare|Archive", given) else archive_options(cache_directory(), home)
    options = {
        # This JVM only builds the command line of the other.
        _LAUNCHER: (*_QUICK, *collector),
        _DRIVER: (*_QUICK, *collector, *_LOG, *archive),
    }
    before = {name: os.environ.get(name) for name in options}
    for name, ours in options.items():
        os.environ[name] = " ".join((*ours, before[name] or ""))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _given_options(home: Path) -> str:
    """Return the user's options of a JVM, and some more text."""
    given = [os.environ.get(name, "") for name in _GIVEN]
    directory = Path(os.environ.get("SPARK_CONF_DIR") or home / "conf")
    for name in ("spark-defaults.conf", "java-opts"):
        with contextlib.suppress(OSError):
            given.append((directory / name).read_text(errors="replace"))
    return "\n".join(given)


def cache_directory() -> Path | None:
    """Return the directory of the archives, which only this user can write to; None if there can be none."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    try:
        directory = cache.expanduser() / "mutator"
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = directory.stat()
    except (OSError, RuntimeError):
        return None
    writable = os.access(directory, os.W_OK | os.X_OK)
    private = status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    # Spark and the JVM split options at blanks, and know quotes.
    return directory if writable and private and re.fullmatch(r"[\w./@+-]+", str(directory), re.ASCII) else None


def archive_options(directory: Path | None, home: Path) -> tuple[str, ...]:
    """Return the option to use the archive of this Java and this Spark, or to write it; nothing if neither can be done.

    directory: of the archives, or None. home: of Spark.
    """
    java = _java()
    if directory is None or java is None:
        return ()
    try:
        archive = directory / f"spark-classes-{_version(java, home)}.jsa"
        _remove_unused(directory.glob("spark-classes-*"))
        for made in directory.glob(f"{archive.name}.*"):
            if _is_whole(made):
                made.replace(archive)
            elif time.time() - made.stat().st_mtime < _MAKING:
                return ()  # another JVM makes one
        if _is_whole(archive):
            os.utime(archive)
            return (f"-XX:SharedArchiveFile={archive}",)
        making = directory / f"{archive.name}.{secrets.token_hex(4)}"
        making.touch(mode=0o600)
    except OSError:  # a full disk, or a file that another process has removed
        return ()
    return (f"-XX:ArchiveClassesAtExit={making}",)


def _java() -> Path | None:
    """Return the program that Spark's scripts start."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java") if not home else str(Path(home, "bin", "java"))
    return None if found is None else Path(found).resolve()


def _version(java: Path, home: Path) -> str:
    """Return a digest of the files of Java and Spark, whose classes are in an archive. Raises OSError."""
    files = [java, java.parent.parent / "lib" / "modules", *sorted((home / "jars").glob("*.jar"))]
    known = [(str(path), status.st_size, status.st_mtime_ns) for path in files for status in (path.stat(),)]
    return xxhash.xxh3_128_hexdigest(repr(known).encode())


def _is_whole(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            return stream.read(len(_MAGIC)) == _MAGIC
    except FileNotFoundError:
        return False


def _remove_unused(paths: Iterable[Path]) -> None:
    for path in paths:
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > (_UNUSED if path.suffix == ".jsa" else _DAY):
                path.unlink()
