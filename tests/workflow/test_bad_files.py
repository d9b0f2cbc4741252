"""Feed files that cannot be merged are set aside, and the others beside them are merged."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mutator import config as configuration
from mutator.cli import main, workflow_runs
from mutator.config import parse
from mutator.engine.receipts import Receipts
from mutator.errors import MutatorError, error, parts
from mutator.plan.run_plan import Plan
from mutator.workflow import directory
from mutator.workflow.directory import claimed_feed
from mutator.workflow.directory.arrivals import arrivals
from mutator.workflow.directory.bad_files import Tried, blamed
from mutator.workflow.directory.claim import claim, give_back
from mutator.workflow.directory.master_target import Task
from mutator.workflow.directory.paths import Base
from mutator.workflow.directory.run_phases import Merged
from tests.support import local_engine
from tests.support.html_page import check
from tests.support.master_base import run_workflow, status_of
from tests.support.model_storage import ModelStorage, mounted
from tests.support.plain_workflow import BAD as BAD_CONTENT
from tests.support.plain_workflow import CONFIG as PLAIN
from tests.support.plain_workflow import FEEDS, GIVEN, merge, put, read
from tests.support.workflow_base import BY_FIELD
from tests.support.workflow_base import Place as TextPlace

HEAD = "id,at,name\n"
SETTINGS = ("-D", "claim.min.age=0s", "-D", "runner=local")
KEY = ("--key", "id", "--order-by", "at")
GOOD = "ups_1.csv"


def parquet(**columns: list[object]) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue().to_pybytes()


ROWS = f"{HEAD}{'2,2,b' * 3}\n".encode()
BAD = {  # name -> content, and the kind of its error
    "cut_2.csv.gz": (gzip.compress(ROWS * 99)[:-9], "damaged"),
    "plain_2.csv.gz": (ROWS, "compression"),
    "binary_2.csv": (bytes(range(256)) * 9, "binary"),
    "utf16_2.csv": (HEAD.encode("utf-16"), "encoding"),
    "narrow_2.csv": (b"id,name\n2,b\n", "schema.field"),
    "page_2.csv": (b"<html>no such file</html>\n", "markup"),
    "lines_2.csv": (b'{"id":2,"at":2}\n{"id":3,"at":2}\n', "format"),
    "wide_2.csv": (f"{HEAD}2,2,b,b\n".encode(), "rejects"),
    "soon [1]*_2.csv": (f"{HEAD}2,soon,b\n".encode(), "rejects"),
    "other_2.parquet": (parquet(id=[2], at=[2], name=["b"]), "format"),
    "broken_2.parquet": (parquet(id=[2], at=[2])[:-9], "damaged"),
}


class Place:
    """A base, and its commands."""

    def __init__(self, path: Path, target: str) -> None:
        self.path, self.settings = path, SETTINGS
        (path / "incr").mkdir(parents=True)
        if target == "table":
            assert main(["table", "create", str(path / "table"), *KEY, "--buckets", "2", "-q"]) == 0
        else:
            (path / "master").mkdir()
            (path / "master" / "part_0.csv").write_text(f"{HEAD}1,0,old\n7,0,old\n8,0,old\n")
            self.settings = (*KEY, *SETTINGS)

    def arrive(self, name: str, content: bytes | str) -> None:
        data = content if isinstance(content, bytes) else content.encode()
        (self.path / "incr" / name).write_bytes(data)

    def said(self, capsys: pytest.CaptureFixture[str], command: str, *words: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(["workflow", command, str(self.path), *self.settings, *map(str, words)])
        out, err = capsys.readouterr()
        return code, out, err

    def names(self, directory: str) -> set[str]:
        return {path.name for path in (self.path / directory).rglob("*") if path.is_file()}

    @property
    def failed(self) -> Path:
        """The directory of the one run that set files aside."""
        (directory,) = [path for path in (self.path / "failed").iterdir() if path.is_dir()]
        return directory


@pytest.fixture(params=["master", "table"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(tmp_path / "base", request.param)


def test_bad_files_are_set_aside_and_the_good_ones_merged(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.arrive(GOOD, f"{HEAD}1,1,a\n")
    place.arrive("ups_3.csv", f"{HEAD}3,3,c\n")
    for name, (content, _) in BAD.items():
        place.arrive(name, content)

    code, out, err = place.said(capsys, "run", "--json")

    assert code == 6, err
    outcome = json.loads(out)
    assert {one["name"] for one in outcome["failed_files"]} == set(BAD)
    for one in outcome["failed_files"]:
        assert re.fullmatch(BAD[one["name"]][1], one["kind"]), one
        assert f"failed/{outcome['run']}/{one['name']}" in one["why"]
        assert one["kind"] != "rejects" or one["why"].startswith("1 feed row cannot be read as a record: ")
    assert set(outcome["claimed"]) == {GOOD, "ups_3.csv", *BAD}
    assert outcome["report"]["counts"]["feed inserted"] == (1 if "table" not in outcome else 2)
    assert f"warning: {len(BAD)} feed files set aside, not merged: " in err
    assert place.names("archive") == {GOOD, "ups_3.csv"}
    assert {path.name: path.read_bytes() for path in place.failed.iterdir()} == {
        name: content for name, (content, _) in BAD.items()
    }
    assert place.names("incr") == set()
    assert place.said(capsys, "run")[0] == 0  # they are not claimed again
    code, out, _ = place.said(capsys, "status")
    assert code == 5
    assert out.count("problem: a feed file was set aside at ") == len(BAD)


@pytest.mark.parametrize("is_written", [False, True])
def test_only_a_write_takes_a_bad_file_back(
    is_written: bool, place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other bases have hard links of a shared file, and each rename of one changes its status."""
    place.arrive(GOOD, f"{HEAD}1,1,a\n")
    place.arrive("wide_2.csv", BAD["wide_2.csv"][0])

    def meanwhile(point: str) -> None:
        if point == "merge.bad":
            (claimed,) = place.path.glob("working/*/wide_2.csv")
            os.link(claimed, place.path / "link.csv")
            if is_written:
                claimed.write_bytes(claimed.read_bytes())

    monkeypatch.setattr(claimed_feed, "failpoint", meanwhile)
    code, _, err = place.said(capsys, "run")
    assert code == 6
    assert ("was rewritten" in err) == is_written
    assert place.names("incr") == ({"wide_2.csv"} if is_written else set())
    assert (len(place.names("failed")), is_written) in {(2, False), (1, True)}


