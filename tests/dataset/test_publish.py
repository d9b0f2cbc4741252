"""publish() with a merge in plain Python: all or nothing, and no litter that the next run does not name."""

import os
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from mutator.dataset import manifest
from mutator.dataset.checksum import whole
from mutator.dataset.commit.publish import check_output, publish
from mutator.dataset.commit.staging import SUCCESS, sweep
from mutator.dataset.commits import RUN, Commit
from mutator.dataset.file_entry import FileEntry
from mutator.dataset.state import State
from mutator.errors import StateError, StorageError
from mutator.storage import local, storage_for
from tests.support.patience import PATIENCE

DATA = {"part-0.txt": b"a,1\n", "part-1.txt": b"b,2\nc,3\n"}
BESIDE = {"_mutator/tombstones/part-0.parquet": b"stone"}


def manifest_of(data=None, beside=None):
    data, beside = DATA if data is None else data, BESIDE if beside is None else beside
    return State(
        commit=Commit(number=0, id="c", action=RUN, run="r", committed="2026-01-01T00:00:00.000+00:00", buckets=2),
        spec={},
        files=tuple(
            FileEntry(path=path, bucket=n, rows=text.count(b"\n"), bytes=len(text), checksum=whole(text))
            for n, (path, text) in enumerate(data.items())
        ),
        beside=tuple(
            FileEntry(path=path, role="tombstones", bucket=0, rows=1, bytes=len(text), checksum=whole(text))
            for path, text in beside.items()
        ),
        copy="_mutator/manifest-r.json",
    )


def merge(staging):
    """Write the files that ``manifest_of()`` names."""
    storage = storage_for(staging)
    for path, text in (DATA | BESIDE).items():
        with storage.create_new(f"{staging}/{path}") as stream:
            stream.write(text)
    return manifest_of()


def tree(directory):
    """Return the content of every file below a directory, and None for each directory."""
    return {
        str(path.relative_to(directory)): None if path.is_dir() else path.read_bytes()
        for path in sorted(Path(directory).rglob("*"))
    }


WHOLE = {
    **DATA,
    **BESIDE,
    "_mutator": None,
    "_mutator/tombstones": None,
    "_mutator/manifest.json": manifest.dump(manifest_of()),
    "_mutator/manifest-r.json": manifest.dump(manifest_of()),
    SUCCESS: b"",
}


@pytest.fixture
def output(tmp_path):
    return str(tmp_path / "out")


def test_a_manifest_and_its_copy_are_made_once(output, monkeypatch):
    made = []
    dump = manifest.dump
    monkeypatch.setattr(manifest, "dump", lambda one: made.append(one) or dump(one))
    publish(output, "run1", merge)

    assert tree(output) == WHOLE
    assert len(made) == 1


def test_output_has_the_files_of_the_receipts(output, tmp_path):
    published = publish(output, "run1", merge)

    assert published.made == manifest_of()
    assert published.litter == ()
    assert tree(output) == WHOLE  # and no empty directories for roles without files
    assert os.listdir(tmp_path) == ["out"]
    read = manifest.parse(Path(output, manifest.PATH).read_bytes(), output)
    assert (read.files, read.beside) == (manifest_of().files, manifest_of().beside)


def test_output_is_not_visible_while_it_is_written(output, tmp_path):
    def slow(staging):
        made = merge(staging)
        assert not os.path.exists(output)
        assert [name for name in os.listdir(tmp_path) if not name.startswith((".", "_"))] == []
        assert staging.startswith(str(tmp_path))  # the same file system, or rename fails
        return made

    publish(output, "run1", slow)

    assert tree(output) == WHOLE


def test_parents_of_the_output_are_created(tmp_path):
    publish(str(tmp_path / "a" / "b" / "out"), "run1", merge)

    assert tree(tmp_path / "a" / "b" / "out") == WHOLE


