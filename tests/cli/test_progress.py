"""The line that shows the progress of long work: what it says, where it is shown, and that nothing of it stays."""

from __future__ import annotations

import io
from contextlib import contextmanager, redirect_stderr

import pytest

from mutator.cli import main, progress_line
from mutator.cli.progress_line import ProgressLine, progress_text
from mutator.engine.runner import each_on
from mutator.pipeline.runners import choice_for, open_runner
from mutator.storage import progress
from mutator.storage.progress import Counts, ShownWork
from tests.support.cluster import SAMPLE
from tests.support.patience import wait_until

RUN = ["run", "--config", f"{SAMPLE}/bumu.properties", "--master", f"{SAMPLE}/master", "--feed", f"{SAMPLE}/feed"]


class Terminal(io.StringIO):
    def isatty(self):
        return True

    def screen(self):
        """Return the lines that are seen now."""
        rows = []
        for written in self.getvalue().split("\n"):
            row = ""
            for text in written.split("\r"):
                row = text + row[len(text) :]
            rows.append(row.rstrip())
        return rows


@pytest.fixture
def terminal(monkeypatch):
    """Return a terminal whose line appears at once."""
    monkeypatch.setattr(progress_line, "_FIRST", 0.0)
    monkeypatch.setattr(progress_line, "_INTERVAL", 0.01)
    return Terminal()


@pytest.mark.parametrize(
    ("expected", "done", "still", "text"),
    [
        ((0, False), Counts(), 0, "0 bytes of 0 bytes read"),
        ((4_000_000, False), Counts(10_000, 100), 0, "10.0 kB of 4.0 MB read, 100 rows"),
        ((4_000_000, False), Counts(1_000_000, 2_000), 0, "1.0 MB of 4.0 MB read, 2,000 rows, 30 s left"),
        ((4_000_000, False), Counts(4_100_000, 9_000, 7), 0, "4.0 MB of 4.0 MB read, 9,000 rows"),
        ((4_000_000, True), Counts(4_000_000, 900, 300), 0, "4.0 MB of 4.0 MB read, 900 rows, 300 written, 5 s left"),
        ((10**12, False), Counts(10**11, 7), 0, "100.0 GB of 1.0 TB read, 7 rows, 90 s left"),
        ((4_000_000, True), Counts(4_000_000, 900), 0, "4.0 MB of 4.0 MB read, 900 rows, 10 s left"),
        ((4_000_000, True), Counts(4_000_000, 900), 2, "4.0 MB of 4.0 MB read, 900 rows, 6 s left"),
        ((4_000_000, True), Counts(4_000_000, 900), 7, "4.0 MB of 4.0 MB read, 900 rows"),
    ],
)
def test_the_line_says_what_was_read_and_what_is_left(expected, done, still, text):
    work = ShownWork(*expected, progress.total())
    progress.count(*done)

    assert progress_text(work, work.done(), 10, still) == f"mutator: {text}"


def test_other_lines_take_the_place_of_the_line(terminal):
    line = ProgressLine(terminal)
    with line.show(ShownWork(900, False, progress.total())):
        wait_until(lambda: "of 900 bytes read" in terminal.screen()[-1])
        with line.hidden():
            terminal.write("mutator: warning: x\n")
        wait_until(lambda: "of 900 bytes read" in terminal.screen()[-1])

    assert terminal.screen() == ["mutator: warning: x", ""]


@pytest.mark.parametrize(
    ("words", "is_shown"), [([], True), (["--progress", "off"], False), (["-q"], False), (["-v"], True)]
)
def test_a_terminal_has_the_line_of_a_merge(tmp_path, terminal, monkeypatch, words, is_shown):
    found, before = [], progress.total()

    @contextmanager
    def show(self, work):
        found.append((work.bytes, work.rewritten))
        yield

    monkeypatch.setattr(ProgressLine, "show", show)

    with redirect_stderr(terminal):
        assert main([*words, *RUN, "--output", f"{tmp_path}/out"]) == 0

    assert found == ([(50_653, True)] if is_shown else [])
    assert progress.total().plus(before, -1)[1:] == (1130, 1000)


def test_the_line_is_gone_before_an_error(tmp_path, terminal):
    (tmp_path / "feed").mkdir()
    (tmp_path / "feed" / "ups_1.txt").write_text("too,short\n")
    words = [f"{tmp_path}/feed" if word.endswith("/feed") else word for word in RUN]

    with redirect_stderr(terminal):
        assert main([*words, "-D", "reject.policy=fail", "--output", f"{tmp_path}/out"]) == 3

    assert "mutator: error: " in terminal.getvalue().replace("\x1b[1;31merror:\x1b[0m", "error:")
    assert not any(" read" in row and "bytes of" in row for row in terminal.screen())


def test_a_log_has_no_line(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(progress_line, "_FIRST", 0.0)

    assert main([*RUN, "--output", f"{tmp_path}/out"]) == 0

    assert " read" not in capsys.readouterr().err


def counted(task, number, attempt):
    progress.count(task, 2, 1)


@contextmanager
def shown():
    @contextmanager
    def show(work):
        yield

    with progress.shown_by(show):
        yield


@pytest.mark.processes
@pytest.mark.parametrize("bytes_", [0, 5 << 20, 1 << 30], ids=["alone", "threads", "processes"])
def test_local_runners_count_what_tasks_read(bytes_):
    before = progress.total()
    with shown(), open_runner(choice_for("local", bytes_), lambda: None) as runner:
        each_on(runner)([10, 20, 30], counted)

        assert progress.total().plus(before, -1) == (60, 6, 3)
    assert progress.total().plus(before, -1) == (60, 6, 3)


@pytest.mark.parametrize("master", ["local", "spark://cluster"])
def test_spark_counts_what_tasks_read(sc, monkeypatch, master):
    from mutator.engine.spark.spark_runner import opened

    monkeypatch.setattr(sc, "master", master)
    for _ in range(2):  # with the workers of the first time
        before = progress.total()
        with shown(), opened(sc) as runner:
            each_on(runner)([10, 20, 30], counted)

            assert progress.total().plus(before, -1) == (60, 6, 3)
