"""What a user installs: the distribution's metadata and files, and the commands that install it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from email.parser import HeaderParser
from functools import partial
from importlib import metadata
from pathlib import Path

import pytest

from tests.support.console import console_blocks, settle, steps
from tests.support.environments import link_packages, packages_of

pytest.importorskip("setuptools", reason="setuptools is not installed: pip install setuptools")

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("setup.cfg", "pyproject.toml", "LICENSE", "README.md")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Build the package as pip does, short of packing the wheel; return the directory."""
    root = tmp_path_factory.mktemp("package")
    for name in SOURCES:
        shutil.copy(ROOT / name, root)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "mutator", root / "mutator", symlinks=True, ignore=ignored)
    shutil.copytree(ROOT / "sample_data", root / "sample_data")
    command = ["-W", "ignore", "-c", "import setuptools; setuptools.setup()", "-q", "egg_info", "build_py"]
    subprocess.run([sys.executable, *command], cwd=root, check=True, capture_output=True, text=True)
    return root


def test_an_installed_package_has_its_types_and_its_licence(built):
    info = built / "spark_mutator.egg-info"
    described = HeaderParser().parsestr((info / "PKG-INFO").read_text())
    installed = {path.relative_to(built / "build/lib").as_posix() for path in (built / "build/lib").rglob("*.*")}
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / "mutator").rglob("*.py")}

    assert described["Name"] == "spark-mutator"
    assert {described.get("License"), described.get("License-Expression")} >= {"Apache-2.0"}
    assert described["License-File"] == "LICENSE"
    assert "LICENSE" in (info / "SOURCES.txt").read_text().split()
    assert (info / "entry_points.txt").read_text().split() == [
        "[console_scripts]",
        "mutator",
        "=",
        "mutator.__main__:entry",
    ]
    templates = {path.relative_to(ROOT).as_posix() for path in (ROOT / "mutator").rglob("templates/*")}
    samples = {path for path in (ROOT / "sample_data").rglob("*.*") if path.is_file()}
    assert installed == modules | templates | {"mutator/py.typed"} | {
        f"mutator/cli/sample/data/{path.relative_to(ROOT / 'sample_data').as_posix()}" for path in samples
    }


@pytest.mark.processes
def test_the_demo_of_an_installed_package_runs(built, tmp_path):
    command = [sys.executable, "-m", "mutator.cli", "demo"]
    env = {**os.environ, "PYTHONPATH": str(built / "build/lib"), "PYTHONDONTWRITEBYTECODE": "1"}  # others look there
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert "VR8NCNE7DV,tablet,samsung,279,82,1427759321" in done.stdout
    assert len(list(tmp_path.rglob("sample_data/*/feed/*"))) == 9


def test_the_licence_is_apache_2():
    text = " ".join((ROOT / "LICENSE").read_text().split())

    assert text.startswith("Apache License Version 2.0, January 2004")
    assert "END OF TERMS AND CONDITIONS" in text
    assert "Copyright 2026 The mutator authors" in text


def test_nobody_is_told_to_install_the_other_mutator():
    """On PyPI, ``mutator`` belongs to another project."""
    files = [path for room in ("mutator", "docs", "jobs", "bench", ".ci") for path in (ROOT / room).rglob("*.*")]
    files = [path for path in (ROOT / "README.md", *files) if path.suffix in (".py", ".md", ".sh")]

    assert len(files) > 100
    for path in files:
        text = re.sub(r'"\s+"', "", path.read_text())  # a message may be split over lines
        assert not re.search(r"""pip install (-\S+ )*["']?mutator""", text), path


@pytest.mark.rest
@pytest.mark.processes
def test_the_wheel_follows_the_tutorial_in_an_empty_environment(tmp_path):
    """The wheel is made from the sdist, as pip does, and installed outside of the checkout, with what it requires."""
    dist, python = tmp_path / "dist", tmp_path / "env" / "bin" / "python"
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, names.split("\0")):
        (tmp_path / "source" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / "source" / name, follow_symlinks=False)
    run = partial(subprocess.run, check=True, capture_output=True, text=True)
    run([sys.executable, "-m", "build", "--outdir", dist, tmp_path / "source"])
    assert sorted(path.suffix for path in dist.iterdir()) == [".gz", ".whl"]
    (wheel,) = dist.glob("*.whl")
    run([sys.executable, "-m", "venv", python.parents[1]])
    run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", wheel])
    packages = packages_of(python)
    own = metadata.Distribution.at(next(packages.glob("spark_mutator-*.dist-info")))
    link_packages(packages, own.requires or ())
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    env["PATH"] = f"{python.parent}:{env['PATH']}"

    run(["mutator", "demo", "work"], cwd=tmp_path, env=env)
    work = tmp_path / "work"
    (work / "build").mkdir()
    tutorial = (ROOT / "docs" / "tutorial.md").read_text()
    for command, expected in [step for block in console_blocks(tutorial) for step in steps(block)]:
        settle(work)
        done = run(command, shell=True, cwd=work, env=env)
        assert len(done.stdout.splitlines()) == len(expected.splitlines()), command
        assert done.stderr == "", command
