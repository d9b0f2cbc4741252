"""Virtual environments with some of the packages of this one, as links: nothing is downloaded or unpacked."""

import subprocess
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement


def make_environment(path: Path) -> Path:
    """Make a virtual environment without any package; return its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", path], check=True, capture_output=True)
    return path / "bin" / "python"


def packages_of(python: Path) -> Path:
    """Return the directory of the packages of an environment."""
    (packages,) = python.parents[1].glob("lib/python*/site-packages")
    return packages


def link_packages(packages: Path, requirements: Iterable[str], *, with_others: bool = True) -> None:
    """Put packages into site-packages, as links to those of this environment. with_others: and what they require."""
    waiting, done = [*requirements], set[str]()
    while waiting:
        wanted = Requirement(waiting.pop())
        if wanted.name in done or (wanted.marker is not None and not wanted.marker.evaluate({"extra": ""})):
            continue
        done.add(wanted.name)
        found = metadata.distribution(wanted.name)
        assert wanted.specifier.contains(found.version, prereleases=True), wanted
        waiting += (found.requires or ()) if with_others else ()
        for top in {file.parts[0] for file in found.files or () if file.parts[0] not in ("..", "__pycache__")}:
            if not (packages / top).exists():
                (packages / top).symlink_to(Path(str(found.locate_file(top))))
