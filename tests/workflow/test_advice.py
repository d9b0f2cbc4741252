"""Advice of messages on a damaged base: each piece is followed on a copy, until the base works again."""

import re
import shlex
import shutil
import traceback
from pathlib import Path

import pytest

from mutator import cli
from mutator import config as configuration
from mutator.dataset import manifest
from mutator.dataset.numbered_log import NumberedLog
from mutator.dataset.version_log import Log
from mutator.errors import MutatorError, error
from mutator.errors.exceptions import from_traceback, packed
from mutator.pipeline.verify import Difference, Verification, repair_dataset
from mutator.pipeline.version_list import versions_text
from mutator.workflow import directory
from mutator.workflow.directory import cures, view
from mutator.workflow.directory.paths import open_base
from mutator.workflow.directory.verification import BaseVerification, repair_base, verify_base
from tests.support import local_engine
from tests.support.linked_copies import copy_tree
from tests.support.workflow_base import BY_NAME, Place

ROWS = [f"k{number},1" for number in range(40)]


@pytest.fixture
def base(tmp_path, monkeypatch):
    """Return a base without versions, which is verified without Spark."""
    place = Place(tmp_path / "base", BY_NAME)
    (place.path / "master" / "base_1.txt").write_text("".join(f"{row}\n" for row in ROWS))
    return place


def merged(base, *names):
    for name in names:
        base.arrive(f"{name}.txt", f"k0,{name}")  # the other bucket is taken over
        base.run(verify_fraction="0")
    return base


def verified(base):
    return verify_base(str(base.path), local_engine.verify)


def part_of(base, place="master", linked=False):
    """Return a data file of a dataset, one that another dataset has as a hard link or one that none has."""
    parts = sorted((base.path / place).glob("part-*"))
    return next(path for path in parts if (path.stat().st_nlink > 1) == linked)


def flip(path):
    """Change the last value in a file, so that its rows can still be read."""
    data = path.read_bytes()
    path.chmod(0o644)
    path.write_bytes(data[:-2] + b"9\n")


def message_of(act, *arguments, **options):
    with pytest.raises(MutatorError) as caught:
        act(*arguments, **options)
    assert caught.value.exit_code == 5
    return str(caught.value)


def advice(message):
    """Return the pieces of advice of a message."""
    known = ("copy ", "put ", "make ", "use ", "start ", "move ")
    pieces = [piece for piece in re.split(r"; or |; |: (?=copy |put |start )", message) if piece.startswith(known)]
    assert pieces, message
    return pieces


class Follow:
    """A copy of a base and of its state before the damage, on which a piece of advice is followed."""

    def __init__(self, base, whole, directory):
        self.base, self.whole, self.directory = base, whole, directory

    def __call__(self, piece):
        """Follow a piece of advice; return the base that works then."""
        base = self.base
        if match := re.match(r"copy (.*)", piece):
            for pair in re.findall(r"(\S+) to ([^\s,]+)", match[1]):
                Path(pair[1]).unlink(missing_ok=True)
                shutil.copy(*pair)
        elif "back from a copy on another disk" in piece:
            for path in (self.whole / "master").rglob("*"):
                target = base.path / "master" / path.relative_to(self.whole / "master")
                if path.is_file() and (not target.exists() or target.read_bytes() != path.read_bytes()):
                    target.write_bytes(path.read_bytes())  # as ``cp``: hard links stay
        elif "put that dataset back from a copy of the base" in piece:
            shutil.rmtree(base.path / "master")
            shutil.copytree(self.whole / "master", base.path / "master")
        elif match := re.search(r"mutator verify --repair (\S+)", piece):
            assert repair_base(match[1])[1] == []
        elif match := re.search(r"mutator workflow restore \S+ --to (\d+)", piece):
            base.restore(int(match[1]))
        elif "master.adopt=true" in piece:
            assert "without the rows of missing files" in piece
            if "move the files that the manifest does not name out of the directory, then" in piece:
                self.move_strays()
            left = rows_of_a_copy(self.whole, lambda path: (base.path / "master" / path.name).exists())
            base.arrive("ups_70.txt", "new,70")
            fed = [row for path in (base.path / "incr").glob("ups_*") for row in path.read_text().split()]
            base.run(master_adopt="true")
            assert base.rows() == sorted({row.partition(",")[0]: row for row in [*left, *fed]}.values())
        elif match := re.match(r"move the files that the manifest does not name out of", piece):
            self.move_strays()
        elif match := re.match(
            r"start a new base with a copy of (\S+) as its master/ and copies of the feed files in archive/", piece
        ):
            new = Place(self.directory / "new", base.settings)
            shutil.rmtree(new.path / "master")
            shutil.copytree(match[1], new.path / "master")
            return self.merged_again(new)
        elif "start a new base without a master (allow.empty.master=true) and copies" in piece:
            return self.merged_again(Place(self.directory / "new", base.settings))
        else:
            pytest.fail(f"nobody can follow: {piece}")
        return base

    def move_strays(self):
        for path in (self.base.path / "master").glob("stray*"):
            path.rename(self.directory / path.name)

    def merged_again(self, new):
        for path in self.base.path.glob("archive/*/*"):
            shutil.copy(path, new.path / "incr")
        new.run(allow_empty_master="true")
        assert new.rows() == rows_of_a_copy(self.whole)
        return new


