"""Real input: the merged history of a git repository must be exactly the output of ``git ls-tree -r HEAD``.

The repositories are a small one with every odd case, a random one where files appear and disappear, and the project's
own, or the one that ``MUTATOR_GIT_REPOSITORY`` names.
"""

import os
import random
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

import mutator
from tests.support import local_engine
from tests.support.git_feed import (
    Commit,
    fast_import,
    file,
    gone,
    read_history,
    split_path,
    write_feed,
    write_feed_by_commit,
    write_master,
    write_master_by_commit,
)

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

CHECKOUT = Path(__file__).resolve().parents[2]
BY_NUMBER = {
    "field.delim.regex": "\\t",
    "id.field.ordinals": "0",
    "op.code.field.ordinal": "1",
    "upsert.op.code": "A,C,M,R,T",  # T is a change of the type
    "temporal.ordering.field.ordinal": "2",
    "num.reducer": "3",
    "max.delete.fraction": "1",
    "allow.empty.master": "true",
}
BY_FILE_NAME = {
    "field.delim.regex": "\\t",
    "id.field.ordinals": "0,1",
    "deleted.record.file.prefix": "deleted",
    "num.reducer": "3",
    "max.delete.fraction": "1",
    "allow.empty.master": "true",
}
MOST_FILES = 1000  # of one commit each

ODD_NAMES = [
    b"with space",
    b" begins and ends with one ",
    b'quo"te',
    b"back\\slash",
    b"tab\tin it",
    b"line\nfeed",
    b"carriage\rreturn",
    b"comma,semicolon;pipe|",
    b"\xff\xfe not UTF-8",
    b"\xc3\xa4 UTF-8",
    b"\x01\x1f\x7f control",
    b'"',
    b"D",
    b"0",
    b"-",
    b"n" * 300,
]
SUBMODULE = b"1234567890" * 4


def small_history():
    """Return a history that contains every case once."""
    return [
        Commit("main", [file(name, b"first") for name in ODD_NAMES]),
        Commit("main", [file(b"dir/kept", b"k"), file(b"dir/changed", b"1"), file(b"run", b"#!"), file(b"gone", b"g")]),
        Commit("main", [file(b"dir/changed", b"2"), gone(b"gone"), gone(b"tab\tin it")]),
        Commit("main", [file(b"gone", b"back again"), file(b"dir/changed", b"1")]),  # back to the earlier content
        Commit("side", [file(b"of side", b"s"), file(b"both", b"side"), gone(b"D")], begins_at="main"),
        Commit("main", [file(b"run", b"#!", b"100755"), file(b"both", b"main"), file(b"line\nfeed", b"2")]),
        Commit("side", [file(b"of side", b"s2"), file(b"only in side", b"x")]),
        # A merge takes some changes of its side branch, and makes a change of its own.
        Commit("main", [file(b"of side", b"s2"), file(b"both", b"merged"), gone(b"D")], merges="side"),
        Commit("main", [gone(b"run"), file(b"moved/run", b"#!", b"100755")]),  # a rename
        Commit("main", [file(b"both", b"elsewhere", b"120000"), file(b"sub", SUBMODULE, b"160000")]),  # types change
        Commit("main", [gone(b"dir"), file(b"dir", b"a file where a directory was")]),
        Commit("main", []),  # no change
        Commit("main", [gone(b"gone"), gone(b"\xff\xfe not UTF-8"), file(b"n" * 300, b"long")]),
        Commit("main", [gone(b"dir"), file(b"dir/kept", b"k"), file(b"\xff\xfe not UTF-8", b"again")]),
        Commit("main", [file(b"sub", SUBMODULE[::-1], b"160000"), gone(b"0")]),
    ]


def random_history(commits, paths, seed):
    """Return a history of few paths and many commits: each path is added, changed and deleted many times."""
    draw = random.Random(seed)
    there = set()
    for number in range(commits):
        steps = []
        for path in draw.sample(range(paths), draw.randint(1, 6)):
            name = b"d%d/f%d" % (path % 7, path)
            if name in there and draw.random() < 0.4:
                there.remove(name)
                steps.append(gone(name))
            else:
                there.add(name)
                mode = draw.choice((b"100644", b"100644", b"100755"))
                steps.append(file(name, b"%d" % draw.choice((number, 0)), mode))
        yield Commit("main", steps)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    repository = tmp_path_factory.mktemp("small") / "repository.git"
    fast_import(repository, small_history())
    return read_history(repository)


@pytest.fixture(scope="module")
def ever_changing(tmp_path_factory):
    repository = tmp_path_factory.mktemp("random") / "repository.git"
    fast_import(repository, random_history(commits=200, paths=60, seed=1))
    return read_history(repository)


@pytest.fixture(scope="module")
def own():
    repository = Path(os.environ.get("MUTATOR_GIT_REPOSITORY") or CHECKOUT)
    if repository == CHECKOUT and not (CHECKOUT / ".git").exists():
        pytest.skip(f"{CHECKOUT} has no .git: this is no checkout")
    history = read_history(repository)
    if len(history.commits) < 2:
        pytest.skip(f"{repository} has one commit, and a feed needs one after the master's")
    return history