HINTS = {  # another file with a fault, the hint that is of this file alone, and what is said of the other one
    "wide_2.csv": ("2,2,b,b", "day_2.csv", "In the first 2 rows of day_2.csv, 2 of 2 order values", "should have 3"),
    "spark_2.csv": ('2,2,"a \\"b\\" c"', "spark_2.csv", "If spark_2.csv has a backslash before quotes", ""),
}


@pytest.mark.parametrize("name", HINTS)
def test_a_hint_on_one_file_is_not_the_reason_of_another(
    name: str, place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    row, hinted, hint, said = HINTS[name]
    place.arrive(GOOD, f"{HEAD}1,1,a\n")
    place.arrive("day_2.csv", f"{HEAD}2,31.01.2026,b\n3,01.02.2026,b\n")
    place.arrive(name, f"{HEAD}{row}\n")

    why = {one["name"]: one["why"] for one in json.loads(place.said(capsys, "run", "--json")[1])["failed_files"]}
    other = why["day_2.csv" if hinted == name else name]

    assert hint in why[hinted]
    assert hinted not in other
    assert said in other


def test_status_history_report_and_metrics_show_what_was_set_aside(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = Place(tmp_path / "base", "master")
    place.arrive(GOOD, f"{HEAD}1,1,a\n")
    place.arrive("ups_2.csv", BAD["utf16_2.csv"][0])

    code, out, _ = place.said(capsys, "run", "--metrics", tmp_path / "run.prom")

    assert (code, f"set aside: {place.failed}/ups_2.csv: is UTF-16 text" in out) == (6, True)
    measured = (tmp_path / "run.prom").read_text()
    assert re.search(r"mutator_exit_code\{.*\} 6.0\n", measured)
    assert re.search(r"mutator_success\{.*\} 1.0\n", measured)
    assert re.search(r"mutator_set_aside_files\{.*\} 1.0\n", measured)
    assert " 1 (+1 set aside) " in place.said(capsys, "history")[1]
    text = f"{place.failed}/ups_2.csv: is UTF-16 text; set "
    code, out, _ = place.said(capsys, "status")
    assert (code, "failed   1 file set aside, see below\n" in out, text in out) == (5, True, True)
    page = tmp_path / "page.html"
    code, out, _ = place.said(capsys, "report", "--html", page)
    assert (code, f"set aside: {place.failed}/ups_2.csv: {text}" in out) == (0, True)
    assert "set aside: " in check(page.read_text()).text


def test_a_file_that_was_set_aside_is_merged_when_it_is_back_or_delivered_again(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("ups_2.csv", "ups_3.csv"):
        place.arrive(name.replace("ups", "good"), f"{HEAD}1,1,a\n")
        place.arrive(name, f"{HEAD}4,soon,d\n")
        assert place.said(capsys, "run")[0] == 6
        if name == "ups_2.csv":  # it is corrected, and moved back as the status says
            _, out, _ = place.said(capsys, "status")
            assert f" move it to {place.path}/incr/ again; " in out
            (place.failed / name).write_text(f"{HEAD}4,4,d\n")
            shutil.move(place.failed / name, place.path / "incr" / name)
        else:
            place.arrive(name, f"{HEAD}5,5,e\n")

        assert place.said(capsys, "run")[0] == 0

        code, out, _ = place.said(capsys, "status")
        assert (code, "problem" in out) == (0, False)
        if name == "ups_2.csv":
            assert not any((place.path / "failed").iterdir())
        else:
            assert f"remove it: {place.failed}/{name}" in out


def test_no_file_is_set_aside_where_no_other_is_merged(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.arrive("ups_1.csv", f"{HEAD}4,soon,d\n")
    place.arrive("ups_2.csv", BAD["utf16_2.csv"][0])

    code, _, err = place.said(capsys, "run")

    assert code == 3
    assert f"{place.path}/incr/ups_" in err
    assert place.names("incr") == {"ups_1.csv", "ups_2.csv"}
    assert not (place.path / "failed").exists()
    assert place.said(capsys, "status")[0] == 5


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ({"bad.files": "fail"}, "rejects"),
        ({"sync.mode": "full", "allow.older.snapshot": "true"}, "rejects"),
        ({"write.operation": "insert_overwrite_table"}, "rejects"),
        ({"max.delete.fraction": "0.1"}, "deletes"),
        ({"reject.policy": "quarantine", "reject.limit": "0"}, "rejects"),
        ({"late.files": "fail", "temporal.ordering.field.ordinal": None, "field.count": "3"}, "rejects"),
        ({"sequence.gaps": "fail"}, "rejects"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else value,
)
def test_what_sets_nothing_aside(tmp_path: Path, settings: dict[str, str | None], kind: str) -> None:
    given = {"id.field.ordinals": "0", "temporal.ordering.field.ordinal": "1", "claim.min.age": "0s"} | settings
    if kind == "deletes":
        given |= {"op.code.field.ordinal": "2", "op.code.in.master": "false"}
    text = TextPlace(tmp_path / "base", {name: value for name, value in given.items() if value is not None})
    (text.path / "master" / "part_0.txt").write_text("1,0,U\n2,0,U\n".replace(",U", "" if kind == "deletes" else ",U"))
    text.arrive("a_1.txt", "1,1,D")
    text.arrive("b_1.txt", "2,soon,U" if settings.get("late.files") is None else "2,2")

    with pytest.raises(MutatorError) as caught:
        text.run()

    assert caught.value.kind == kind
    assert text.names("incr") == ["a_1.txt", "b_1.txt"]
    assert not (text.path / "failed").exists()


def test_control_files_and_ready_markers_go_with_their_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where the name of one file begins with that of another."""
    place = Place(tmp_path / "base", "master")
    place.settings += ("-D", "feed.control.suffix=.ctl", "-D", "claim.ready.suffix=.ready", "-D", "field.count=3")
    for name, content in {"ups_1.csv": f"{HEAD}1,1,a\n", "ups_1.csv.x_2.csv": f"{HEAD}4,soon,d\n"}.items():
        place.arrive(name, content)
        place.arrive(f"{name}.ctl", "1")
        place.arrive(f"{name}.ready", "")

    assert place.said(capsys, "run")[0] == 6

    bad = "ups_1.csv.x_2.csv"
    assert {path.name for path in place.failed.iterdir()} == {bad, f"{bad}.ctl", f"{bad}.ready"}
    assert place.names("archive") == {"ups_1.csv", "ups_1.csv.ctl"}
    (place.failed / bad).write_text(f"{HEAD}4,4,d\n")
    for path in list(place.failed.iterdir()):
        path.rename(place.path / "incr" / path.name)
    assert place.said(capsys, "run")[0] == 0
    assert place.said(capsys, "status")[0] == 0


def test_a_marker_goes_back_with_its_own_file(tmp_path: Path) -> None:
    """Also where a file whose name it begins with goes to another directory."""
    base = Base(str(tmp_path))
    config = parse({"key": 0, "claim.ready.suffix": ".ready"})
    first, second = "ups_1.csv", "ups_1.csv.x_2.csv"
    (tmp_path / "incr").mkdir()
    for name in (first, second):
        (tmp_path / "incr" / name).write_text("1")
        (tmp_path / "incr" / f"{name}.ready").touch()
    claim(base, "run", arrivals(base, config, ()))
    (tmp_path / "incr" / first).write_text("a newer one")

    give_back(base, "run")

    aside = tmp_path / "incr" / ".returned-run"
    assert {path.name for path in aside.iterdir()} == {first, f"{first}.ready"}
    assert {path.name for path in (tmp_path / "incr").iterdir()} == {first, second, f"{second}.ready", aside.name}
    assert not (tmp_path / "working" / "run").exists()


@pytest.mark.parametrize("good", ["a_3.csv", "z_3.csv"])
def test_a_file_of_another_format_than_the_master_is_at_fault(
    good: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = Place(tmp_path / "base", "master")
    place.arrive(good, f"{HEAD}1,1,a\n")
    place.arrive("other_2.parquet", BAD["other_2.parquet"][0])

    assert place.said(capsys, "run")[0] == 6

    assert place.names("archive") == {good}


def test_watch_goes_on_after_a_bad_file(
    place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bad file alone is tried once; when another one arrives, that is merged, and the bad one set aside."""
    place.arrive("ups_2.csv", f"{HEAD}4,soon,d\n")
    slept = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 4:
            place.arrive("ups_3.csv", f"{HEAD}3,3,c\n")
        assert len(slept) < 40, "it does not merge the file"

    # Not that of the module `time`, in which threads of a Spark session in this process sleep as well.
    monkeypatch.setattr(workflow_runs, "time", SimpleNamespace(sleep=sleep))

    code, out, err = place.said(capsys, "watch", "--interval", "0.5", "--runs", "1")

    assert code == 6, err
    assert err.count("error: 1 feed row cannot be read as a record") == 1
    assert "goes on when other feed files have arrived" in err
    assert f"set aside: 1 feed row cannot be read as a record: {place.failed}/ups_2.csv" in out
    assert len(slept) >= 4, "it tried the bad file again without a pause"
    assert place.names("archive") == {"ups_3.csv"}


def test_watch_tries_a_file_again_when_its_table_is_restored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not when another writer adds a version."""
    place, slept = Place(tmp_path / "base", "table"), []
    table = str(place.path / "table")
    place.arrive(GOOD, f"{HEAD}1,1,a\n")
    assert place.said(capsys, "run")[0] == 0
    place.arrive("ups_2.csv", f"{HEAD}4,soon,d\n")
    (tmp_path / "other.csv").write_text(f"{HEAD}7,1,x\n")

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            assert (
                main(["table", "apply", table, "--feed", str(tmp_path / "other.csv"), "-q", "--runner", "local"]) == 0
            )
        if len(slept) == 6:
            assert main(["table", "restore", table, "--to", "1", "-q"]) == 0
        if len(slept) == 9:
            place.arrive("ups_3.csv", f"{HEAD}3,3,c\n")
        assert len(slept) < 40, "it does not merge the file"

    monkeypatch.setattr(workflow_runs, "time", SimpleNamespace(sleep=sleep))

    assert place.said(capsys, "watch", "--interval", "0.5", "--runs", "1")[2].count("error: 1 feed row cannot be") == 2


@pytest.mark.parametrize("change", ["none", "file", "version"])
def test_a_run_that_could_merge_nothing_is_tried_again_when_anything_is_different(tmp_path: Path, change: str) -> None:
    text, tried = TextPlace(tmp_path / "base", BY_FIELD | {"op.code.in.master": "true"}), Tried()
    (text.path / "master" / "part_0.txt").write_text("1,0,U\n")
    config = configuration.parse(text.settings)
    run = partial(run_workflow, str(text.path), config, directory.merge_by(config, local_engine.merge), tried=tried)
    for number in (1, 2):
        text.arrive(f"ups_{number}.txt", f"1,{number},U")
        run()
    text.arrive("ups_3.txt", "2,soon,U")
    for _ in range(2):
        with suppress(MutatorError):
            run()
    assert tried.again

    if change == "file":
        text.arrive("ups_4.txt", "3,soon,U")
    elif change == "version":
        directory.restore(str(text.path), 1, config)
    with suppress(MutatorError):
        run()

    assert tried.again == (change == "none")


def test_a_run_names_the_number_of_files_after_which_it_looks_no_further(
    place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place.arrive("ups_1.csv", f"{HEAD}4,2,d\n")
    names = [f"ups_{number}.csv" for number in range(2, 5)]
    for name in names:
        place.arrive(name, BAD["page_2.csv"][0])
    monkeypatch.setattr("mutator.workflow.directory.bad_files.TRIES", 2)
    code, _, err = place.said(capsys, "run")
    assert (code, place.names("incr")) == (3, {"ups_1.csv", *names})
    assert f"{place.path}/incr: 2 of the feed files cannot be merged" in err
    assert f"The first: {place.path}/incr/ups_2.csv: " in err


def test_rejects_of_many_files_cost_one_more_merge(tmp_path: Path) -> None:
    text, merges = TextPlace(tmp_path / "base", BY_FIELD | {"op.code.in.master": "true"}), []
    (text.path / "master" / "part_0.txt").write_text("1,0,U\n")
    text.arrive("ups_0.txt", "1,1,U")
    for number in range(1, 30):
        text.arrive(f"ups_{number}.txt", *["2,soon,U"] * 9)
    config = configuration.parse(text.settings)

    def merge_on(plan: Plan, staging: str | None) -> Receipts:
        merges.append(plan)
        return local_engine.merge(plan, staging)

    done = run_workflow(str(text.path), config, directory.merge_by(config, merge_on))

    assert (done.version, len(done.failed_files), len(merges)) == (1, 29, 2)
    assert all(f"/{one.name}: line 1, byte 0: field 1 (order value)" in one.why for one in done.failed_files)


def test_on_s3_a_file_is_claimed_again_when_it_is_rewritten_or_its_note_removed() -> None:
    storage = ModelStorage("s3")
    with mounted(storage) as path:
        put(f"{path}/master/given.txt", GIVEN)
        for name in ("ups_1.txt", "ups_3.txt"):
            put(f"{path}/incr/{name}", FEEDS[name])
            put(f"{path}/incr/bad_{name}", BAD_CONTENT)
            assert len(run_workflow(path, PLAIN, merge).failed_files) == 1
        status = status_of(path, PLAIN)
        assert (status.ready, len(status.problems)) == ((), 2)
        (note,) = [f"{path}/failed/{one.run}.json" for one in status.failed_files if one.name == "bad_ups_3.txt"]
        assert f" remove {note}; to give it up, remove it" in " ".join(status.problems)

        storage.remove(f"{path}/incr/bad_ups_1.txt")
        put(f"{path}/incr/bad_ups_1.txt", b"q,9\n")
        storage.remove(note)

        status = status_of(path, PLAIN)
        assert (status.ready, status.problems) == (("bad_ups_1.txt", "bad_ups_3.txt"), ())
        assert [entry.path for entry in storage.entries(f"{path}/failed")] == []
        assert [one.name for one in run_workflow(path, PLAIN, merge).failed_files] == ["bad_ups_3.txt"]


def test_on_s3_a_file_is_claimed_again_when_its_control_file_is_rewritten() -> None:
    def checked(task: Task) -> Merged:
        for path in task.feed:
            if read(f"{path}.ctl") != b"rows=2":
                raise error("control.differs", what=f"{parts.place(path)}: its control file is another one's")
        return merge(task)

    storage, config = ModelStorage("s3"), replace(PLAIN, inputs=replace(PLAIN.inputs, control_suffix=".ctl"))
    with mounted(storage) as path:
        put(f"{path}/master/given.txt", GIVEN)
        for name, rows in (("ups_1.txt", b"rows=2"), ("ups_3.txt", b"rows=3")):
            put(f"{path}/incr/{name}", FEEDS[name])
            put(f"{path}/incr/{name}.ctl", rows)
        assert [one.name for one in run_workflow(path, config, checked).failed_files] == ["ups_3.txt"]
        status = status_of(path, config)
        assert (status.ready, status.waiting, len(status.problems)) == ((), (), 1)

        storage.remove(f"{path}/incr/ups_3.txt.ctl")
        assert run_workflow(path, config, checked).claimed == ()
        put(f"{path}/incr/ups_3.txt.ctl", b"rows=2")

        assert run_workflow(path, config, checked).claimed == ("ups_3.txt",)
        status = status_of(path, config)
        assert (status.ready, status.waiting, status.problems) == ((), (), ())


def test_an_error_is_the_fault_of_the_files_it_names() -> None:
    config = parse({"key": 0})
    names = ["ups_1", "ups_1.txt", "ups_2.txt", "a: b.txt"]

    def of(kind: str, **fields: str) -> list[str]:
        return list(blamed(error(kind, **fields), "in", names, config.inputs, config.limits))

    assert of("damaged", path="in/ups_1.txt", why="in/ups_2.txt: no") == ["ups_1.txt"]
    assert of("damaged", path="in/ups_1", why="x") == ["ups_1"]
    assert of("damaged", path="in/a: b.txt", why="x") == ["a: b.txt"]
    assert of("damaged", path="other/ups_1.txt", why="x") == []
    assert of("changed.content", path="in/ups_1.txt") == []
    shown = [parts.place(path) for path in ("in/ups_2.txt", "in/ups_1")]
    rows = f"  {shown[0]}: line 1, byte 0: it has in/ups_1.txt: x\n  {shown[1]}: line 1, byte 0: x"
    assert of("rejects", what="2 feed rows", rows=rows, cure="x") == ["ups_2.txt", "ups_1"]
    types = {"field": "x", "one": "a", "other_type": "b", "why": "x"}
    assert of("schema.type", path="m/part", other_path="in/ups_2.txt", **types) == ["ups_2.txt"]
    controls = configuration.parse({"id.field.ordinals": "0", "feed.control.suffix": ".ctl"})
    unusable = error("control.unusable", path="in/ups_2.txt.ctl", why="x")
    assert list(blamed(unusable, "in", names, controls.inputs, controls.limits)) == ["ups_2.txt"]
    quarantine = configuration.parse({"id.field.ordinals": "0", "reject.policy": "quarantine"})
    assert (
        blamed(error("rejects", what="2 rows", rows=rows, cure="x"), "in", names, quarantine.inputs, quarantine.limits)
        == {}
    )


def test_run_many_names_the_tables_with_bad_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = Place(tmp_path / "base", "master")
    place.arrive(GOOD, f"{HEAD}1,1,a\n")
    place.arrive("ups_2.csv", f"{HEAD}4,soon,d\n")
    tables = tmp_path / "tables.toml"
    settings = ["id.field.ordinals = 'id'", "temporal.ordering.field.ordinal = 'at'", "runner = 'local'"]
    lines = ["[tables.one]", f"base = '{place.path}'", "[tables.one.settings]", *settings]
    tables.write_text("\n".join(lines))
    capsys.readouterr()

    code = main(["run-many", str(tables), "-D", "claim.min.age=0s"])

    out, err = capsys.readouterr()
    assert code == 6, err
    assert re.search(r"^one +done .* 1 feed file set aside$", out, re.MULTILINE)
    assert "warning: one: 1 feed file set aside, not merged: ups_2.csv" in err


@pytest.mark.thorough(keep=6)
@pytest.mark.parametrize(
    ("types", "known", "bad"),
    [
        ("isiii", True, {"ups_2.parquet"}),
        ("siiii", True, {"ups_1.parquet"}),
        ("iiiis", True, {"ups_5.parquet"}),
        ("sisii", True, {"ups_1.parquet", "ups_3.parquet"}),
        ("isiii", False, {"ups_2.parquet"}),
        ("iiiis", False, set()),  # the odd one gives the field its type
        ("issii", False, {"ups_2.parquet", "ups_3.parquet"}),
        ("iissi", False, {"ups_3.parquet", "ups_4.parquet"}),
        ("is", False, set()),
    ],
)
def test_the_file_whose_field_has_another_type_than_in_the_others_is_at_fault(
    place: Place, capsys: pytest.CaptureFixture[str], types: str, known: bool, bad: set[str]
) -> None:
    """Not those beside it, which the master, or else most files, agree with. known: the master has the field."""
    if (place.path / "master").exists():
        (place.path / "master" / "part_0.csv").unlink()
        place.settings += ("-D", "allow.empty.master=true")
    if known:
        place.arrive("base_0.parquet", parquet(id=["7"], at=[0], value=[1]))
        assert place.said(capsys, "run")[0] == 0
    for number, one in enumerate(types, 1):
        value: list[object] = [1] if one == "i" else ["x"]
        place.arrive(f"ups_{number}.parquet", parquet(id=[str(number)], at=[number], value=value))

    code, _, err = place.said(capsys, "run")

    assert ({path.name for path in (place.path / "failed").rglob("*.parquet")}, code) == (bad, 6 if bad else 3), err


@pytest.mark.parametrize(("widths", "bad"), [("32222", set()), ("22232", {"ups_4.txt"}), ("23", set())])
def test_the_first_file_is_no_measure_for_the_others_where_most_differ(
    tmp_path: Path, widths: str, bad: set[str]
) -> None:
    """In a first run without a master, rows have as many fields as the first one."""
    text = TextPlace(tmp_path / "base", {"id.field.ordinals": "0", "claim.min.age": "0s", "allow.empty.master": "true"})
    for number, width in enumerate(widths, 1):
        text.arrive(f"ups_{number}.txt", ",".join([str(number)] * int(width)))

    with suppress(MutatorError):
        text.run()

    assert {path.name for path in (text.path / "failed").rglob("*.txt")} == bad
    assert len(text.names("incr")) == (0 if bad else len(widths))


def test_the_reason_has_the_paths_that_the_files_have_now(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    if (place.path / "master").exists():
        (place.path / "master" / "part_0.csv").unlink()
        place.settings += ("-D", "allow.empty.master=true")
    for name, value in (("ups_1", "x"), ("ups_2", 1), ("ups_3", 1)):
        place.arrive(f"{name}.parquet", parquet(id=[name], at=[1], value=[value]))

    code, out, _ = place.said(capsys, "run", "--json")

    (failed,) = json.loads(out)["failed_files"]
    paths = re.findall(rf"{re.escape(str(place.path))}/\S+\.parquet", failed["why"])
    assert (code, len(paths), [Path(path).exists() for path in paths]) == (6, 2, [True, True])