def rows_of_a_copy(whole, is_there=lambda path: True):
    parts = filter(is_there, (whole / "master").glob("part-*"))
    return sorted(line for path in parts for line in path.read_text().split())


def works(base):
    """Check that a base works, once the advice of ``status`` and ``verify`` on the rest of the damage is followed."""
    for problem in base.status().problems:
        if f"put it back: mutator verify --repair {base.path}" in problem:
            assert repair_base(str(base.path))[1] == []
            continue
        assert problem.endswith("move it away"), problem
        shutil.rmtree(problem.partition(": ")[0])
    state = verified(base)
    damaged = [found.path for found in state.datasets if found.differences]
    for path in damaged:
        assert f"cures  of {path}: as above, or remove the directory" in state.text()
        assert "/backup/" in path
        shutil.rmtree(path)
    assert (verified(base) if damaged else state).problems == ()
    assert base.status().problems == ()
    base.arrive("ups_90.txt", "z,90")
    base.run(verify_fraction="1")
    assert "z,90" in base.rows()
    assert verified(base).problems == ()
    assert base.status().problems == ()


def check_every_piece(base, whole, messages, expected):
    """Follow each piece of advice of some messages on a copy of the base of its own. expected: begins of the pieces."""
    pieces = list(dict.fromkeys(piece for message in messages for piece in advice(message)))
    assert sorted({piece.split()[0] for piece in pieces}) == sorted(expected)
    damaged = base.path.with_name("damaged")
    copy_tree(base.path, damaged)
    for number, piece in enumerate(pieces[:: base.step]):
        shutil.rmtree(base.path)
        copy_tree(damaged, base.path)
        directory = base.path.parent / str(number)
        directory.mkdir()
        works(Follow(base, whole, directory)(piece))


@pytest.fixture(params=[pytest.param(2, id="some"), pytest.param(1, id="all", marks=pytest.mark.rest)])
def whole(base, request):
    """Return a function that copies a base before the damage. Some pieces of advice are followed, or all."""
    base.step = request.param

    def saved():
        copy_tree(base.path, base.path.with_name("whole"))
        return base.path.with_name("whole")

    return saved


def history(base):
    return versions_text(directory.history(str(base.path), configuration.parse(base.settings)))


# --- files that are missing, or too many


def test_file_of_the_only_version_is_missing(base, whole):
    merged(base, "ups_2")
    saved = whole()
    part = part_of(base)
    part.unlink()
    (problem,) = base.status().problems
    base.arrive("ups_80.txt", *ROWS)
    refused = message_of(base.run)
    assert f"{base.path}/master: differs from its manifest: {part.name} is missing" in problem
    assert problem in refused

    first, given = message_of(base.restore, 1), message_of(base.restore, 0)
    assert problem in first, "not only that it is the master already"
    assert "has no manifest, so it cannot be a version; no other version can be restored: start a new base" in given
    check_every_piece(base, saved, [problem, first, given], ["put", "start", "use"])


