"""The page of a merge: it has every number, escapes every value, stays small, and says what it leaves out."""

from __future__ import annotations

import contextlib
import re
import shutil
import sys
from dataclasses import replace

import pyarrow as pa
import pytest

import mutator
from mutator.cli import main
from mutator.errors.quick_dataclass import dataclass
from mutator.pipeline.reports.pictures import flow_of
from mutator.pipeline.reports.printed import PageReport
from mutator.pipeline.reports.sections import FactsBlock, ReportSection, TableBlock, cut
from mutator.rules.truth_table import FEED_OUTCOMES, MASTER_OUTCOMES
from tests.support.cluster import SAMPLE
from tests.support.html_page import check

MERGE = {"key": [0], "order_by": 1, "delimiter": ",", "field_count": 3, "max_delete_fraction": 1}
SCRIPT = "<script>alert(1)</script>"


def write(directory, **files):
    directory.mkdir()
    for name, content in files.items():
        (directory / f"{name}.txt").write_bytes(content if isinstance(content, bytes) else content.encode())
    return directory


@pytest.fixture
def master(tmp_path):
    return write(tmp_path / "master", m0="a,5,x\nb,5,x\nc,5,x\n", m1="d,5,x\ne,5,x\n")


def test_every_outcome_and_every_sum_is_on_the_page(tmp_path, master):
    feed = write(tmp_path / "feed", ups="a,6,y\nb,5,x\nc,4,late\nf,1,new\nf,2,new\nbad\n", del_1="d,9,x\nnobody,9,x\n")
    settings = {"deleted_record_file_prefix": "del", "reject_policy": "quarantine"}

    report = mutator.merge(master=master, feed=feed, **MERGE, **settings)
    page = check(report.html())

    for name in ("inserted", "updated", "deleted", "no-op", "superseded", "late", "delete of unknown", "rejected"):
        assert f"1 {name}" in page.text
    assert "8 feed rows = 1 inserted + 1 updated + 1 deleted + 1 no-op + 1 superseded + 1 late" in page.text
    assert "5 master rows before = 3 kept + 1 replaced + 1 removed" in page.text
    assert "5 rows of the result = 3 kept + 1 updated + 1 inserted" in page.text
    assert "2 remembered deletes (tombstones) = 1 deleted + 1 deletes of unknown" in page.text
    assert "order values are 4 to 4" in page.text.replace("  ", " ")
    assert "1 late row changes nothing, because" in page.text
    assert "has 1 field and should have 3" in page.text
    assert "which overlap and are timed as one" in page.text
    for step in report.steps:
        assert step in page.text
    assert report.reason in page.text
    names = "rows inserted updated deleted no-op superseded late delete of unknown rejected ignored size"
    assert f"file {names}" in page.text
    assert "del_1.txt 2 0 0 1 0 0 0 1 0 0 " in page.text
    assert "ups.txt 6 1 1 0 1 1 1 0 1 0 " in page.text
    assert "all files 8 1 1 1 1 1 1 1 1 0 " in page.text


def test_values_are_escaped_wherever_they_are(tmp_path):
    name = "<img src=x onerror=alert(1)>"
    place = tmp_path / name.replace("/", "")
    place.mkdir()
    master = write(place / "master", m=f"{SCRIPT},5,x\n")
    feed = write(place / "feed", ups=f"{SCRIPT},5,{SCRIPT}\n{SCRIPT}\n\x1b[2J\n")

    html = mutator.merge(master=master, feed=feed, **MERGE, reject_policy="quarantine", max_reject_fraction=1).html()
    page = check(html)

    assert SCRIPT in page.text  # as text: the tied key and the rejected row
    assert name in page.text
    assert "\\x1b [2J" in page.text


def test_bytes_that_are_no_text_are_marked(tmp_path, master):
    feed = write(tmp_path / "feed", ups=b"caf\xe9,\\xe9\n")

    html = mutator.merge(master=master, feed=feed, **MERGE, reject_policy="quarantine", max_reject_fraction=1).html()

    assert 'caf<b class="byte">\\xe9</b>,\\xe9</td>' in html
    check(html)


