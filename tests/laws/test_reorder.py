"""A change of the order keeps the laws: afterwards a place is as one that began with its rows in the new order.

The rows of a world are ordered by ``at`` first, and by ``v`` later, or by ``lsn``, which only later feeds have.
"""

from __future__ import annotations

import json
import random
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import mutator
from mutator.cli import main
from mutator.dataset.commit import publish
from mutator.dataset.version_log import Log
from mutator.dataset.versions.opening import open_snapshot
from mutator.rules.order_tuples import decode
from mutator.table import commit
from mutator.table.table import Table
from mutator.workflow.directory import commands, cures, open_base
from tests.laws.test_floor import PARTITIONS, RUN, cut, world
from tests.laws.test_registers import ENGINES, tombstones_in
from tests.laws.toy_envelopes import Row, lowered
from tests.support import local_engine
from tests.support.child_process import in_child
from tests.support.cluster import ROOT
from tests.support.no_limits import NO_LIMITS
from tests.support.small_runs import known
from tests.support.versioned import left_of
from tests.table.test_several_writers import PHASES, at_phase

CODES = {"op": "op", "truncate.op.code": "T"}
FIRST = {"key": "id", "order_by": "at", "allow.empty.master": "true", **CODES}
FORMATS = ("csv", "parquet", "avro", "orc", "escaped")
SHIFT = 100  # the model has no order values below 0
OF_ROWS, BESIDE = ("--to", "v"), ("--to", "lsn", "--beside")
_OPTIONS = [option for name, value in NO_LIMITS.items() for option in ("-D", f"{name}={value}")]


def csv(rows: list[Row], order: str = "at") -> str:
    """Return rows whose order values are in a field; that of ``v`` is the negative of ``at``, and 0 in later feeds."""
    lines = []
    for key, value, op, name in rows:
        at, v, lsn = {"at": (value, -value, ""), "v": (0, value, ""), "lsn": (0, 0, f",{value}")}[order]
        lines.append(f"{key},{op},{name},{at},{v}{lsn}\n")
    return f"id,op,name,at,v{',lsn' if order == 'lsn' else ''}\n" + "".join(lines)


def model(before: list[Row], after: list[Row], how: tuple[str, ...]) -> tuple[list[Any], list[Any]]:
    """Return the keys and names of the records, and the tombstones, that mutations before and after a change leave."""
    records, _ = lowered({}, before)
    first = {key: (SHIFT - order if how == OF_ROWS else 0, name) for key, order, name in records}
    kept, buried = lowered(first, [(key, SHIFT + order, op, name) for key, order, op, name in after])
    return [(key, name) for key, _, name in kept], [(key, order - SHIFT) for key, order in buried]


def runs_of(rng: random.Random) -> tuple[list[Row], list[Row]]:
    """Return the mutations before and after a change; those after it are newer than some rows of before."""
    after = [(key, order - 6, op, name) for key, order, op, name in world(rng)]
    return world(rng), after


def order_of(text: bytes, how: tuple[str, ...]) -> int:
    return decode(bytes.fromhex(text.decode()))[0] if how == BESIDE else int(text)


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("how", [OF_ROWS, BESIDE])
@pytest.mark.parametrize(
    "settings",
    [*({"output.format": name} for name in FORMATS), {"output.format": "csv", **PARTITIONS[1]}],
    ids=str,
)
def test_runs_after_a_change_give_what_the_model_gives(
    settings: dict[str, str], how: tuple[str, ...], tmp_path: Path
) -> None:
    rng = random.Random(5)
    for number in range(3):
        engine = "blocks" if "partitioned.by" in settings else ENGINES[number % 2]
        work = tmp_path / str(number)
        work.mkdir()
        before, after = runs_of(rng)
        after = [row for row in after if how == OF_ROWS or row[2] != "T"]

        run(work, ("none", "first"), csv(before), engine, **FIRST, **settings)
        assert main(["order", str(work / "first"), *how, "-o", str(work / "run"), "-q", *_OPTIONS]) == 0
        assert [*tombstones_in(work / "run")] == []
        assert {file.name for file in known(work / "run").feed} == {"first.csv"}
        last = "run"
        for part, rows in enumerate(cut(rng, after)):
            run(work, (last, f"run{part}"), csv(rows, how[1]), engine)
            last = f"run{part}"

        output = work / last
        found = mutator.Dataset(output).to_arrow().to_pylist()
        buried = sorted((key[0].decode(), order_of(order, how)) for key, order, _ in tombstones_in(output))
        assert (sorted((row["id"], row["name"]) for row in found), buried) == model(before, after, how)
        assert local_engine.verify(str(output)).differences == ()