def without_a_part(base):
    part_of(base).unlink()


def without_files(base):
    shutil.rmtree(base.path / "master")
    (base.path / "master").mkdir()


def with_a_damaged_part(base):
    flip(part_of(base))
    found_by_a_run(base)


@pytest.mark.parametrize(
    ("versions", "damage", "cures"),
    [
        (("ups_2", "ups_3"), without_a_part, ["put", "make", "start", "use"]),
        (("ups_2",), without_files, ["put", "start"]),
        (("ups_2", "ups_3"), with_a_damaged_part, ["put", "make", "start"]),
    ],
)
def test_cures_of_a_damaged_master(base, whole, versions, damage, cures):
    merged(base, *versions)
    saved = whole()
    damage(base)

    check_every_piece(base, saved, base.status().problems, cures)


def test_missing_file_that_a_backup_has(base, whole):
    merged(base, "ups_2", "ups_3")
    saved = whole()
    part = part_of(base, linked=True)
    part.unlink()
    (problem,) = base.status().problems

    assert f"; copy {base.path}/backup/1/{part.name} to {part}; or put the file back from" in problem
    check_every_piece(base, saved, [problem], ["copy", "put", "make", "start", "use"])


def test_files_that_the_manifest_does_not_name(base, whole):
    merged(base, "ups_2")
    saved = whole()
    (base.path / "master" / "stray.txt").write_text("a,1\n")
    (problem,) = base.status().problems

    assert "stray.txt is not one of its files" in problem
    check_every_piece(base, saved, [problem, message_of(merged, base, "ups_3")], ["move"])


def test_file_that_is_missing_and_a_file_too_many(base, whole):
    merged(base, "ups_2")
    part_of(base).unlink()
    (base.path / "master" / "stray.txt").write_text("a,1\n")
    (problem,) = base.status().problems

    assert "; or move the files that the manifest does not name out of the directory, then use the rows of" in problem
    (piece,) = (piece for piece in advice(problem) if "master.adopt" in piece)
    saved = base.path.with_name("after the damage")
    copy_tree(base.path, saved)
    Follow(base, saved, base.path.parent)(piece)


def test_adoption_of_a_file_with_another_size_is_not_offered(base):
    merged(base, "ups_2")
    part = part_of(base)
    part.write_bytes(part.read_bytes()[:-4])
    (problem,) = base.status().problems

    assert "and should have" in problem
    assert "master.adopt" not in problem


# --- damaged files


def found_by_a_run(base):
    base.arrive("ups_80.txt", "new,80")
    return [message_of(base.run, verify_fraction="1")]


def found_by_verify(base):
    text = verified(base).text()
    assert re.search(
        rf"differs: {base.path}/master/part-\S+: its checksum is \S+ and should be \S+; restore it from a copy on anoth"
        "er disk\n",
        text,
    )
    assert f"cures  of {base.path}/master: those that mutator workflow status {base.path} names" in text
    assert f"{base.path}/master: as above, or remove" not in text
    return []


@pytest.mark.parametrize("find", [found_by_a_run, found_by_verify])
def test_damaged_file_stays_in_sight(base, whole, find):
    merged(base, "ups_2", "ups_3")
    saved = whole()
    part = part_of(base, linked=True)
    flip(part)
    assert base.status().problems == (), "nothing has read it yet"
    messages = find(base)
    (problem,) = base.status().problems

    assert problem.startswith(f"{part}: its checksum is ")
    assert "the master's file is damaged: put the file back from a copy on another disk, because a file in" in problem
    assert "needs attention" in base.status().text()
    assert "--to" not in problem, "version 1 has the same file, as a hard link"
    assert "no other version can be restored" in message_of(base.restore, 1)
    assert messages in ([], [problem])
    check_every_piece(base, saved, [problem], ["put", "start"])


