"""Metrics in the text format of Prometheus, as its own parser reads them."""

from __future__ import annotations

import json
import shutil
import signal
import sys
import time

import pytest
from prometheus_client.parser import text_string_to_metric_families

from mutator.cli import main
from mutator.dataset.commit import publish
from mutator.dataset.commits import Arrived
from mutator.pipeline.version_point import lags
from mutator.workflow.directory import master_target
from tests.support.cluster import SAMPLE

CONFIG = ["--config", str(SAMPLE / "bumu.properties")]


def read(path):
    """Return the values of a file: (name, labels without the dataset) -> value; and the datasets."""
    found, datasets = {}, set()
    for family in text_string_to_metric_families(path.read_text()):
        assert family.type == "gauge"
        assert family.documentation
        for sample in family.samples:
            labels = dict(sample.labels)
            datasets.add(labels.pop("dataset"))
            values = (labels[name] for name in ("side", "outcome", "step") if name in labels)
            found[sample.name.removeprefix("mutator_"), *values] = sample.value
    return found, datasets


@pytest.fixture
def file(tmp_path):
    return tmp_path / "mutator.prom"


def run(tmp_path, file, *more, master=SAMPLE / "master"):
    feed = ["--feed", SAMPLE / "feed", "--output", tmp_path / "out"]
    return main([str(word) for word in ("run", *CONFIG, "--master", master, *feed, "--metrics", file, *more)])


@pytest.fixture
def base(tmp_path):
    base = tmp_path / "base"
    shutil.copytree(SAMPLE / "master", base / "master")
    shutil.copytree(SAMPLE / "feed", base / "incr")
    return base


def test_a_run_writes_its_rows_and_times(tmp_path, file):
    before = time.time()
    assert run(tmp_path, file) == 0

    found, datasets = read(file)
    assert datasets == {str(SAMPLE / "master")}
    assert found["rows", "feed", "inserted"] == 30
    assert found["rows", "feed", "rejected"] == 0
    assert found["rows", "master", "kept"] == 904
    assert found["output_rows",] == 1000
    assert found["success",] == 1
    assert found["exit_code",] == 0
    assert {key[1] for key in found if key[0] == "step_duration_seconds"} == {
        *("survey", "plan", "merge", "check", "publish")
    }
    steps = sum(value for key, value in found.items() if key[0] == "step_duration_seconds")
    assert steps == pytest.approx(found["duration_seconds",], abs=0.01)
    assert before - 1 < found["version_timestamp_seconds",] <= found["last_run_timestamp_seconds",]
    assert list(tmp_path.glob(".*")) == []  # the file appeared whole


def test_a_run_that_fails_says_so(tmp_path, file, capsys):
    assert run(tmp_path, file) == 0
    assert run(tmp_path, file) == 5  # the output exists

    found, _ = read(file)
    assert found["success",] == 0
    assert found["exit_code",] == 5
    assert not [key for key in found if key[0] == "rows"]


def test_a_base_says_how_late_its_version_was_and_what_waits(base, file):
    words = ["workflow", "run", str(base), *CONFIG, "-D", "claim.min.age=0s", "--metrics", str(file)]
    assert main(words) == 0
    first, datasets = read(file)
    (base / "incr" / "unfinished.tmp").write_text("x\n")
    assert main(words) == 0
    second, _ = read(file)

    assert datasets == {str(base)}
    assert first["version",] == second["version",] == 1
    assert 0 <= first["lag_seconds",] < 3600
    assert first["waiting_files",] == 0
    assert second["waiting_files",] == 1
    assert second["rows", "feed", "inserted"] == 30  # of the last merge
    assert second["version_age_seconds",] >= 0
    assert "ready_files" not in {key[0] for key in second}


def test_a_status_writes_what_waits_and_no_success(base, file):
    (base / "incr" / "unfinished.tmp").write_text("x\n")

    assert main(["workflow", "status", str(base), *CONFIG, "-D", "claim.min.age=0s", "--metrics", str(file)]) == 0

    found, _ = read(file)
    assert found == {("ready_files",): 2, ("waiting_files",): 1, ("set_aside_files",): 0, ("problems",): 0}