def test_long_rows_and_wide_rows_leave_the_page_small(tmp_path, master):
    wide = ",".join(["w" * 50] * 3000)
    feed = write(tmp_path / "feed", ups=f"{'k' * (1 << 16)},{'v' * (1 << 16)}\n{wide}\n" * 20)

    report = mutator.merge(master=master, feed=feed, **MERGE, reject_policy="quarantine", max_reject_fraction=1)
    html = report.html()

    assert len(html) < 100_000
    assert "more bytes)" in check(html).text


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("rows", [2_000, 50_000, pytest.param(1_000_000, marks=pytest.mark.soak)])
def test_many_rejects_leave_the_page_small(tmp_path, master, rows):
    feed = write(tmp_path / "feed", ups=b"too,short\n" * rows)
    limits = {"reject_policy": "quarantine", "max_reject_fraction": 1, "reject_limit": rows}

    report = mutator.merge(master=master, feed=feed, output=tmp_path / "out", **MERGE, **limits)
    html = report.html()

    text = check(html).text
    assert len(html) < 100_000
    assert f"The first 50 of {rows:,}" in text
    assert f"All rejected rows: {report.rejected_file}" in text.replace("  ", " ")


def test_many_files_and_partitions_are_cut_and_counted(tmp_path):
    master = write(tmp_path / "master", m="".join(f"{number},5,{number}\n" for number in range(130)))
    feed = write(tmp_path / "feed", **{f"ups_{number}": f"{number},6,{number}\n" for number in range(110)})

    first = mutator.merge(master=master, feed=feed, output=tmp_path / "out", **MERGE, partitioned_by=["2"])
    text = check(first.html()).text

    assert "10 of 110 feed files are left out" in text
    assert "30 of 130 partitions are left out: those with the fewest changes" in text


def test_a_dry_run_says_so(tmp_path, master):
    page = tmp_path / "page.html"
    feed = write(tmp_path / "feed", ups="a,6,y\n")
    words = ["--key", "0", "--order-by", "1", "--master", master, "--feed", feed, "--output", tmp_path / "out"]

    assert main(["run", *map(str, words), "--dry-run", "--html", str(page)]) == 0

    text = check(page.read_text()).text
    assert "Dry run: nothing was written." in text
    assert "rows would be" in text
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("width", [330, 900])
def test_each_outcome_has_a_segment_as_high_as_a_line(width):
    counts = {f"feed {name}": 10**number for number, name in enumerate(FEED_OUTCOMES)}
    counts |= {f"master {name}": 1 for name in MASTER_OUTCOMES}
    counts |= {"feed rows": sum(10**number for number in range(8)), "master rows": 6, "output rows": 12}

    flow = flow_of(counts, "new master", width)

    for bar, names in ((flow.feed, FEED_OUTCOMES), (flow.master, MASTER_OUTCOMES)):
        assert {one.name for one in bar.segments} == set(names)
        assert all(one.height >= 20 for one in bar.segments)
        tops = [one.top for one in bar.segments]
        assert tops == sorted(tops)
        assert bar.segments[-1].top + bar.segments[-1].height <= flow.height
    assert [ribbon.name for ribbon in flow.ribbons] == ["inserted", "updated", "kept"]


def test_a_merge_of_nothing_has_a_picture():
    flow = flow_of({}, "new master", 900)

    assert flow.feed.segments == flow.master.segments == flow.ribbons == ()


def test_a_section_is_written_once_for_text_and_page():
    @dataclass(frozen=True)
    class Shops(PageReport):
        rows: tuple[tuple[str, str], ...]

        def sections(self):
            table = TableBlock([("shop", "path"), ("rows", "n")], [cut(self.rows, 2, "shop")])
            return (
                ReportSection("Last in the page", [FactsBlock([("feed", ("a", "b"))])], rank=1),
                ReportSection("Shops", [table], name="shops"),
            )

        def head(self):
            return "Shops", ["Two of them."], [("3", "shops")]

    report = Shops((("Cork", "12"), ("<Lyon>", "3"), ("Porto", "4")))
    page = check(report.html()).text

    assert report.text().split("\n") == ["  feed  a", "  feed  b", "shop    rows", "Cork      12", "<Lyon>     3"]
    assert "Two of them. 3 shops Shops shop rows Cork 12 <Lyon> 3 1 of 3 shops is left out. Last" in page
    assert "Last in the page feed a feed b" in page


def test_what_is_left_out_is_counted():
    assert cut(range(5), 5, "row").left_out == ""
    assert cut(range(7), 5, "row", "the last ones").left_out == "2 of 7 rows are left out: the last ones"
    assert list(cut(range(7), 5, "row")) == [0, 1, 2, 3, 4]
    assert not cut([], 5, "row")