@pytest.fixture(params=["small", "ever_changing", "own"])
def history(request):
    return request.getfixturevalue(request.param)


def middle(history):
    return len(history.commits) // 2


def last_but_one(history):
    return len(history.commits) - 1


def empty(_):
    return 0


def on_spark(sc):
    return lambda config, **places: mutator.mutate(sc, config, **places)


def published(output):
    """Return the fields of each row of an output."""
    return [row.split(b"\t") for path in output.glob("part-*") for row in path.read_bytes().split(b"\n")[:-1]]


def tree_of(output):
    """Return (the output of ``git ls-tree``, the number of the commit that last changed each path)."""
    rows = published(output)
    tree = {path: (mode, blob) for path, _, mode, blob in rows}
    assert len(tree) == len(rows)
    return tree, {path: int(number) for path, number, _, _ in rows}


def tree_by_file_name(output):
    rows = published(output)
    tree = {(directory, name): (mode, blob) for directory, name, mode, blob in rows}
    assert len(tree) == len(rows)
    return tree


def split_paths(tree):
    return {split_path(path): entry for path, entry in tree.items()}


def expected_counts(tree, number, changes, by_file_name=False):
    """Compute the outcome of each row only from git's trees and the newest change of each path.

    by_file_name: rows do not contain the commit number, so a file that got its earlier content back counts as
    unchanged.
    """
    counts = Counter({"feed rows": len(changes), "master rows": len(tree)})
    newest = {change.path: change for change in sorted(changes, key=lambda change: change.number)}
    counts["feed superseded"] = len(changes) - len(newest)
    for path, change in newest.items():
        if path not in tree:
            outcome = "delete of unknown" if change.op == b"D" else "inserted"
        elif change.number < number:
            outcome = "late"
        elif change.number == number or (by_file_name and tree[path] == (change.mode, change.blob)):
            outcome = "no-op"
        else:
            outcome = "deleted" if change.op == b"D" else "updated"
        counts[f"feed {outcome}"] += 1
    counts["master kept"] = len(tree) - counts["feed updated"] - counts["feed deleted"]
    counts["output rows"] = counts["master kept"] + counts["feed updated"] + counts["feed inserted"]
    return counts


def check_merge(mutate, history, number, tmp_path, *, earlier=0, files=4):
    """Merge all commits after a number, and some before it, into that commit's tree; check that the result is HEAD's
    tree.
    """
    tree = history.tree(number)
    changes = [change for change in history.changes if change.number > number - earlier]
    master = tmp_path / "master"
    if number:
        write_master(master, tree, number)
    write_feed(tmp_path / "feed", changes, files)

    report = mutate(BY_NUMBER, master=str(master), feed=[str(tmp_path / "feed")], output=str(tmp_path / "out"))

    merged, numbers = tree_of(tmp_path / "out")
    assert merged == history.tree(len(history.commits))
    last = {change.path: change.number for change in history.changes}
    assert numbers == {path: max(last[path], number) for path in merged}
    counts = expected_counts(tree, number, changes)
    assert {name: report.counts[name] for name in counts} == counts
    assert report.counts["tied"] == report.counts["feed rejected"] == report.counts["master duplicate"] == 0


# git_feed itself


def test_changes_replayed_give_every_tree(history):
    tree, trees = {}, {}
    for path, op, number, mode, blob in history.changes:
        if op == b"D":
            del tree[path]
        else:
            assert op in (b"A", b"M", b"T")
            assert (path in tree) == (op != b"A")
            tree[path] = mode, blob
        if number in (1, middle(history), len(history.commits)):
            trees[number] = dict(tree)
    trees[len(history.commits)] = tree

    for number, replayed in trees.items():
        assert replayed == history.tree(number)


def test_small_history_has_every_case(small):
    ops = {(change.path, change.op) for change in small.changes}
    paths = {path for path, _ in ops}

    assert len(small.commits) == 13  # along the first parents: the side branch has two more
    assert {op for _, op in ops} == {b"A", b"M", b"T", b"D"}
    assert Counter(change.path for change in small.changes)[b"gone"] == 4  # added, deleted, added, deleted
    assert {b'"tab\\tin it"', b'"line\\nfeed"', b'"carriage\\rreturn"', b'"quo\\"te"', b"n" * 300} <= paths
    assert {b"\xff\xfe not UTF-8", b" begins and ends with one ", b'"\\001\\037\\177 control"'} <= paths
    assert b"of side" in paths  # the changes of a merge are those against its first parent
    assert b"only in side" not in paths
    assert {change.mode for change in small.changes} == {b"100644", b"100755", b"120000", b"160000", b"000000"}