def test_damaged_file_of_which_a_backup_is_a_real_copy(base, whole):
    """As on storages without hard links."""
    merged(base, "ups_2", "ups_3")
    saved = whole()
    part = part_of(base, linked=True)
    data = part.read_bytes()
    part.unlink()
    part.write_bytes(data[:-2] + b"9\n")
    found_by_a_run(base)
    (problem,) = base.status().problems

    assert f"damaged: copy {base.path}/backup/1/{part.name} to {part}; or put the file back" in problem
    check_every_piece(base, saved, [problem], ["copy", "put", "make", "start"])


def test_damage_is_forgotten_once_it_is_repaired(base):
    merged(base, "ups_2", "ups_3")
    part = part_of(base)
    data = part.read_bytes()
    flip(part)
    found_by_a_run(base)
    note = base.path / "_mutator" / "damage.json"
    assert base.status().problems != ()
    assert note.exists()

    part.write_bytes(data)
    assert base.status().problems == ()
    assert not note.exists()
    (base.path / "_mutator" / "damage.json").write_text("no note")
    assert base.status().problems == ()


def split_from_its_links(part):
    """Make a file a real copy, as on storages without hard links."""
    data = part.read_bytes()
    part.unlink()
    part.write_bytes(data)
    return part


def test_known_damage_stops_every_run(base, whole):
    merged(base, "ups_2", "ups_3")
    saved = whole()
    part = split_from_its_links(part_of(base, linked=True))
    flip(part)
    found_by_verify(base)
    (problem,) = base.status().problems
    for number in (4, 5, 6):
        base.arrive(f"ups_{number}.txt", f"k0,{number}")
        assert message_of(base.run, verify_fraction="0", backup_keep="1") == problem
    assert (base.path / "backup" / "1" / part.name).exists()

    part.write_bytes((saved / "master" / part.name).read_bytes())
    base.run(verify_fraction="0", backup_keep="1")
    assert [path.name for path in (base.path / "backup").iterdir()] == ["2"]


def test_no_backup_is_removed_while_an_earlier_master_is_damaged(base):
    merged(base, "ups_2", "ups_3")
    part = part_of(base, "backup/1")
    data = part.read_bytes()
    flip(part)
    verified(base)
    for number in (4, 5):
        base.arrive(f"ups_{number}.txt", f"k0,{number}")
        done = base.run(backup_keep="1")
        assert f"no old backup was removed, because {part.name} of an earlier master is damaged" in done.warnings[0]
        assert f"mutator verify {base.path} names the directory" in done.warnings[0]
    assert len(list((base.path / "backup").iterdir())) == 4

    part.write_bytes(data)
    base.arrive("ups_6.txt", "k0,6")
    assert base.run(backup_keep="1").warnings == ()
    assert len(list((base.path / "backup").iterdir())) == 1


def test_damage_is_remembered_while_a_manifest_cannot_be_read(base):
    merged(base, "ups_2", "ups_3")
    flip(part_of(base, linked=True))
    found_by_verify(base)
    problems = base.status().problems
    saved = (base.path / "master" / manifest.PATH).read_bytes()
    damage_manifest(base.path / "master", copy=False)
    (problem,) = base.status().problems
    assert "master.adopt" not in problem, "the file would be adopted with its damage"

    base.arrive("ups_80.txt", "new,80")
    message_of(base.run)
    (base.path / "master" / manifest.PATH).write_bytes(saved)
    assert base.status().problems == problems


def test_error_of_a_damaged_file_that_comes_back_as_text(base):
    merged(base, "ups_2", "ups_3")
    part = part_of(base)
    flip(part)
    with pytest.raises(MutatorError) as stopped, packed():
        raise error("manifest.damage", path=part, why="it differs")
    fault = from_traceback("".join(traceback.format_exception(stopped.value)))
    place = open_base(str(base.path))
    found = cures.explained(place, Log(place.path), fault)

    assert found.kind == "base.damage"
    assert str(part) in str(found)
    other = error("manifest.damage", path="elsewhere", why="it differs")
    assert cures.explained(place, Log(place.path), other) is other


