"""Damage of a base: ``verify`` names all of it, and each piece of advice in a message makes the base work again."""

import re
import shutil
import signal
from pathlib import Path

import pytest

from mutator.dataset import manifest
from mutator.dataset.directory import is_base
from mutator.dataset.numbered_log import NumberedLog
from mutator.dataset.version_log import Log
from mutator.errors import MutatorError
from mutator.pipeline.verify import repair_dataset
from mutator.workflow.directory.verification import repair_base, verify_base
from tests.support import local_engine
from tests.support.child_process import in_child
from tests.support.linked_copies import copy_tree
from tests.support.workflow_base import BY_NAME, Place, refused


def new_base(path):
    place = Place(path, BY_NAME)
    (place.path / "master" / "base_1.txt").write_text("a,1\nb,1\nc,1\nd,1\n")
    return place


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return bases after each number of runs, of which each test gets a copy."""
    found = {0: new_base(tmp_path_factory.mktemp("made") / "0").path}
    for number in range(1, 5):
        base = new_base(found[0].with_name(str(number)))
        shutil.rmtree(base.path)
        copy_tree(found[number - 1], base.path)
        base.arrive(f"ups_{number + 1}.txt", f"a,{number + 1}", f"e{number + 1},x")
        base.arrive(f"del_{number + 1}.txt", "b,x")
        base.run()
        found[number] = base.path
    return found


@pytest.fixture
def base(tmp_path, made):
    """Return a base without versions, which is verified without Spark."""
    place = new_base(tmp_path / "base")
    place.made = made
    return place


def merged(base, versions):
    """Merge a feed file for each version; each deletes or changes something."""
    shutil.rmtree(base.path)
    copy_tree(base.made[versions], base.path)
    return base


def verified(base):
    return verify_base(str(base.path), local_engine.verify)


def manifest_of(base, place="master"):
    return base.path / place / manifest.PATH


def copy_of(base, place="master"):
    (path,) = (base.path / place / "_mutator").glob("manifest-*.json")
    return path


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.chmod(0o644)
    path.write_bytes(data)


def cut(path):
    path.write_bytes(path.read_bytes()[:100])


DAMAGES = {"flipped": flip, "cut": cut, "removed": Path.unlink}


def works(base, state=("b",)):
    """Check that the base is healthy, that a run merges, and that what was deleted before stays deleted."""
    assert verified(base).problems == ()
    assert base.status().problems == ()
    base.arrive("ups_90.txt", "z,90")
    base.arrive("ups_1.txt", *(f"{key},late" for key in state))
    base.run()
    rows = base.rows()
    assert "z,90" in rows
    assert not [row for row in rows if row.partition(",")[0] in state]
    assert verified(base).problems == ()


# --- before the first version


def test_base_without_versions_is_healthy(base, monkeypatch, capsys):
    assert is_base(str(base.path))
    assert verified(base).problems == ()
    base.run()  # it finds nothing, and leaves _mutator/
    assert (base.path / "_mutator").exists()
    assert is_base(str(base.path))
    assert verified(base).problems == ()
    assert "0 versions" in verified(base).text()
    (base.path / "_mutator" / "runs").mkdir(exist_ok=True)
    assert is_base(str(base.path))


def test_given_master_that_mutator_wrote_is_verified_from_the_start(base, tmp_path):
    merged(base, 1)
    other = Place(tmp_path / "other", BY_NAME)
    shutil.rmtree(other.path / "master")
    shutil.copytree(base.path / "master", other.path / "master")
    assert len(verified(other).datasets) == 1
    for place in ("master", "backup/0"):
        part = next((other.path / place).glob("part-*"))
        whole = part.read_bytes()
        flip(part)
        assert any(part.name in problem for problem in verified(other).problems)
        part.write_bytes(whole)
        other.arrive("ups_50.txt", "a,50")
        other.run()
    assert len(verified(other).datasets) == 2


# --- everything that is damaged is reported


def test_all_damage_is_reported_at_once(base):
    merged(base, 4)
    flip(base.path / "_mutator" / "log" / f"{2:020d}.json")
    (base.path / "_mutator" / "log" / f"{3:020d}.json").unlink()
    flip(manifest_of(base, "backup/2"))
    flip(next((base.path / "backup" / "1").glob("part-*")))
    archived = [next((base.path / "archive").rglob(name)) for name in ("ups_2.txt", "ups_5.txt")]
    archived[0].unlink()
    flip(archived[-1])

    problems = "\n".join(verified(base).problems)

    for words in (
        f"{2:020d}.json: the log entry is damaged",
        f"{3:020d}.json: the log entry is damaged (it is missing)",
        "backup/2/_mutator/manifest.json: the manifest is damaged",
        f"{archived[0].name}: is missing",
        f"{archived[-1].name}: its checksum is",
    ):
        assert words in problems
    assert re.search(r"part-\S+: its checksum is", problems)
    assert len(verified(base).datasets) == 3, "the other datasets are read, too: master/ and two in backup/"


def test_newest_log_entry_damaged(base):
    """Nothing says which dataset the master should be, but everything else is compared."""
    merged(base, 2)
    flip(base.path / "_mutator" / "log" / f"{2:020d}.json")
    flip(next((base.path / "master").glob("part-*")))
    problems = verified(base).problems

    assert f"{2:020d}.json: the log entry is damaged" in problems[0]
    assert f"differs: {base.path}/master/part-" in verified(base).text()


def test_gap_of_several_log_entries(base):
    merged(base, 4)
    for number in (1, 2, 3):
        (base.path / "_mutator" / "log" / f"{number:020d}.json").unlink()

    assert "it and the next 2 entries are missing" in verified(base).problems[0]


# --- advice


@pytest.mark.thorough(keep=2)
@pytest.mark.parametrize("versions", [1, 3])
@pytest.mark.parametrize("how", DAMAGES)
def test_repair_that_messages_advise(base, versions, how):
    merged(base, versions)
    whole = manifest_of(base).read_bytes()
    DAMAGES[how](manifest_of(base))
    command = f"mutator verify --repair {base.path}"

    base.arrive("ups_80.txt", "y,80")
    refused(base.run, 5, f"is not the dataset of version {versions}", command)
    assert any(command in problem for problem in verified(base).problems)
    assert any(command in problem for problem in base.status().problems)
    done, problems = repair_base(command.split()[-1])

    assert (len(done), problems) == (1, [])
    assert f"{base.path}/master/_mutator/manifest.json is its copy" in done[0]
    assert manifest_of(base).read_bytes() == whole
    works(base)


@pytest.mark.parametrize("place", ["backup/1", "backup/2"])
def test_repair_of_a_backup_that_can_then_be_restored(base, place):
    merged(base, 3)
    flip(manifest_of(base, place))
    assert any(place in problem for problem in verified(base).problems)

    assert len(repair_base(str(base.path))[0]) == 1
    base.restore(int(place[-1]))
    works(base)


@pytest.mark.parametrize("how", DAMAGES)
def test_repair_of_a_version_that_is_not_yet_the_master(base, how):
    """Its dataset must not be moved away: nothing else has the rows of its feed files."""
    merged(base, 1)
    base.arrive("ups_9.txt", "a,9")
    assert in_child(base.run, "commit.done")[0] == signal.SIGKILL
    (output,) = (base.path / "output").iterdir()
    DAMAGES[how](output / manifest.PATH)

    problems = base.status().problems
    assert f"or put its manifest back from its copy: mutator verify --repair {base.path}" in problems[0]
    assert problems[1] == f"{output}: its manifest is damaged; put it back: mutator verify --repair {base.path}"
    assert repair_base(str(base.path))[1] == []
    assert base.status().problems == (), "the next command makes it the master"
    assert "a,9" in base.rows()
    works(base)


def test_repair_of_the_copy(base):
    merged(base, 1)
    for damage in (flip, Path.unlink):
        damage(copy_of(base))
        (problem,) = verified(base).problems
        assert problem.startswith("_mutator/manifest-")
        assert f"; write it anew: mutator verify --repair {base.path}/master" in verified(base).text()
        assert len(repair_base(str(base.path))[0]) == 1
        assert verified(base).problems == ()
    works(base)


def test_restore_that_messages_advise(base):
    """Manifest and copy are damaged: no message advises to repair them."""
    merged(base, 3)
    flip(manifest_of(base))
    flip(copy_of(base))
    with pytest.raises(MutatorError) as caught:
        base.run()
    message = str(caught.value)
    assert "verify --repair" not in message
    command = re.search(r"mutator workflow restore \S+ --to (\d+)", message)

    done = base.restore(int(command[1]))
    (problem,) = base.status().problems
    assert "move it away" in problem
    path = Path(problem.partition(":")[0])
    assert done.aside == (str(path),)
    assert f"the directory that was the master is now {path}:" in done.warnings[0]
    assert path.parent == base.path / "output"
    path.rename(base.path.parent / "away")
    works(base)


def test_restore_advises_no_version_whose_files_are_missing(base):
    merged(base, 3)
    flip(manifest_of(base))
    flip(copy_of(base))
    next((base.path / "backup" / "2").glob("part-*")).unlink()

    refused(base.run, 5, "--to 1")


def test_adoption_that_messages_advise(base):
    """Of version 1 the manifest and its copy are damaged, and nothing can be restored: its rows can be used."""
    merged(base, 1)
    flip(manifest_of(base))
    flip(copy_of(base))
    rows = base.rows()
    with pytest.raises(MutatorError) as caught:
        base.run()
    assert "restore" not in str(caught.value)
    assert "verify --repair" not in str(caught.value)
    assert "run with -D master.adopt=true" in str(caught.value)

    base.arrive("ups_70.txt", "y,70")
    done = base.run(master_adopt="true")
    assert base.rows() == sorted([*rows, "y,70"])
    (problem,) = base.status().problems
    assert "move it away" in problem
    path = problem.partition(":")[0]
    assert done.warnings == (
        (
            f"the directory that was the master is now {path}: move it away, unless mutator workflow status "
            f"{base.path} names a repair"
        ),
    )
    Path(problem.partition(":")[0]).rename(base.path.parent / "away")
    works(base, state=())


def test_dataset_put_back_as_messages_advise(base):
    merged(base, 1)
    shutil.copytree(base.path, base.path.parent / "copy")
    shutil.rmtree(base.path / "master")
    (base.path / "master").mkdir()
    refused(base.run, 5, "it has no manifest", "put that dataset back from a copy of the base")
    assert "adopt" not in base.status().problems[0], "there are no rows to adopt"

    shutil.rmtree(base.path / "master")
    shutil.copytree(base.path.parent / "copy" / "master", base.path / "master")
    works(base)


@pytest.mark.parametrize("how", ["one entry", "first entry is missing", "all entries"])
def test_log_put_back_or_base_started_anew_as_messages_advise(base, tmp_path, how):
    merged(base, 2)
    log = base.path / "_mutator" / "log"
    shutil.copytree(log, tmp_path / "log")
    if how == "one entry":
        flip(log / f"{2:020d}.json")
    elif how == "first entry is missing":
        (log / f"{1:020d}.json").unlink()
    else:
        shutil.rmtree(log)
    base.arrive("ups_80.txt", "y,80")
    refused(base.run, 5, "from a copy of the base", "start a new base with a copy of the newest dataset (master/;")
    assert any("start a new base" in problem for problem in verified(base).problems)

    (base.path / "incr" / "ups_80.txt").unlink()
    anew = Place(tmp_path / "anew", BY_NAME)
    shutil.rmtree(anew.path / "master")
    shutil.copytree(base.path / "master", anew.path / "master")
    works(anew)
    shutil.rmtree(log, ignore_errors=True)
    shutil.copytree(tmp_path / "log", log)
    works(base)


@pytest.mark.parametrize("cure", ["restore", "copy", "adopt"])
def test_cures_of_a_file_of_the_master_that_was_changed(base, cure):
    merged(base, 2)
    part = next(path for path in (base.path / "master").glob("part-*") if path.stat().st_nlink == 1)
    whole = part.read_bytes()
    part.chmod(0o644)
    part.write_bytes(whole + b"y,1\n")
    base.arrive("ups_80.txt", "y,80", "a,80", "c,80", "d,80", "e2,80", "e3,80")
    refused(base.run, 5, "differs from its manifest")
    assert "master.adopt" not in base.status().problems[0], "it would make the damage part of the master"

    if cure == "restore":
        base.restore(1)
        shutil.rmtree(base.path / "backup" / "2")  # the damaged dataset, which verify would name
    elif cure == "copy":
        part.write_bytes(whole)
    else:
        base.run(master_adopt="true")
        shutil.rmtree(base.path / "backup" / "2")  # verify reads it
        works(base, state=())
        return
    works(base)


# --- what repair refuses


def test_repair_invents_nothing(base):
    """A copy of another dataset, a copy that names a missing file and a damaged copy prove nothing."""
    merged(base, 2)
    flip(manifest_of(base))
    whole = copy_of(base).read_bytes()
    other = base.path.parent / "other"
    shutil.copytree(base.path, other)
    flip(copy_of(base))
    (problem,) = repair_base(str(base.path))[1]
    assert "it has no whole copy of its manifest" in problem
    copy_of(base).write_bytes(whole)

    part = next((base.path / "master").glob("part-*"))
    part.rename(base.path.parent / "away")
    (problem,) = repair_base(str(base.path))[1]
    assert "is missing" in problem
    (base.path.parent / "away").rename(part)

    (base.path / "_mutator" / "log" / f"{2:020d}.json").unlink()
    (problem,) = repair_base(str(base.path))[1]
    assert "the log does not name the dataset of its copy" in problem
    assert len(repair_base(str(other))[0]) == 1


def test_repair_while_another_process_is_at_work(base, monkeypatch):
    merged(base, 1)
    flip(manifest_of(base))
    from mutator.workflow.directory.lock import locked
    from mutator.workflow.directory.paths import open_base

    with locked(open_base(str(base.path)), "run", 60):
        refused(lambda: repair_base(str(base.path)), 5, "has been at work here since")


@pytest.mark.processes
def test_repair_that_is_killed(base):
    merged(base, 1)
    flip(manifest_of(base))
    assert in_child(lambda: repair_base(str(base.path)), "repair.manifest")[0] == signal.SIGKILL

    repair_base(str(base.path))
    works(base)


def test_dataset_without_a_base(base):
    merged(base, 1)
    master = base.path / "master"
    assert repair_dataset(str(master)) == ([], [])
    flip(manifest_of(base))
    with pytest.raises(MutatorError, match=f"mutator verify --repair {master}"):
        local_engine.verify(str(master))
    assert len(repair_dataset(str(master))[0]) == 1
    assert local_engine.verify(str(master)).problems == ()


def test_newest_log_entry_is_missing(base):
    merged(base, 2)
    entry = base.path / "_mutator" / "log" / f"{2:020d}.json"
    entry.unlink()

    (problem,) = base.status().problems
    assert "which a run of this base has made, and no log entry names: the newest log entry is missing" in problem
    assert "; or put the log entry back from a copy of the base; or make version 1 the master, without" in problem
    base.restore(1)
    problems = [problem for problem in verified(base).problems if "archive" in problem]
    assert len(problems) == 1
    assert "no log entry names this run, so the log may lack its newest entries" in problems[0]
    for path in (base.path / "archive").glob("*/*_3.txt"):
        path.rename(base.path / "incr" / path.name)
        path.parent.rmdir() if not list(path.parent.iterdir()) else None
    base.run()
    assert verified(base).problems == ()
    assert "a,3" in base.rows()


def test_log_entry_that_was_put_back(base):
    merged(base, 2)
    entry = base.path / "_mutator" / "log" / f"{2:020d}.json"
    saved = entry.read_bytes()
    entry.unlink()
    assert base.status().problems != ()

    entry.write_bytes(saved)
    assert base.status().problems == ()
    assert verified(base).problems == ()


@pytest.mark.parametrize("missing", [(1,), (2,), (1, 2), (2, 3)])
def test_gap_in_the_log_stops_every_command_that_changes_something(base, missing):
    merged(base, 4)
    base.arrive("ups_80.txt", "y,80")
    entries = [base.path / "_mutator" / "log" / f"{number:020d}.json" for number in missing]
    for entry in entries:
        entry.unlink()
    # The dataset of a version without an entry looks like the output of a dead run.
    if 2 in missing:
        (base.path / "backup" / "2").rename(base.path / "output" / manifest_run(base.path / "backup" / "2"))
    before = sorted(base.path.rglob("*"))
    why = "it is missing" if len(missing) == 1 else "it and the next entry are missing"
    for act in (base.run, lambda: base.restore(4), lambda: base.run(master_adopt="true")):
        refused(act, 5, f"{entries[0]}: the log entry is damaged ({why}); restore it from a copy of the base")
    status = base.status()

    assert any(f"{entries[0]}: the log entry is damaged ({why})" in problem for problem in status.problems)
    assert (status.target.version.number, status.ready) == (4, ("ups_80.txt",))
    assert sorted(base.path.rglob("*")) == before


def manifest_run(directory):
    return manifest.parse((directory / manifest.PATH).read_bytes(), "").commit.run


@pytest.mark.parametrize("how", ["flipped", "cut"])
def test_status_shows_the_rest_where_the_newest_log_entry_is_damaged(base, how):
    merged(base, 2)
    base.arrive("ups_80.txt", "y,80")
    entry = base.path / "_mutator" / "log" / f"{2:020d}.json"
    saved = entry.read_bytes()
    DAMAGES[how](entry)
    part = next((base.path / "master").glob("part-*"))
    part.rename(base.path / "away")
    status = base.status()
    lines = status.text().split("\n")

    assert "state    needs attention, see below" in lines
    assert "version  cannot be seen, see below" in lines
    assert f"master   {base.path}/master" in lines
    assert "ready: ups_80.txt" in lines
    assert any(line.startswith("checked  longest ago: ") for line in lines)
    assert len(status.problems) == 2
    assert status.problems[0].startswith(f"the recovery stopped: {entry}: the log entry is damaged (")
    assert status.problems[1] == f"{base.path}/master: {part.name} is missing"
    assert status.json()
    refused(base.run, 5, f"{entry}: the log entry is damaged")
    (base.path / "away").rename(part)
    entry.write_bytes(saved)
    (base.path / "incr" / "ups_80.txt").unlink()
    works(base)


def test_listing_that_misses_an_entry_which_is_just_created_is_no_gap(base, monkeypatch):
    merged(base, 3)
    numbers, listings = NumberedLog.numbers, []

    def racing(entries):
        listings.append(entries)
        return [number for number in numbers(entries) if number != 2 or len(listings) > 1]

    monkeypatch.setattr(NumberedLog, "numbers", racing)
    assert Log(str(base.path)).numbers() == [1, 2, 3]
    listings.clear()
    versions, faults, newest = Log(str(base.path)).readable()
    assert ([version.number for version in versions], faults, newest) == ([1, 2, 3], [], 3)