def run(tmp_path, page, *more, output="out"):
    words = ["--config", SAMPLE / "bumu.properties", "--master", SAMPLE / "master", "--feed", SAMPLE / "feed"]
    return main(["run", *map(str, [*words, "--output", tmp_path / output, "--html", page, *more])])


def test_a_page_that_cannot_be_written_is_a_warning(tmp_path, capsys):
    (tmp_path / "file").write_text("")

    assert run(tmp_path, tmp_path / "file" / "page.html") == 0

    out, err = capsys.readouterr()
    assert "wrote 1,000 rows" in out
    assert "warning: the merge is complete, but its report was not written: " in err
    assert main(["verify", str(tmp_path / "out")]) == 0


def test_a_bug_of_the_page_is_a_warning(tmp_path, capsys, monkeypatch):
    def broken(*_):
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("mutator.pipeline.reports.page.page_of", broken)

    assert run(tmp_path, tmp_path / "page.html") == 0
    assert "not written: " in capsys.readouterr().err
    assert not (tmp_path / "page.html").exists()


def test_a_page_without_its_library_is_refused_before_the_merge(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)

    assert run(tmp_path, tmp_path / "page.html") == 2

    assert "--html needs Jinja2, which is not installed: pip install -e '.[report]'" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("place", ["out/page.html", "feed/page.html", "master/page.html"])
def test_a_page_among_the_data_is_refused(tmp_path, master, capsys, place):
    feed = write(tmp_path / "feed", ups="a,6,y\n")
    words = ["--key", "0", "--order-by", "1", "--master", master, "--feed", feed, "--output", tmp_path / "out"]

    assert main(["run", *map(str, words), "--html", str(tmp_path / place)]) == 2

    assert "name a path outside of that directory" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.thorough(keep=3)
@pytest.mark.parametrize("option", ["--html", "--metrics", "--lineage"])
@pytest.mark.parametrize("place", ["feed/ups_1.csv", "feed/new.csv", "run.toml"])
def test_no_file_replaces_what_the_run_reads(tmp_path, capsys, option, place):
    (tmp_path / "feed").mkdir()
    (tmp_path / "feed" / "ups_1.csv").write_text("id,ts\na,6\n")
    (tmp_path / "run.toml").write_text('key = "id"\norder_by = "ts"\n')
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    words = ["--config", "run.toml", "--master", "master", "--feed", "feed/*.csv", "--output", "out"]

    with contextlib.chdir(tmp_path):
        assert main(["run", *words, "-D", "allow.empty.master=true", option, place]) == 2

    assert "name another path for one of them" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_page_may_be_beside_a_feed_that_a_pattern_names(tmp_path):
    (tmp_path / "ups_1.csv").write_text("id,ts\na,6\n")
    words = ["--key", "id", "--order-by", "ts", "--master", "master", "--feed", "*.csv", "--output", "out"]

    with contextlib.chdir(tmp_path):
        assert main(["run", *words, "-D", "allow.empty.master=true", "--html", "page.html"]) == 0

    assert (tmp_path / "page.html").exists()


def test_two_reports_have_two_files(tmp_path, capsys):
    words = ["--master", tmp_path / "master", "--feed", tmp_path / "feed", "--output", tmp_path / "out"]

    assert main(["run", *map(str, words), *(["--html", "a", "--metrics", "a"])]) == 2

    assert "report and file of metrics must have different paths" in capsys.readouterr().err


def test_a_page_replaces_the_one_before(tmp_path):
    page = tmp_path / "page.html"

    assert run(tmp_path, page) == 0
    first = page.read_text()
    assert run(tmp_path, page, output="again") == 0

    assert page.read_text() != first
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again", "out", "page.html"]


def test_a_workflow_writes_the_page_of_its_merge(tmp_path):
    base, page = tmp_path / "base", tmp_path / "page.html"
    shutil.copytree(SAMPLE / "master", base / "master")
    shutil.copytree(SAMPLE / "feed", base / "incr")
    words = ["workflow", "run", base, "--config", SAMPLE / "bumu.properties", "-D", "claim.min.age=0s", "--html", page]

    assert main([*map(str, words)]) == 0
    text = check(page.read_text()).text
    page.unlink()
    assert main([*map(str, words)]) == 0

    assert re.search(r"archive/\S+/ups_prod.txt", text)
    assert "working/" not in text
    assert not page.exists()  # there was nothing to merge


