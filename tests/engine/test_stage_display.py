"""The progress of a run, on a terminal and in a log."""

import io

from mutator.engine.local.local_runner import show_progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_log_gets_a_line_for_each_stage():
    log = io.StringIO()
    with show_progress(log) as watch:
        for done, tasks in ((0, 4), (3, 4), (4, 4), (0, 0), (1, 2), (2, 2)):
            watch(done, tasks)

    assert log.getvalue() == "mutator: read: 4 tasks done\nmutator: merge: 2 tasks done\n"


def test_a_terminal_gets_a_bar_that_is_removed():
    terminal = Terminal()
    with show_progress(terminal) as watch:
        watch(0, 4)
        watch(4, 4)
        watch(1, 2)
        shown = terminal.getvalue()

    assert "read: " in shown
    assert "merge: " in shown
    assert "5/6" in shown
    assert terminal.getvalue().endswith("\r")
    assert "tasks done" not in shown
