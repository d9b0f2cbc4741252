"""The report of a base: versions over time, the files that wait, and problems."""

from __future__ import annotations

import json
import re
import shutil

import pytest

from mutator.cli import main
from mutator.pipeline.reports.pictures import bars, steps
from tests.support.cluster import SAMPLE
from tests.support.html_page import check
from tests.support.sample_pages import base_sample

QUICK = ["--config", str(SAMPLE / "bumu.properties"), "-D", "claim.min.age=0s"]


@pytest.fixture
def base(tmp_path):
    base = tmp_path / "base"
    shutil.copytree(SAMPLE / "master", base / "master")
    for name in ("ups_prod", "del_prod"):
        (base / "incr").mkdir(exist_ok=True)
        shutil.copy(SAMPLE / "feed" / f"{name}.txt", base / "incr")
        assert main(["workflow", "run", str(base), *QUICK]) == 0
    (base / "incr" / "<b>.tmp").write_text("x\n")
    (base / "incr" / "ready.txt").write_text("x\n")
    return base


def report(base, capsys, *more):
    capsys.readouterr()
    assert main(["workflow", "report", str(base), *QUICK, *map(str, more)]) == 0
    return capsys.readouterr().out


def test_the_page_shows_versions_and_waiting_files(base, tmp_path, capsys):
    page = tmp_path / "base.html"

    out = report(base, capsys, "--html", page)

    text = check(page.read_text()).text
    assert "Base " + str(base) in text
    assert re.search(r"2 \d{4}-\d\d-\d\d [\d:]+ UTC run 1 0 0 30 0 0 1,000", text)
    assert "Rows of the result, version 1 to version 2: lowest 1.0k, highest 1.0k, newest 1.0k." in text
    assert "Bytes of the master, version 1 to version 2: lowest 4" in text
    assert "<b>.tmp waits: it" in text
    assert "ready.txt ready: the next run claims it" in text
    assert "No problems" in text
    assert "ready: ready.txt\n" in out
    assert re.search(r"(?m)^ +2 +run +1 +1,000 +0 +0 +\d", out)


def test_the_members_are_printed_as_json(base, capsys):
    found = json.loads(report(base, capsys, "--json"))

    assert found["count"] == 2
    assert [one["counts"]["feed deleted"] for one in found["versions"]] == [0, 30]
    assert found["waiting"][0][0] == "<b>.tmp"
    assert found["ready"] == ["ready.txt"]
    assert found["versions"][1]["bytes"] == sum(path.stat().st_size for path in (base / "master").glob("part-*"))


def test_a_base_whose_target_is_a_table(tmp_path, capsys):
    base, table, page = tmp_path / "base", str(tmp_path / "base" / "table"), tmp_path / "base.html"
    (base / "incr").mkdir(parents=True)
    assert main(["table", "create", table, "--key", "id", "--order-by", "ts"]) == 0
    for number in (1, 2):
        (base / "incr" / f"rows_{number}.csv").write_text(f"id,ts,price\n{number},5,7\n")
        assert main(["workflow", "run", str(base), "-D", "claim.min.age=0s"]) == 0
    (base / "incr" / "more.tmp").write_text("x\n")

    assert main(["workflow", "report", str(base), "--html", str(page)]) == 0

    text = check(page.read_text()).text
    assert f"Its target is the table {table}." in text
    assert re.search(r"2 \d{4}-\d\d-\d\d [\d:]+ UTC apply 1 1 0 0 0 0 2", text)
    assert "Duration, version 0 to version 2" in text
    assert "more.tmp waits: it" in text


def test_a_base_without_versions_has_a_page(tmp_path, capsys):
    shutil.copytree(SAMPLE / "master", tmp_path / "base" / "master")
    page = tmp_path / "base.html"

    assert "0 versions" in report(tmp_path / "base", capsys, "--html", page)

    check(page.read_text())


def test_a_damaged_log_leaves_a_page_with_the_problem(base, tmp_path, capsys):
    entry = min((base / "_mutator" / "log").glob("*.json"))
    entry.write_bytes(entry.read_bytes().replace(b"ups_prod", b"ups_prid"))
    page = tmp_path / "base.html"

    report(base, capsys, "--html", page)

    assert "checksum" in check(page.read_text()).text


def test_a_page_that_cannot_be_written_is_an_error(base, tmp_path, capsys):
    (tmp_path / "file").write_text("")

    assert main(["workflow", "report", str(base), *QUICK, "--html", str(tmp_path / "file" / "page.html")]) == 4


def test_many_versions_are_cut_and_counted():
    text = check(base_sample().html()).text

    assert "23 of 63 versions are left out: the oldest ones" in text
    assert "incr/prices_1101.csv: cannot be moved: Permission denied" in text


def test_each_value_of_a_chart_has_a_bar_in_scale():
    chart = bars("Rows", "rows", [4, 5, 6], {"late": [0, 30, 40], "rejected": [None, 10, 0]}, str)

    assert chart.high == "50.0"
    assert [(one.kind, one.meaning) for one in chart.blocks] == [
        ("late", "version 5: 30 late"),
        ("rejected", "version 5: 10 rejected"),
        ("late", "version 6: 40 late"),
    ]
    late, rejected, other = chart.blocks
    assert late.height == pytest.approx(3 * rejected.height, abs=0.3)
    assert rejected.top + rejected.height == pytest.approx(late.top, abs=0.2)
    assert other.top + other.height == pytest.approx(chart.base, abs=0.2)
    assert chart.kinds == ("late", "rejected")


def test_a_line_has_a_step_for_each_known_value():
    chart = steps("Bytes", "bytes", [1, 2, 3], [None, 5, 10], str)

    assert chart.line == "M120.0 66.0H240.0L240.0 22.0H360.0"
    assert chart.area == f"{chart.line}V110.0H120.0Z"
    assert chart.summary == "Bytes, version 1 to version 3: lowest 5, highest 10, newest 10"


def test_a_chart_without_values_says_so():
    assert steps("Bytes", "bytes", [1], [None], str).summary == "Bytes: not known"
    assert bars("Rows", "rows", [], {"late": []}, str).blocks == ()