def test_a_workflow_refuses_a_page_in_its_directories(tmp_path, capsys):
    (tmp_path / "base" / "incr").mkdir(parents=True)
    words = ["workflow", "run", tmp_path / "base", "--key", "0", "--html", tmp_path / "base" / "incr" / "page.html"]

    assert main([*map(str, words)]) == 2
    assert "the report is inside the incr/ of the base" in capsys.readouterr().err


def test_an_apply_writes_its_page(tmp_path):
    feed, page, table = tmp_path / "feed.csv", tmp_path / "page.html", str(tmp_path / "table")
    feed.write_text("id,ts,price\n1,5,7\n2,5,8\n")

    assert main(["table", "create", table, "--key", "id", "--order-by", "ts"]) == 0
    assert main(["table", "apply", table, "--feed", str(feed), "--runner", "local", "--html", str(page)]) == 0

    text = check(page.read_text()).text
    assert "Apply 1 feed file to " in text
    assert "2 feed rows = 2 inserted" in text


def test_changed_rows_are_shown_with_their_changed_fields_marked(tmp_path, master):
    feed = write(tmp_path / "feed", ups=f"a,6,{SCRIPT}\nnew,1,n\n", del_1="d,9,x\n")
    settings = {**MERGE, "deleted_record_file_prefix": "del", "changes": True}

    html = mutator.merge(master=master, feed=feed, output=tmp_path / "out", **settings).html()

    text = check(html).text
    assert "update field_0 a field_1 5 6 field_2 x <script>alert(1)</script>" in text
    assert "<del>x</del> <ins>&lt;script&gt;alert(1)&lt;/script&gt;</ins>" in html
    assert "insert field_0 new field_1 1 field_2 n" in text
    assert "delete field_0 d field_1 5 field_2 x" in text


def test_rows_that_moved_to_other_partitions_are_shown_with_what_they_were(tmp_path):
    old = pa.table({"id": ["a", "b", "c", "d"], "land": ["de", "de", "fr", "fr"], "ts": [1, 1, 1, 1]})
    new = pa.table({"id": ["a", "d", "e"], "land": ["fr", "de", "de"], "ts": [2, 3, 2]})
    settings = {"key": "id", "order_by": "ts", "partitioned_by": ["land"]}
    mutator.merge(master=tmp_path / "none", feed=old, output=tmp_path / "old", allow_empty_master=True, **settings)

    report = mutator.merge(master=tmp_path / "old", feed=new, output=tmp_path / "new", changes=True, **settings)

    html = report.html()
    assert "update id a land de fr ts 1 2" in check(html).text
    assert "update id d land fr de ts 1 3" in check(html).text
    assert "<del>de</del> <ins>fr</ins>" in html
    assert html.count('class="time"><span class="key f-updated">') == 2


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("columns", [40, 600])
def test_changed_rows_with_many_large_fields_leave_the_page_small(columns):
    names = [f"c{number}" for number in range(columns)]
    rows = [{"id": key, "ts": 1} | dict.fromkeys(names, "v" * 40) for key in range(4)]
    later = [{**row, "ts": 2, names[-1]: "w" * (1 << 20)} for row in rows]
    settings = {"key": "id", "order_by": "ts", "changes": True}

    html = mutator.merge(master=pa.Table.from_pylist(rows), feed=pa.Table.from_pylist(later), **settings).html()

    text = check(html).text
    assert len(html) < 100_000
    assert re.search(rf"{names[-1]} v+ w+… \([\d,]+ more characters\)", text)
    assert f"and {columns - 10:,} more fields" in text


def test_values_of_changed_rows_are_kept_out(tmp_path, master):
    feed = write(tmp_path / "feed", ups="a,6,secret\n")
    settings = {**MERGE, "changes": True, "report_fields": "0"}

    html = mutator.merge(master=master, feed=feed, output=tmp_path / "out", **settings).html()

    assert "secret" not in html
    assert "update field_0 … field_1 … … field_2 … …" in check(html).text


def test_a_page_says_how_to_get_changed_rows(tmp_path, master):
    feed = write(tmp_path / "feed", ups="a,6,y\n")

    assert "-D changes=true" in check(mutator.merge(master=master, feed=feed, **MERGE).html()).text


def test_a_note_has_no_control_characters_and_is_cut(tmp_path, master):
    feed = write(tmp_path / "feed", ups="a,6,y\n")
    report = mutator.merge(master=master, feed=feed, output=tmp_path / "out", **MERGE)

    text = check(replace(report, notes=(f"\x1b[2J{'n' * 1000}",)).html()).text

    assert "\\x1b[2Jnnn" in text
    assert "… (604 more characters)" in text