def test_a_base_with_a_table_says_the_same(tmp_path, file):
    base, table = tmp_path / "base", str(tmp_path / "base" / "table")
    (base / "incr").mkdir(parents=True)
    (base / "incr" / "rows.csv").write_text("id,ts,price\n1,5,7\n2,5,8\n")
    assert main(["table", "create", table, "--key", "id", "--order-by", "ts"]) == 0

    assert main(["workflow", "run", str(base), "-D", "claim.min.age=0s", "--metrics", str(file)]) == 0
    found, datasets = read(file)
    again = tmp_path / "again.csv"
    again.write_text("id,ts,price\n1,6,7\n")
    words = ["table", "apply", table, "--feed", str(again), "--runner", "local", "--metrics", str(tmp_path / "t.prom")]
    assert main(words) == 0
    applied, of_table = read(tmp_path / "t.prom")

    assert datasets == {str(base)}
    assert found["version",] == 1
    assert found["rows", "feed", "inserted"] == 2
    assert 0 <= found["lag_seconds",] < 3600
    assert of_table == {table}
    assert applied["version",] == 2
    assert applied["rows", "feed", "updated"] == 1


def test_labels_are_escaped(tmp_path, file):
    odd = tmp_path / 'a"\\b\nc'
    shutil.copytree(SAMPLE / "master", odd)

    run(tmp_path, file, master=odd)

    assert read(file)[1] == {str(odd)}


def test_labels_have_no_secrets_and_are_text(tmp_path, file):
    assert run(tmp_path, file, master="sftp://me:secret@host/master") == 2
    assert read(file)[1] == {"sftp://me:***@host/master"}

    assert run(tmp_path, file, master=tmp_path / "\udcff") != 0
    assert read(file)[1] == {f"{tmp_path}/\\udcff"}


def test_metrics_that_cannot_be_written_are_a_warning(tmp_path, capsys):
    (tmp_path / "file").write_text("")

    assert run(tmp_path, tmp_path / "file" / "x.prom") == 0

    assert "warning: the metrics were not written: " in capsys.readouterr().err


LATER = "mutator.prom was not written: run the command again with another --output\n"


@pytest.mark.parametrize(("more", "said"), [([], "the merge was committed"), (["--dry-run"], "nothing was published")])
def test_a_signal_while_files_are_written_says_what_was_committed(tmp_path, file, capsys, monkeypatch, more, said):
    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("mutator.cli.report_files._replace", stopped)

    assert run(tmp_path, file, *more) == 130

    found = capsys.readouterr().err
    assert f"stopped from outside; {said}" in found
    assert found.endswith(LATER) == (not more)
    assert (tmp_path / "out").exists() == (not more)


def test_a_signal_while_the_page_is_written_leaves_metrics(tmp_path, file, capsys, monkeypatch):
    def stopped(*_):
        raise KeyboardInterrupt

    page = tmp_path / "page.html"
    monkeypatch.setattr("mutator.pipeline.report.Report.html", stopped)
    assert run(tmp_path, file, "--html", page) == 130

    assert capsys.readouterr().err.endswith(
        f"the merge was committed; {page} was not written: run the command again with another --output\n"
    )
    found, _ = read(file)
    assert (found["exit_code",], found["success",]) == (130, 0)
    assert found["rows", "feed", "inserted"] == 30