def test_empty_dataset_is_valid(output):
    publish(output, "run1", lambda _: manifest_of({}, {}))

    assert tree(output) == {
        "_mutator": None,
        manifest.PATH: manifest.dump(manifest_of({}, {})),
        "_mutator/manifest-r.json": manifest.dump(manifest_of({}, {})),
        SUCCESS: b"",
    }


@pytest.mark.parametrize("fault", [ValueError, MemoryError, KeyboardInterrupt, SystemExit])
def test_merge_that_raises_leaves_nothing(output, tmp_path, fault):
    def failing(staging):
        merge(staging)
        raise fault("in the middle")

    with pytest.raises(fault):
        publish(output, "run1", failing)

    assert os.listdir(tmp_path) == []
    assert publish(output, "run2", merge).litter == ()


# --- staged files are compared with the receipts ---


def test_file_without_a_receipt_is_removed(output):
    def untidy(staging):
        made = merge(staging)
        for path in ("part-0-1.txt", ".part-0.txt.1234", "_mutator/order/part-0-1.parquet", "_mutator/odd", "a b"):
            Path(staging, path).write_bytes(b"of an attempt that did not count")
        return made

    publish(output, "run1", untidy)

    assert tree(output) == WHOLE


@pytest.mark.parametrize("path", [*DATA, *BESIDE])
@pytest.mark.parametrize("damage", ["shorter", "longer", "empty", "missing"])
def test_file_that_differs_from_its_receipt_stops_the_run(output, tmp_path, path, damage):
    def careless(staging):
        made = merge(staging)
        place = Path(staging, path)
        text = place.read_bytes()
        if damage == "missing":
            place.unlink()
        else:
            place.write_bytes({"shorter": text[:-1], "longer": text + b"x", "empty": b""}[damage])
        return made

    with pytest.raises(StorageError) as caught:
        publish(output, "run1", careless)

    assert caught.value.kind == "receipt"
    assert path in str(caught.value)
    assert os.listdir(tmp_path) == []


def test_receipt_without_a_file_stops_the_run(output, tmp_path):
    def generous(staging):
        made = merge(staging)
        return replace(made, files=(*made.files, replace(made.files[0], path="part-9.txt")))

    with pytest.raises(StorageError, match=r"part-9\.txt: it is missing"):
        publish(output, "run1", generous)

    assert os.listdir(tmp_path) == []


# --- the output exists, or appears during the run ---


@pytest.mark.parametrize("there", ["directory", "file", "dangling link"])
def test_output_that_exists_is_a_state_error_and_is_left_alone(output, tmp_path, there):
    if there == "directory":
        os.mkdir(output)
    elif there == "file":
        Path(output).write_bytes(b"mine")
    else:
        os.symlink("nowhere", output)
    called = []

    for step in (lambda: publish(output, "run1", called.append), lambda: check_output(output)):
        with pytest.raises(StateError) as caught:
            step()
        assert (caught.value.kind, caught.value.exit_code) == ("output.exists", 5)
        assert output in str(caught.value)

    assert called == []
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("there", ["full directory", "empty directory", "file"])
def test_output_that_appears_during_the_run_is_a_state_error_and_is_left_alone(output, tmp_path, there):
    def overtaken(staging):
        if there == "file":
            Path(output).write_bytes(b"theirs")
        else:
            os.mkdir(output)
            if there == "full directory":
                Path(output, "theirs").write_bytes(b"theirs")
        return merge(staging)

    with pytest.raises(StateError) as caught:
        publish(output, "run1", overtaken)

    assert (caught.value.kind, caught.value.exit_code) == ("output.exists", 5)
    assert os.listdir(tmp_path) == ["out"]
    if there == "file":
        assert Path(output).read_bytes() == b"theirs"
    else:
        assert tree(output) == ({"theirs": b"theirs"} if there == "full directory" else {})


# --- other runs ---

