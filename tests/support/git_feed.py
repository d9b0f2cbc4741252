"""The history of a git repository as master and feed: real mutations, for which git itself has the right answer.

Commits are numbered from 1 along the first parents, from the oldest in the repository to HEAD. Each is compared only
with its first parent, so that the changes, replayed in order, give exactly HEAD's tree, merges included. A path is
written as git prints it: quoted like a C string if it contains a quote, a backslash or a control character, so that a
tab or a line feed in a name is never a tab or a line feed in a row. Other bytes stay as they are, UTF-8 or not.

    history = read_history(repository)
    write_master(directory, history.tree(100), 100)            path, number, mode, blob
    write_feed(directory, history.changes[:], files=4)         path, op, number, mode, blob
    write_feed_by_commit(directory, history.changes)           directory, name, mode, blob in ..._<number>.tsv
"""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

__all__ = [
    "Change",
    "Commit",
    "History",
    "fast_import",
    "file",
    "gone",
    "read_history",
    "split_path",
    "write_feed",
    "write_feed_by_commit",
    "write_master",
    "write_master_by_commit",
]

Tree = dict[bytes, tuple[bytes, bytes]]  # path -> (mode, blob)


class Change(NamedTuple):
    """The change of one path in one commit; op is git's: A added, M modified, T of another type, D deleted."""

    path: bytes
    op: bytes
    number: int  # of the commit
    mode: bytes
    blob: bytes


class History(NamedTuple):
    """A repository's first-parent history."""

    repository: Path
    commits: list[str]  # from the oldest to HEAD
    changes: list[Change]  # in the order of the commits

    def tree(self, number: int) -> Tree:
        """Return git's own listing of the tree at a commit; 0 is the empty tree before the first."""
        if number == 0:
            return {}
        rows = _git(self.repository, "ls-tree", "-r", "--full-tree", self.commits[number - 1]).split(b"\n")[:-1]
        found = {}
        for row in rows:
            about, path = row.split(b"\t")
            mode, _, blob = about.split(b" ")
            found[path] = mode, blob
        return found


def read_history(repository: Path) -> History:
    """Read the first-parent history up to HEAD. The first commit of a shallow clone has no parent there."""
    lines = _git(repository, "rev-list", "--first-parent", "--parents", "--reverse", "HEAD").decode().splitlines()
    commits = [line.split()[0] for line in lines]
    numbers = {commit: number for number, commit in enumerate(commits, 1)}
    # Plumbing, which no user configuration changes: each line "commit parent" is a comparison with just this parent.
    pairs = "".join(" ".join(line.split()[:2]) + "\n" for line in lines)
    raw = _git(
        repository, "diff-tree", "--stdin", "--root", "-r", "-m", "--raw", "--no-renames", "--no-abbrev", stdin=pairs
    )
    changes, number = [], 0
    for line in raw.split(b"\n")[:-1]:
        if line.startswith(b":"):
            about, path = line[1:].split(b"\t")
            _, mode, _, blob, op = about.split(b" ")
            changes.append(Change(path, op, number, mode, blob))
        else:
            number = numbers[line.split()[0].decode()]
    return History(repository, commits, changes)


def write_master(directory: Path, tree: Mapping[bytes, tuple[bytes, bytes]], number: int, files: int = 3) -> None:
    """Write a tree as rows of path, number, mode and blob."""
    rows = [b"%s\t%d\t%s\t%s\n" % (path, number, *entry) for path, entry in tree.items()]
    _write_shuffled(directory, "tree", rows, files)


def write_feed(directory: Path, changes: Iterable[Change], files: int = 4, seed: int = 0) -> None:
    """Write changes as rows of path, op, number, mode and blob, shuffled over several files."""
    rows = [b"%s\t%s\t%d\t%s\t%s\n" % change for change in changes]
    _write_shuffled(directory, "changes", rows, files, seed)


def write_master_by_commit(directory: Path, tree: Mapping[bytes, tuple[bytes, bytes]], number: int) -> None:
    """Write a tree as rows of directory, name, mode and blob, in a file whose sequence is the commit number."""
    directory.mkdir(parents=True)
    rows = [b"\t".join((*split_path(path), *entry)) + b"\n" for path, entry in tree.items()]
    (directory / f"tree_{number}.tsv").write_bytes(b"".join(rows))


