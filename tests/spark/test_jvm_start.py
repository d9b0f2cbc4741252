"""The options of the JVM that a session of our own starts, and the archive of Spark's classes."""

import json
import os
import sys
import time
from pathlib import Path

import pytest

from mutator.engine.spark import jvm_start
from mutator.engine.spark.jvm_start import archive_options, cache_directory, quick_jvm
from tests.support.cluster import ROOT, environment, run

WHOLE = bytes.fromhex("a8ab0bf0") + b"the rest"
SESSION = """
import json
from pyspark import SparkContext
from mutator.engine.spark.session import spark_context
with spark_context("test") as sc:
    management = sc._jvm.java.lang.management.ManagementFactory
    bean = sc._jvm.com.sun.management.HotSpotDiagnosticMXBean
    options = list(management.getRuntimeMXBean().getInputArguments())
    value = lambda name: management.getPlatformMXBean(bean._java_lang_class).getVMOption(name).getValue()
    print(json.dumps({"options": options, "shared": value("UseSharedSpaces"), "level": value("TieredStopAtLevel")}))
jvm = SparkContext._gateway.proc
jvm.stdin.close()  # it ends
jvm.wait()  # and writes the archive meanwhile
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Return the home of a Spark that a Java beside it could start, where no JVM is running."""
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    (tmp_path / "spark" / "jars" / "core.jar").write_bytes(b"classes")
    java(tmp_path / "java", monkeypatch)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in (*jvm_start._GIVEN, "SPARK_CONF_DIR", "SPARK_LAUNCHER_OPTS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("mutator.engine.spark.jvm_start.SparkContext._gateway", None)
    monkeypatch.setattr("mutator.engine.spark.jvm_start.usable_cores", lambda: 2)
    return tmp_path / "spark"


def java(path, monkeypatch):
    """Create the files of a Java that are looked at, and make it that of Spark."""
    for name in ("bin/java", "lib/modules"):
        (path / name).parent.mkdir(parents=True)
        (path / name).write_bytes(b"")
    monkeypatch.setenv("JAVA_HOME", str(path))


def file_of(options):
    """Return the kind of the archive's option, and the path in it."""
    (option,) = options
    kind, _, path = option.partition("=")
    return kind, Path(path)


def test_the_first_jvm_writes_an_archive_and_later_ones_use_it(home):
    directory = cache_directory()
    kind, making = file_of(archive_options(directory, home))

    assert kind == "-XX:ArchiveClassesAtExit"
    assert archive_options(directory, home) == ()  # it is being written
    making.write_bytes(WHOLE)
    kind, archive = file_of(archive_options(directory, home))
    assert (kind, archive.read_bytes()) == ("-XX:SharedArchiveFile", WHOLE)
    assert file_of(archive_options(directory, home)) == (kind, archive)
    assert [path.name for path in directory.iterdir()] == [archive.name]


def test_an_archive_that_was_never_finished_is_written_again(home):
    directory = cache_directory()
    _, making = file_of(archive_options(directory, home))
    making.write_bytes(b"\0" * 100)  # the JVM was killed

    os.utime(making, (time.time() - 7200,) * 2)
    kind, other = file_of(archive_options(directory, home))
    assert (kind, other != making) == ("-XX:ArchiveClassesAtExit", True)
    other.write_bytes(WHOLE)
    _, archive = file_of(archive_options(directory, home))
    archive.write_bytes(b"damaged")
    kind, _ = file_of(archive_options(directory, home))
    assert kind == "-XX:ArchiveClassesAtExit"


def test_another_java_or_spark_has_an_archive_of_its_own(home, tmp_path, monkeypatch):
    directory = cache_directory()
    names = {file_of(archive_options(directory, home))[1].stem}
    java(tmp_path / "java-25", monkeypatch)
    names.add(file_of(archive_options(directory, home))[1].stem)
    (home / "jars" / "core.jar").write_bytes(b"classes of another version")
    names.add(file_of(archive_options(directory, home))[1].stem)

    assert len(names) == 3


def test_archives_that_nobody_uses_are_removed(home):
    directory = cache_directory()
    for name, days in (("spark-classes-a.jsa", 31), ("spark-classes-b.jsa", 29), ("spark-classes-c.jsa.0f", 2)):
        (directory / name).write_bytes(WHOLE)
        os.utime(directory / name, (time.time() - days * 86400,) * 2)
    archive_options(directory, home)

    left = {path.name for path in directory.iterdir()}
    assert {name for name in left if name[14] in "abc" and len(name) < 30} == {"spark-classes-b.jsa"}


@pytest.mark.parametrize("fault", ["file", "shared", "blank", "java"])
def test_without_a_safe_directory_or_java_there_is_no_archive(home, tmp_path, monkeypatch, fault):
    cache = tmp_path / ("a cache" if fault == "blank" else "cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    if fault == "file":
        cache.write_bytes(b"")
    elif fault == "shared":
        (cache / "mutator").mkdir(parents=True)
        (cache / "mutator").chmod(0o777)
    elif fault == "java":
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))

    assert archive_options(cache_directory(), home) == ()
    with quick_jvm():
        assert "Archive" not in os.environ["SPARK_SUBMIT_OPTS"]
        assert "-XX:TieredStopAtLevel=1 " in os.environ["SPARK_SUBMIT_OPTS"]