@pytest.mark.parametrize(("more", "code"), [([], 0), (["--html"], 130)])
def test_a_signal_during_the_publication_does_not_undo_it(tmp_path, file, capsys, monkeypatch, more, code):
    words = [*more, tmp_path / "page.html"] if more else []
    monkeypatch.setattr(publish, "failpoint", lambda name: name == "publish.renamed" and signal.raise_signal(2))

    assert run(tmp_path, file, *words) == code

    out, found = capsys.readouterr()
    assert "mutator: stopped from outside; the merge was committed" in found
    assert ("page.html was not written" in found) == bool(more)
    assert bool(out) != bool(more)
    numbers, _ = read(file)
    assert (numbers["exit_code",], numbers["rows", "feed", "inserted"]) == (code, 30)
    monkeypatch.undo()
    assert main(["verify", str(tmp_path / "out"), "--quiet"]) == 0


def test_a_signal_after_all_files_are_written_leaves_the_report_unprinted(tmp_path, file, capsys, monkeypatch):
    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("mutator.cli.options.shown", stopped)
    assert run(tmp_path, file) == 130
    assert capsys.readouterr().err.endswith(
        "the merge was committed; its report was not printed: run the command again with another --output\n"
    )
    assert read(file)[0]["exit_code",] == 0  # they were written before


@pytest.mark.parametrize(
    ("words", "code"), [(["run"], 0), (["watch"], 143), (["watch", "--runs", "1"], 0)], ids=["run", "watch", "last"]
)
def test_a_run_of_a_base_that_a_signal_cannot_stop_has_its_metrics(base, file, capsys, monkeypatch, words, code):
    monkeypatch.setattr(master_target, "failpoint", lambda name: name == "commit.done" and signal.raise_signal(15))

    more = ["-D", "claim.min.age=0s", "--metrics", file, "--json"]
    assert main([str(word) for word in ("workflow", words[0], base, *words[1:], *CONFIG, *more)]) == code

    out, err = capsys.readouterr()
    assert json.loads(out)["stopped"] == 15
    assert "a signal came too late to stop this run: all of it is done" in err
    found, _ = read(file)
    assert (found["exit_code",], found["rows", "feed", "inserted"]) == (0, 30)


def test_a_signal_while_the_metrics_of_a_base_are_written_says_what_is_missing(base, file, capsys, monkeypatch):
    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("mutator.cli.report_files._replace", stopped)
    words = ("workflow", "run", base, *CONFIG, "-D", "claim.min.age=0s", "--metrics", file)
    assert main([str(word) for word in words]) == 130
    assert capsys.readouterr().err.endswith(
        f"the merge was committed; {file} was not written: see what was merged with: mutator workflow report {base}\n"
    )


def test_metrics_without_their_library_are_refused_before_the_merge(tmp_path, file, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)

    assert run(tmp_path, file) == 2

    assert "pip install -e '.[metrics]'" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_lag_counts_from_the_arrival_of_merged_files_to_the_commit():
    claimed = [Arrived("a", 1, 100.0), Arrived("b", 1, 130.0), Arrived("skipped", 1, 10.0), Arrived("ahead", 1, 900.0)]

    assert lags(150.0, claimed, {"a", "b"}) == (50.0, 20.0)
    assert lags(150.0, claimed, {"ahead"}) == (0.0, 0.0)
    assert lags(150.0, claimed, set()) == (None, None)


def test_a_signal_while_the_page_of_an_apply_is_written_says_what_is_missing(tmp_path, file, capsys, monkeypatch):
    def stopped(*_):
        raise KeyboardInterrupt

    table, feed, page = tmp_path / "a table", tmp_path / "f_1.csv", tmp_path / "page.html"
    feed.write_text("id,at\n1,1\n2,1\n")
    assert main(["table", "create", str(table), "--key", "id", "--order-by", "at", "--quiet"]) == 0
    monkeypatch.setattr("mutator.table.report.ApplyReport.html", stopped)
    words = ("table", "apply", table, "--feed", feed, "--metrics", file, "--html", page)
    assert main([str(word) for word in words]) == 130
    assert capsys.readouterr().err.endswith(
        f"the merge was committed; {page} was not written: see what was merged with: mutator table log '{table}'\n"
    )
    found, _ = read(file)
    assert (found["exit_code",], found["rows", "feed", "inserted"]) == (130, 2)