def run(work: Path, names: tuple[str, str], rows: str, engine: str, **settings: str) -> None:
    """Merge rows into a master. names: of the master, and of the output."""
    master, output = (work / name for name in names)
    feed = work / f"{names[1]}.csv"
    feed.write_text(rows)
    local_engine.mutate({**settings, **RUN}, master=master, feed=feed, output=output, engine=engine)


class Applied:
    """A table, ordered by ``at`` first."""

    def __init__(self, work: Path, more: dict[str, str]) -> None:
        work.mkdir(parents=True)
        settings = {**FIRST, "num.reducer": "2", **more, **NO_LIMITS}
        del settings["allow.empty.master"]
        self.work, self._number, self.order = work, 0, "at"
        self.table = Table.create(str(work / "table"), settings)

    def apply(self, rows: list[Row], order: str | None = None, name: str = "") -> Any:
        self._number += 1
        path = self.work / f"{name or self._number}.csv"
        order = order or self.order
        path.write_text(csv(rows, order))
        return Table(self.table.path).apply(str(path))

    def reorder(self, how: tuple[str, ...], **more: Any) -> Any:
        found = Table(self.table.path).reorder(how[1], order_keep=False if how == BESIDE else None, **more)
        self.order = how[1]
        return found

    def left(self, how: tuple[str, ...]) -> tuple[list[Any], list[Any]]:
        assert self.table.refresh().verify().problems == ()
        found = left_of(open_snapshot(self.table.path), {}, width=1)
        floor = open_snapshot(self.table.path).version.floor
        covered = -1000 if floor is None else order_of(floor.encode(), how)
        buried = [(key[0].decode(), order_of(order, how)) for key, order in found.tombstones]
        rows = sorted((row["id"], row["name"]) for row in found.rows)
        return rows, sorted(one for one in buried if one[1] > covered)


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("how", [OF_ROWS, BESIDE])
@pytest.mark.parametrize("more", PARTITIONS)
def test_versions_after_a_change_give_what_the_model_gives(
    more: dict[str, str], how: tuple[str, ...], tmp_path: Path
) -> None:
    rng = random.Random(9)
    for number in range(2):
        place = Applied(tmp_path / str(number), more)
        before, after = runs_of(rng)
        for rows in cut(rng, before):
            place.apply(rows)
        at_change = sorted(place.table.refresh().scan().to_arrow().to_pylist(), key=str)
        last = place.table.version

        dry = place.reorder(how, dry_run=True)
        assert (dry.dry_run, place.table.refresh().version) == (True, last)
        report = place.reorder(how)
        assert (report.rows, report.forgotten) == (dry.rows, dry.forgotten)
        assert sorted(place.table.refresh().scan().to_arrow().to_pylist(), key=str) == at_change
        assert place.table.changes(last).to_arrow().num_rows == 0
        for rows in cut(rng, after):
            place.apply(rows)
            place.table.refresh().compact(everything=True)

        assert place.left(how) == model(before, after, how)
        place.table.refresh().restore(last)
        place.order = "at"
        place.apply([("e", 50, "U", "x")])
        assert place.left(("--to", "at"))[0] == sorted({*model(before, [], ())[0], ("e", "x")})


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("phase", PHASES[:3])
def test_a_change_races_with_an_apply_and_a_compaction(
    phase: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit, "_PATIENCE", 0)
    rows = [("a", 5, "U", "x"), ("b", 6, "U", "x")]
    place = Applied(tmp_path / "apply", {})
    place.apply(rows)
    with at_phase(phase, partial(place.apply, [("a", 7, "U", "y"), ("c", 1, "U", "y")])):
        place.reorder(OF_ROWS)
    assert place.left(OF_ROWS) == ([("a", "y"), ("b", "x"), ("c", "y")], [])

    place = Applied(tmp_path / "compact", {})
    place.apply(rows)
    place.apply([("a", 7, "U", "y")])
    with at_phase(phase, partial(place.reorder, OF_ROWS)), pytest.raises(mutator.StateError):
        Table(place.table.path).compact(everything=True)
    place.apply([("a", -6, "U", "z"), ("b", -9, "U", "late")])
    assert place.left(OF_ROWS) == ([("a", "z"), ("b", "x")], [])

    place = Applied(tmp_path / "slow", {})
    place.apply(rows)
    with (
        at_phase(phase, partial(place.reorder, OF_ROWS)),
        pytest.raises(mutator.ConfigError, match=r"order is v \(long\)"),
    ):
        place.apply([("a", 7, "U", "y")], "at")
    assert place.left(OF_ROWS) == ([("a", "x"), ("b", "x")], [])