def test_given_master_that_mutator_wrote_is_compared_from_the_start(base, tmp_path):
    merged(base, "ups_2")
    other = Place(tmp_path / "other", BY_NAME)
    shutil.rmtree(other.path / "master")
    shutil.copytree(base.path / "master", other.path / "master")
    assert other.status().problems == ()
    part_of(other).unlink()

    assert "is missing" in other.status().problems[0]


def test_dataset_in_use_is_not_to_be_removed(base):
    """On a storage without renames it is in output/, and master/ is the given master."""
    difference = Difference("is missing", "part-1", "restore it")
    found = [Verification(path, 1, 1, 0, 1, (difference,)) for path in ("b/master", "b/output/run")]
    text = BaseVerification("b", 1, tuple(found), 0, 0, (), ("b/output/run",)).text()
    assert "cures  of b/master: as above, or remove the directory" in text
    assert "cures  of b/output/run: those that mutator workflow status b names" in text
    assert "remove" not in BaseVerification("b", 1, tuple(found), 0, 0, ()).text(), "the newest log entry is damaged"


def test_status_during_a_commit_sees_the_versions_of_one_listing(base, monkeypatch):
    merged(base, "ups_2", "ups_3")
    numbers, listings = NumberedLog.numbers, []

    def racing(entries):
        listings.append(entries)
        return numbers(entries)[: 1 if len(listings) == 1 else None]

    target = directory.MasterTarget(open_base(str(base.path)), configuration.parse(base.settings))
    monkeypatch.setattr(NumberedLog, "numbers", racing)
    assert target.state(view.View(target.base), recovered=False).version.number == 1


def test_version_that_does_not_exist_is_shown_with_the_given_path(base, monkeypatch):
    merged(base, "ups_2")
    monkeypatch.chdir(base.path.parent)
    with pytest.raises(MutatorError) as caught:
        directory.restore("base", 7, configuration.parse(base.settings))
    assert str(caught.value).startswith("base: there is no version 7")


# --- damaged manifests


def damage_manifest(path, copy=False):
    (path / manifest.PATH).write_bytes(b'{"format": "mut')
    for other in path.glob("_mutator/manifest-*.json") if copy else ():
        other.write_bytes(b"{")


@pytest.mark.parametrize("has_versions", [True, False, None])
@pytest.mark.parametrize(
    "words",
    [
        "run --master base --feed feed --output out",
        "run --master base/master --feed base --output out",
        "init --master base --feed feed",
        "partition --feed base --by 0 --to out",
        "partition-runs --master base --feed feed --output out",
        "table create t --from base",
    ],
)
def test_a_base_is_not_a_dataset(base, words, has_versions, monkeypatch, capsys):
    merged(base, *(["ups_2"] if has_versions else []))
    if has_versions is None:  # a run was refused
        (base.path / "_mutator").mkdir()
    monkeypatch.chdir(base.path.parent)
    Path("feed").mkdir()
    Path("feed/ups_3.txt").write_text("k0,3\n")
    settings = ["--key", "0"] if "init" not in words else []

    assert cli.main([*words.split(), *settings]) == 2
    assert f"{base.path}: is the base of a workflow: name its master, {base.path}/master; " in capsys.readouterr().err


def test_commands_are_ready_for_a_shell(base):
    merged(base, "ups_1", "ups_2")
    (base.path / "master" / "_mutator" / "manifest.json").write_text("damaged")
    moved = base.path.rename(base.path.parent / "my base")
    (problem,) = directory.status(directory.MasterTarget(open_base(str(moved)), configuration.parse(BY_NAME))).problems
    commands = [shlex.split(one)[1:] for one in re.findall(r"(mutator [^;]*)(?:; or|$)", problem)]

    assert [command[:2] for command in commands] == [["verify", "--repair"], ["workflow", "restore"]]
    assert cli.main(commands[0]) == 0
    (moved / "master" / "_mutator" / "manifest.json").write_text("damaged")
    assert cli.main(commands[1]) == 0