def test_options_of_the_user_follow_ours_and_are_restored(home, monkeypatch):
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Dmine=1 -XX:+UseParallelGC")

    with quick_jvm():
        ours, _, theirs = os.environ["SPARK_SUBMIT_OPTS"].partition("-Dmine=1 ")
        assert "-XX:TieredStopAtLevel=1 " in ours
        assert "GC" not in ours  # two collectors are an error
        assert theirs == "-XX:+UseParallelGC"

    assert os.environ["SPARK_SUBMIT_OPTS"] == "-Dmine=1 -XX:+UseParallelGC"
    assert "SPARK_LAUNCHER_OPTS" not in os.environ


@pytest.mark.parametrize("options", ["-XX:+UseG1GC", "-Xshare:off", "-XX:SharedArchiveFile=/x.jsa"])
def test_options_in_the_configuration_of_spark_keep_ours_from_contradicting_them(home, options):
    (home / "conf").mkdir()
    (home / "conf" / "spark-defaults.conf").write_text(f"spark.driver.extraJavaOptions  {options}\n")

    with quick_jvm():
        given = os.environ["SPARK_SUBMIT_OPTS"]

    assert ("UseSerialGC" in given, "Archive" in given) == (options[-2:] != "GC", options[-2:] == "GC")


@pytest.mark.parametrize("cores", [2, 16])
def test_the_serial_collector_is_for_few_cores(home, monkeypatch, cores):
    monkeypatch.setattr("mutator.engine.spark.jvm_start.usable_cores", lambda: cores)

    with quick_jvm():
        assert ("UseSerialGC" in os.environ["SPARK_SUBMIT_OPTS"]) == (cores == 2)


def started(tmp_path, **more):
    """Start a session in a process of its own; return what its JVM says of itself."""
    env = environment(PYTHONPATH=str(ROOT), XDG_CACHE_HOME=str(tmp_path / "cache"), **more)
    env = {name: value for name, value in env.items() if name not in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS")}
    done = run([sys.executable, "-c", SESSION], env, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.thorough(keep=0)
@pytest.mark.jvm
@pytest.mark.processes
def test_a_session_starts_with_these_options_and_those_of_the_user(tmp_path):
    (tmp_path / "conf").mkdir()
    mine = "-XX:TieredStopAtLevel=3 -XX:+UseParallelGC -Xshare:off -Dmine=1"
    (tmp_path / "conf" / "spark-defaults.conf").write_text(f"spark.driver.extraJavaOptions {mine}\n")

    found = started(tmp_path, SPARK_CONF_DIR=str(tmp_path / "conf"))

    assert {"-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", *mine.split()} < set(found["options"])
    assert found["level"] == "3"
    assert not any("SerialGC" in option or "Archive" in option for option in found["options"])


@pytest.mark.soak
@pytest.mark.jvm
@pytest.mark.processes
def test_a_jvm_writes_an_archive_that_the_next_one_maps(tmp_path):
    first = started(tmp_path)
    (made,) = (tmp_path / "cache" / "mutator").iterdir()
    assert f"-XX:ArchiveClassesAtExit={made}" in first["options"]
    assert jvm_start._is_whole(made)

    second = started(tmp_path)

    (archive,) = (tmp_path / "cache" / "mutator").iterdir()
    assert f"-XX:SharedArchiveFile={archive}" in second["options"]
    assert second["shared"] == "true"
    assert archive.stat().st_size > 50 << 20