def test_shallow_clone_begins_with_a_root(small, tmp_path):
    clone = tmp_path / "clone.git"
    command = ["git", "clone", "--quiet", "--bare", "--depth=4", f"file://{small.repository}", clone]
    subprocess.run(command, check=True)

    shallow = read_history(clone)

    assert shallow.commits == small.commits[-4:]
    assert {change.op for change in shallow.changes if change.number == 1} == {b"A"}
    check_merge(local_engine.mutate, shallow, 0, tmp_path / "all")
    check_merge(local_engine.mutate, shallow, 2, tmp_path / "half", earlier=2)


# Order by commit number


@pytest.mark.thorough(keep=4)
@pytest.mark.parametrize("number", [empty, middle, last_but_one])
def test_history_gives_the_tree_of_head(history, number, tmp_path):
    check_merge(local_engine.mutate, history, number(history), tmp_path)


@pytest.mark.thorough(keep=2)
@pytest.mark.parametrize("number", [middle, last_but_one])
def test_earlier_commits_change_nothing(history, number, tmp_path):
    number = number(history)

    check_merge(local_engine.mutate, history, number, tmp_path, earlier=number, files=7)


@pytest.mark.thorough(keep=0)
def test_every_commit_of_the_small_history(small, tmp_path):
    for number in range(len(small.commits)):
        check_merge(local_engine.mutate, small, number, tmp_path / str(number), earlier=3)


@pytest.mark.rest
def test_spark_gives_the_tree_of_head(sc, history, tmp_path):
    check_merge(on_spark(sc), history, middle(history), tmp_path, earlier=2)


@pytest.mark.rest
def test_spark_builds_the_tree_from_nothing(sc, small, tmp_path):
    check_merge(on_spark(sc), small, 0, tmp_path)


@pytest.mark.thorough(keep=2)
@pytest.mark.parametrize("way", ["as it was", "newest first"])
def test_history_in_many_runs(history, way, tmp_path):
    """Each run's output is the next one's master; deleted records stay deleted when their older rows arrive later."""
    size = -(-len(history.commits) // 5)
    parts = [
        [change for change in history.changes if first < change.number <= first + size]
        for first in range(0, len(history.commits), size)
    ]
    master = tmp_path / "none"
    for number, part in enumerate(parts if way == "as it was" else reversed(parts)):
        write_feed(tmp_path / f"feed {number}", part, seed=number)
        output = tmp_path / f"out {number}"
        local_engine.mutate(BY_NUMBER, master=str(master), feed=[str(tmp_path / f"feed {number}")], output=str(output))
        master = output

    merged, _ = tree_of(master)
    assert merged == history.tree(len(history.commits))


# Order by file name


def recent(history):
    """Return the number of a commit that has only a few commits after it."""
    return max(middle(history), len(history.commits) - MOST_FILES)


@pytest.mark.thorough(keep=2)
@pytest.mark.parametrize("number", [empty, recent, last_but_one])
def test_one_file_a_commit(history, number, tmp_path):
    number = number(history)
    if len(history.commits) - number > MOST_FILES:
        pytest.skip(f"{len(history.commits)} commits would be as many files")
    changes = [change for change in history.changes if change.number > max(number - 5, 0)]
    if number:
        write_master_by_commit(tmp_path / "master", history.tree(number), number)
    write_feed_by_commit(tmp_path / "feed", changes)

    report = local_engine.mutate(
        BY_FILE_NAME, master=str(tmp_path / "master"), feed=[str(tmp_path / "feed")], output=str(tmp_path / "out")
    )

    assert tree_by_file_name(tmp_path / "out") == split_paths(history.tree(len(history.commits)))
    counts = expected_counts(history.tree(number), number, changes, by_file_name=True)
    assert {name: report.counts[name] for name in counts} == counts


@pytest.mark.rest
def test_spark_with_one_file_a_commit(sc, small, tmp_path):
    number = middle(small)
    write_master_by_commit(tmp_path / "master", small.tree(number), number)
    write_feed_by_commit(tmp_path / "feed", small.changes)

    on_spark(sc)(
        BY_FILE_NAME, master=str(tmp_path / "master"), feed=[str(tmp_path / "feed")], output=str(tmp_path / "out")
    )

    assert tree_by_file_name(tmp_path / "out") == split_paths(small.tree(len(small.commits)))


@pytest.mark.thorough(keep=1)
def test_late_commits_find_the_sequences_of_an_earlier_run(history, tmp_path):
    """Merge every other commit first, then those between: the first output must keep the commit of each row."""
    first = recent(history)
    write_master_by_commit(tmp_path / "master", history.tree(first), first)
    after = [change for change in history.changes if change.number > first]
    write_feed_by_commit(
        tmp_path / "odd", [change for change in after if (len(history.commits) - change.number) % 2 == 0]
    )
    write_feed_by_commit(tmp_path / "even", [change for change in after if (len(history.commits) - change.number) % 2])

    for master, feed, output in (("master", "odd", "out"), ("out", "even", "out 2")):
        local_engine.mutate(
            BY_FILE_NAME, master=str(tmp_path / master), feed=[str(tmp_path / feed)], output=str(tmp_path / output)
        )

    assert tree_by_file_name(tmp_path / "out 2") == split_paths(history.tree(len(history.commits)))