def test_tables_are_explained_since_the_change(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = Applied(tmp_path / "place", {})
    place.apply([("a", 5, "U", "x")])
    place.reorder(OF_ROWS)
    place.apply([("a", -9, "U", "late"), ("a", -5, "U", "y")])
    assert main(["explain", place.table.path, "a", "--feed", *map(str, place.work.glob("*.csv"))]) == 0
    text = capsys.readouterr().out
    assert "upsert, order value -5: updated" in text
    assert "versions before 2: the rows had another order" in text
    assert "order value 5" not in text
    place.table.refresh().restore(1)
    assert main(["explain", place.table.path, "a", "--feed", *map(str, place.work.glob("*.csv"))]) == 0
    text = capsys.readouterr().out
    assert "upsert, order value 5: inserted" in text
    assert "versions 2, 3: the rows had another order" in text
    place.table.refresh().restore(3)
    raised(["order", place.table.path, "--to", "v", "-D", "key=id"], "leave --config and -D out")
    assert main(["order", place.table.path, "--to", "at", "--runner", "local", "--dry-run", "-q"]) == 0
    raised(["order", place.table.path, "--to", "v", "-o", "out"], "gets a new version, and no other directory")
    for value in ("nothing", "name", "v,file.position", ""):
        with pytest.raises(mutator.MutatorError, match=r"nothing|record with the ID|no file\.position|has no field"):
            place.reorder(("--to", value))


@pytest.mark.parametrize("how", [("--to", "v"), ("--to", "v,at")])
def test_a_directory_is_explained_since_the_change(
    how: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for number, rows in enumerate(([("a", 5, "U", "x")], [("a", -9, "U", "late")])):
        Path(f"f_{number}.csv").write_text(csv(rows, "v" if number else "at"))
    local_engine.mutate({**FIRST, **RUN}, master=Path("none"), feed=Path("f_0.csv"), output=Path("m0"))
    assert main(["order", "m0", *how, "-o", "m1", "-q"]) == 0
    assert main(["run", "--master", "m1", "--feed", "f_1.csv", "--output", "m2", "-q"]) == 0

    def explained(*options: str) -> str:
        capsys.readouterr()
        assert main(["explain", "m2", "a", "--feed", "f_0.csv", "f_1.csv", *options]) == 0
        return capsys.readouterr().out

    assert "late (record > upsert)" in explained("--before", "m1")
    assert "what m0 held: the rows had another order: at (long)" in explained("--before", "m0").replace(
        f"{tmp_path}/", ""
    )
    assert "master.adopt" not in explained()
    assert "the rows had another order: at (long)" in explained()


class Base:
    """A base, ordered by ``at`` first, with records a and b, and a tombstone of c."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "incr").mkdir(parents=True)
        self.run([("a", 5, "U", "x"), ("b", 6, "U", "x"), ("c", 7, "D", "")], *self._settings(FIRST))

    def _settings(self, settings: dict[str, str]) -> list[str]:
        return [part for name, value in settings.items() for part in ("-D", f"{name}={value}")]

    def run(self, rows: list[Row], *options: str, order: str = "at") -> None:
        (self.path / "incr" / f"f_{len([*self.path.rglob('f_*')])}.csv").write_text(csv(rows, order))
        settings = self._settings({"claim.min.age": "0s", **NO_LIMITS})
        assert main(["workflow", "run", str(self.path), "-q", *settings, *options]) == 0

    @property
    def order(self) -> str:
        return str(known(self.path / "master").spec["order"]["field"])

    @property
    def rows(self) -> list[Any]:
        found = mutator.Dataset(self.path / "master").to_arrow().to_pylist()
        return sorted((row["id"], row["name"]) for row in found)


def test_a_base_gets_an_order_and_a_restore_brings_the_old_one_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = Base(tmp_path / "base")
    assert main(["order", str(base.path), "--to", "v", "--dry-run", "--json"]) == 0
    dry = json.loads(capsys.readouterr().out)
    assert (dry["rows"], dry["forgotten"], dry["dry_run"], base.order) == (2, 1, True, "at")
    assert dry["place"] == str(base.path)
    merge_again = partial(cures.new_base, open_base(str(base.path)), Log(str(base.path)))
    assert "merges them all again" in merge_again()[0]
    assert main(["order", str(base.path), "--to", "v"]) == 0
    assert "has another order as version 2: v (long) (before: at (long))" in capsys.readouterr().out
    assert merge_again() == []  # no one order is that of all feed files
    rows = [("a", -9, "U", "late"), ("b", -6, "U", "y"), ("c", -9, "U", "back")]
    base.run(rows, "-D", "changes=true", order="v")
    assert (base.order, base.rows) == ("v", [("a", "x"), ("b", "y"), ("c", "back")])
    assert main(["changes", str(base.path), "--from", "1"]) == 0  # a change of order changes no row
    assert [line.split(",")[1] for line in capsys.readouterr().out.splitlines()[1:]] == ["3"] * 3

    assert main(["explain", str(base.path), "b"]) == 0
    text = capsys.readouterr().out
    assert "upsert, order value -6: updated" in text
    assert "versions before 2: the rows had another order" in text
    assert main(["workflow", "restore", str(base.path), "--to", "1", "-q"]) == 0
    base.run([("a", 4, "U", "late"), ("b", 7, "U", "z"), ("c", 6, "U", "late")])
    assert (base.order, base.rows) == ("at", [("a", "x"), ("b", "z")])
    assert main(["explain", str(base.path), "b"]) == 0
    text = capsys.readouterr().out
    assert "upsert, order value 6: inserted" in text
    assert "upsert, order value 7: updated" in text
    assert "versions 2, 3: the rows had another order" in text
    assert main(["verify", str(base.path)]) == 0


POINTS = {
    "order.journaled": False,
    "verify.done": False,
    "commit.begin": False,
    "commit.done": True,
    "order.committed": True,
    "publish.passage": True,
    "publish.version.done": True,
}


@pytest.mark.processes
@pytest.mark.parametrize("point", POINTS)
def test_a_killed_change_is_undone_or_finished(point: str, tmp_path: Path) -> None:
    base = Base(tmp_path / "base")
    assert in_child(partial(main, ["order", str(base.path), "--to", "v", "-q"]), point)[0] == signal.SIGKILL
    order = "v" if POINTS[point] else "at"
    base.run([("a", -6 if order == "v" else 4, "U", "late"), ("d", 1, "U", "x")], order=order)

    assert (base.order, base.rows) == (order, [("a", "x"), ("b", "x"), ("d", "x")])
    assert [*(base.path / "output").iterdir()] == []
    assert main(["verify", str(base.path)]) == 0


def test_a_signal_after_the_commit_does_not_deny_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    base = Base(tmp_path / "base")
    for module, point, words in (
        (commands, "order.committed", [str(base.path)]),
        (publish, "publish.renamed", [str(base.path / "master"), "-o", str(tmp_path / "new")]),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(module, "failpoint", lambda name, at=point: name == at and signal.raise_signal(signal.SIGINT))
            assert main(["order", *words, "--to", "v" if module is commands else "at"]) == 0
        found = capsys.readouterr()
        assert "has another order" in found.out
        assert found.err.endswith("stopped from outside; the change of order was committed\n")
    assert (base.order, known(tmp_path / "new").spec["order"]["field"]) == ("v", "at")
    raised(["order", str(base.path), "--to", "v"], r"rows is v \(long\) already, and to give it to them again would")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--to", "v"), "--output is missing"),
        (("--to", "at", "-o", "out"), r"the order of its rows is at \(long\) already"),
        (
            ("--to", "name", "-o", "out"),
            "rows have no order value: .*row 2.* field name .* is not an integer.* --null lowest",
        ),
        (("--to", "other", "-o", "out"), "no input has a field other; they have .*feeds alone have it, set .*--beside"),
        (("--to", "v", "-o", "out", "--order-by", "at"), "--order-by is given twice"),
        (("--to", "", "-o", "out"), "the new order of .*master has no field; name those"),
        (("--to", "v,file.position", "-o", "out"), r"have no file\.position, .* the values of v beside it: leave file"),
        (("--to", "at", "--beside", "-o", "out"), "have the field at; without the setting, it is their order"),
    ],
)
def test_what_cannot_be_the_order(
    words: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("f.csv").write_text(csv([("a", 5, "U", "x")]))
    local_engine.mutate({**FIRST, **RUN}, master="none", feed="f.csv", output="master")
    raised(["order", "master", *words], message)
    assert not Path("out").exists()
    Path("plain").mkdir()
    raised(["order", "plain", "--to", "v", "-o", "out"], "no run of mutator has decided")
    raised(["order", "missing", "--to", "v", "-o", "out"], "missing: there is no such dataset")


def raised(words: list[str], message: str, call: Callable[[list[str]], int] = main) -> None:
    import contextlib
    import io
    import re

    with contextlib.redirect_stderr(io.StringIO()) as found:
        assert call(words) in (2, 3)
    assert re.search(message, found.getvalue()), found.getvalue()


def test_an_order_by_file_names_becomes_one_by_a_field(tmp_path: Path) -> None:
    (tmp_path / "f_7.csv").write_text(csv([("a", 5, "U", "x"), ("b", 6, "U", "x")]))
    settings = {name: value for name, value in FIRST.items() if name != "order_by"}
    places = {"master": tmp_path / "none", "feed": tmp_path / "f_7.csv", "output": tmp_path / "first"}
    local_engine.mutate({**settings, **RUN}, **places)
    assert main(["order", str(tmp_path / "first"), "--to", "at", "-o", str(tmp_path / "second"), "-q"]) == 0
    (tmp_path / "f_3.csv").write_text(csv([("a", 4, "U", "late"), ("b", 6, "U", "y")]))
    places = {"master": tmp_path / "second", "feed": tmp_path / "f_3.csv", "output": tmp_path / "third"}
    local_engine.mutate(RUN, **places)
    found = mutator.Dataset(tmp_path / "third").to_arrow().to_pylist()
    assert sorted((row["id"], row["name"]) for row in found) == [("a", "x"), ("b", "y")]


def test_file_names_say_which_files_are_later_as_before(tmp_path: Path) -> None:
    """Of two rows with one order value, that of the later file wins, here by the date and not by the last number."""
    pattern = {"sequence.pattern": "date"}
    run(tmp_path, ("none", "first_2026-01-01"), csv([("a", 5, "U", "x")]), "auto", **FIRST, **pattern)
    place = Applied(tmp_path / "place", pattern)
    place.apply([("a", 5, "U", "x")], "at", "2026-01-01")
    first, last = (str(tmp_path / name) for name in ("first_2026-01-01", "last"))
    assert main(["order", first, *OF_ROWS, "-o", last, "-q"]) == 0
    place.reorder(OF_ROWS)
    feed = tmp_path / "feed"
    feed.mkdir()
    for name, content in (("2026-01-02_9", "early"), ("2026-01-03_1", "late")):
        (feed / f"f_{name}.csv").write_text(csv([("a", 7, "U", content)], "v"))
    local_engine.mutate(RUN, master=last, feed=feed, output=tmp_path / "out")
    Table(place.table.path).apply(str(feed))

    for found in (mutator.Dataset(tmp_path / "out"), place.table.refresh().scan()):
        assert [row["name"] for row in found.to_arrow().to_pylist()] == ["late"]


def test_the_example_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    rows = "id,op,at,seen\n1,U,5,1\n2,U,5,2\n3,D,5,3\n"
    Path("feed.csv").write_text(rows)
    local_engine.mutate({**FIRST, **RUN}, master="none", feed="feed.csv", output="orders")
    example = (ROOT / "docs" / "formats.md").read_text().partition("$ mutator order ")[2].partition("```")[0]
    command, *lines = example.splitlines()
    assert main(["order", *command.split()]) == 0
    assert capsys.readouterr().out.splitlines()[:-1] == lines[:-1]


@pytest.mark.parametrize("place", ["orders", "table"])
def test_a_change_of_order_says_that_patches_that_waited_are_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    path, first = str(tmp_path / place), tmp_path / "first.csv"
    first.write_text("id,at,seen,name\na,1,1,lamp\nb,2,2,~\n")
    feed, rules = ["--feed", str(first)], ["--key", "id", "--order-by", "at", "-D", "unset.value=~"]
    if place == "table":
        assert main(["table", "create", path, *rules]) == main(["table", "apply", path, *feed]) == 0
    else:
        rules += ["--master", "none", "-D", "allow.empty.master=true"]
        assert main(["run", *feed, *rules, "--output", path]) == 0
    output = [] if place == "table" else ["-o", f"{path}_new"]
    capsys.readouterr()
    assert main(["order", path, "--to", "seen", *output]) == 0
    lost = "bring the records back, and patches of unknown records that waited there are lost"
    assert f"forgot 1 tombstone: rows that arrive late {lost}" in capsys.readouterr().out