def write_feed_by_commit(directory: Path, changes: Iterable[Change], seed: int = 0) -> None:
    """Write for each commit a file with rows of directory, name, mode and blob, and one with the IDs of deletes."""
    directory.mkdir(parents=True)
    by_file: dict[str, list[bytes]] = {}
    for path, op, number, *entry in changes:
        if op == b"D":
            by_file.setdefault(f"deleted_{number}.tsv", []).append(b"\t".join(split_path(path)) + b"\n")
        else:
            by_file.setdefault(f"changed_{number}.tsv", []).append(b"\t".join((*split_path(path), *entry)) + b"\n")
    for name, rows in by_file.items():
        random.Random(f"{seed} {name}").shuffle(rows)
        (directory / name).write_bytes(b"".join(rows))


def split_path(path: bytes) -> tuple[bytes, bytes]:
    """Split a path (quoted or not) into a composite ID of directory and name; the directory may be empty.

    >>> split_path(b"a/b/c"), split_path(b"c")
    ((b'a/b', b'c'), (b'', b'c'))
    """
    directory, slash, name = path.rpartition(b"/")
    return directory + slash[:0], name


def _write_shuffled(directory: Path, stem: str, rows: list[bytes], files: int, seed: int = 0) -> None:
    directory.mkdir(parents=True)
    random.Random(seed).shuffle(rows)
    for number in range(files):
        (directory / f"{stem}-{number}.tsv").write_bytes(b"".join(rows[number::files]))


# Building a repository


class Commit(NamedTuple):
    """A commit to create: its branch, its changes, and a branch that it merges."""

    branch: str
    steps: Sequence[bytes]  # created by file() and gone()
    merges: str | None = None
    begins_at: str | None = None  # the branch that this branch forks from, in its first commit


def file(path: bytes, content: bytes, mode: bytes = b"100644") -> bytes:
    """Add or change a file (100644, 100755), a link (120000) or a submodule (160000, the content is its commit)."""
    if mode == b"160000":
        return b"M 160000 %s %s\n" % (content, _quoted(path))
    return b"M %s inline %s\ndata %d\n%s\n" % (mode, _quoted(path), len(content), content)


def gone(path: bytes) -> bytes:
    """Delete a file or directory."""
    return b"D %s\n" % _quoted(path)


def fast_import(repository: Path, commits: Iterable[Commit]) -> None:
    """Create a bare repository; HEAD is the branch main. Nothing is checked out, so every file name is possible."""
    subprocess.run(["git", "init", "--quiet", "--bare", str(repository)], check=True, env=_environment())
    _git(repository, "symbolic-ref", "HEAD", "refs/heads/main")
    stream = []
    for number, (branch, steps, merges, begins_at) in enumerate(commits, 1):
        stream.append(b"commit refs/heads/%s\n" % branch.encode())
        stream.append(b"committer Test <test@example.org> %d +0000\ndata 0\n" % (1_400_000_000 + number))
        if begins_at:
            stream.append(b"from refs/heads/%s\n" % begins_at.encode())
        if merges:
            stream.append(b"merge refs/heads/%s\n" % merges.encode())
        stream += steps
        stream.append(b"\n")
    _git(repository, "fast-import", "--quiet", "--done", stdin=b"".join(stream) + b"done\n")


def _quoted(path: bytes) -> bytes:
    escaped = path.replace(b"\\", rb"\\").replace(b'"', rb"\"").replace(b"\n", rb"\n")
    return b'"%s"' % escaped


def _environment() -> dict[str, str]:
    """Return the environment without the variables with which a hook points git to another repository."""
    return {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | {"LC_ALL": "C"}


def _git(repository: Path, *words: str, stdin: bytes | str = b"") -> bytes:
    # safe.directory: in a build, the checkout may belong to another user
    command = ["git", "-c", "safe.directory=*", "-c", "core.quotePath=false", "-C", str(repository), *words]
    data = stdin.encode() if isinstance(stdin, str) else stdin
    return subprocess.run(command, input=data, stdout=subprocess.PIPE, check=True, env=_environment()).stdout