# Publishes the files that argv names, and stops in the middle: prints "ready", and continues after a line on stdin.
RUNNER = """
import sys
from pathlib import Path
from tests.dataset.test_publish import merge
from mutator.dataset.commit.publish import publish
def slow(staging):
    Path(staging, "part-9.txt").write_bytes(b"half")
    print("ready", flush=True)
    sys.stdin.readline()
    return merge(staging)
publish(sys.argv[1], sys.argv[2], slow)
"""


@contextmanager
def live_run(output, run):
    """Yield a process that is in the middle of publishing."""
    with subprocess.Popen(
        [sys.executable, "-c", RUNNER, output, run],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
    ) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


@pytest.mark.processes
def test_live_run_on_the_same_output_is_a_state_error(output, tmp_path):
    with live_run(output, "first") as other:
        before = os.listdir(tmp_path)
        with pytest.raises(StateError) as caught:
            publish(output, "second", merge)
        assert (caught.value.kind, caught.value.exit_code) == ("output.busy", 5)
        assert f"{tmp_path}/.out.mutator-first" in str(caught.value)
        assert os.listdir(tmp_path) == before  # the other run's files still exist
        # Other outputs in the same directory do not matter.
        publish(str(tmp_path / "out2"), "third", merge)

        other.stdin.write("go on\n")
        other.stdin.close()
        assert other.wait(PATIENCE) == 0

    assert tree(output) == WHOLE
    assert sorted(os.listdir(tmp_path)) == ["out", "out2"]


@pytest.mark.processes
def test_litter_of_a_killed_run_is_named_and_removed_by_the_next(output, tmp_path):
    with live_run(output, "first") as killed:
        killed.send_signal(signal.SIGKILL)
        assert killed.wait(PATIENCE) == -signal.SIGKILL
    assert os.listdir(tmp_path) == [".out.mutator-first"]

    published = publish(output, "second", merge)

    assert published.litter == (f"{tmp_path}/.out.mutator-first",)
    assert os.listdir(tmp_path) == ["out"]
    assert tree(output) == WHOLE


def test_litter_of_several_killed_runs_is_removed_in_one_sweep(output, tmp_path):
    for name in (".out.mutator-1", ".out.mutator-2", ".other.mutator-1", ".out", "out.mutator-1", ".outer.mutator-1"):
        (tmp_path / name / "sub").mkdir(parents=True)
    (tmp_path / ".out.mutator-file").write_bytes(b"no directory, so not ours")

    assert sweep(output) == (f"{tmp_path}/.out.mutator-1", f"{tmp_path}/.out.mutator-2")

    assert sorted(os.listdir(tmp_path)) == [
        ".other.mutator-1",
        ".out",
        ".out.mutator-file",
        ".outer.mutator-1",
        "out.mutator-1",
    ]
    assert sweep(output) == ()


def test_staging_that_another_sweep_removes_before_its_claim_is_created_again(output, tmp_path, monkeypatch):
    """Between creating a directory and claiming it, the sweep of another run may remove it as litter."""
    taken = []
    hold = local.LocalStorage.hold

    def late(self, path):
        if len(taken) < 3:
            taken.append(path)
            shutil.rmtree(path)
        return hold(self, path)

    monkeypatch.setattr(local.LocalStorage, "hold", late)

    publish(output, "run1", merge)

    assert taken == [f"{tmp_path}/.out.mutator-run1"] * 3
    assert tree(output) == WHOLE


@pytest.mark.thorough(keep=0)
@pytest.mark.processes
def test_many_runs_at_once_publish_one_output(output, tmp_path):
    """Each of the other runs reports why it did not publish, and leaves no files."""
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", RUNNER, output, f"run{n}"],
            stdin=subprocess.DEVNULL,  # continues at once
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
            env=env,
        )
        for n in range(4)
    ]
    messages = [run.communicate(timeout=PATIENCE)[1] for run in runs]

    losers = [text for run, text in zip(runs, messages, strict=True) if run.returncode]
    assert len(losers) == 3, messages
    assert all("\nmutator.errors.exceptions.StateError: " in text for text in losers), losers
    assert os.listdir(tmp_path) == ["out"]
    assert tree(output) == WHOLE