def test_repair_is_advised_only_where_a_copy_is_whole(base):
    master = merged(base, "ups_2").path / "master"
    damage_manifest(master, copy=False)
    with pytest.raises(MutatorError) as caught:
        local_engine.verify(str(master))
    message = str(caught.value)
    assert "the manifest is damaged (it cannot be read: Unterminated string starting at: line 1 column 12" in message
    assert f"put it back from its copy: mutator verify --repair {master}, or set master.adopt=true" in message
    assert any(f"mutator verify --repair {base.path}" in problem for problem in verified(base).problems)

    damage_manifest(master, copy=True)
    with pytest.raises(MutatorError) as caught:
        local_engine.verify(str(master))
    message = f"{caught.value} {verified(base).problems} {base.status().problems}"
    assert "--repair" not in message
    assert "forgets tombstones, order values beside rows and which feed files were merged" in message
    assert (
        "list of merged feed files (one that is delivered again is merged again): run with -D master.adopt=true"
        in message
    )
    assert len(repair_base(str(base.path))[1]) == len(repair_dataset(str(master))[1]) == 1


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize(
    ("names", "copy", "expected"),
    [
        (["ups_2"], True, ["put", "start", "use"]),
        (["ups_2", "ups_3"], True, ["make", "put", "start", "use"]),
        (["ups_2", "ups_3"], False, ["make", "put", "start", "use"]),
    ],
)
def test_master_whose_manifest_is_damaged(base, whole, names, copy, expected):
    merged(base, *names)
    saved = whole()
    damage_manifest(base.path / "master", copy=copy)
    (problem,) = base.status().problems
    assert (f"mutator verify --repair {base.path}" in problem) == (not copy)

    check_every_piece(base, saved, [problem], expected)


@pytest.mark.parametrize("settings", [[], ["--key", "0"]])
@pytest.mark.parametrize("damage", [damage_manifest, shutil.rmtree])
def test_a_run_names_the_cures_before_it_reads_settings(base, damage, settings, capsys):
    merged(base, "ups_2", "ups_3")
    damage(base.path / "master")
    problems = base.status().problems
    base.arrive("ups_4.txt", "k0,4")

    assert cli.main(["workflow", "run", str(base.path), "-D", "claim.min.age=0s", *settings]) == 5
    assert capsys.readouterr().err == f"mutator: error: {problems[0]}\n"


def test_base_that_began_without_a_master(base, whole):
    (base.path / "master" / "base_1.txt").unlink()
    base.arrive("ups_1.txt", *ROWS)
    base.run(allow_empty_master="true")
    merged(base, "ups_2")
    saved = whole()
    part_of(base).unlink()
    part_of(base, linked=True).unlink()
    shutil.rmtree(base.path / "backup" / "1")

    check_every_piece(base, saved, base.status().problems, ["put", "start"])


def test_adoption_merges_again_what_is_delivered_again(base):
    merged(base, "ups_2")
    damage_manifest(base.path / "master", copy=True)
    base.arrive("ups_2.txt", "k0,again", "ups_2,1")

    assert base.run(master_adopt="true").skipped == ()
    assert "k0,again" in base.rows()


def test_history_names_a_dataset_whose_manifest_is_damaged(base):
    merged(base, "ups_2", "ups_3", "ups_4")
    damage_manifest(base.path / "master", copy=True)
    damage_manifest(base.path / "backup" / "1", copy=False)
    shutil.rmtree(base.path / "backup" / "2")
    lines = history(base).split("\n")

    assert lines[-1].endswith(f"{base.path}/master (its manifest is damaged)")
    assert lines[-2].endswith("removed")
    assert lines[-3].endswith(f"{base.path}/backup/1 (its manifest is damaged)")
    assert lines[-4].endswith(f"{base.path}/backup/0")
