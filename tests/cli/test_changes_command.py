"""``mutator run --changes`` and ``mutator changes``: where changed rows go, and what is refused."""

from __future__ import annotations

import json
import shlex
import signal
from pathlib import Path

import pytest

from mutator.cli import main
from mutator.pipeline import kept_changes
from mutator.pipeline.kept_changes import read_kept_changes
from tests.support.child_process import in_child

RUN = "run --key 0 --order-by 1 --op 3 --master master --feed feed -D runner=local -D max.delete.fraction=1 --quiet"


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path, rows in (("master/m.txt", ["a,1,x", "b,1,x"]), ("feed/f_1.txt", ["a,2,y,U", "b,2,,D", "c,2,z,U"])):
        Path(path).parent.mkdir()
        Path(path).write_text("".join(f"{row}\n" for row in rows))
    return tmp_path


def printed(capsys, words):
    capsys.readouterr()
    assert main(words.split()) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def refused(capsys, words, code, *texts):
    capsys.readouterr()
    assert main(words.split()) == code
    found = capsys.readouterr().err
    for text in texts:
        assert text in found


def test_changed_rows_get_a_directory_of_their_own(capsys):
    assert main(f"{RUN} --output out --changes changed".split()) == 0

    found = printed(capsys, "changes out --format json")
    assert [(row["_change_type"], row["field_0"], row["field_2"]) for row in found] == [
        ("update_preimage", "a", "x"),
        ("update_postimage", "a", "y"),
        ("delete", "b", "x"),
        ("insert", "c", "z"),
    ]
    assert printed(capsys, "changes changed --format json") == found


def test_a_kill_after_the_commit_leaves_the_changes_in_the_output(capsys):
    killed, _ = in_child(lambda: main(f"{RUN} --output out --changes changed".split()), "changes.linked")
    assert killed == signal.SIGKILL
    assert read_kept_changes("changed") is None

    assert main(["changes", "out", "--changes", "changed"]) == 0

    assert printed(capsys, "changes changed --format json") == printed(capsys, "changes out --format json")


def test_a_signal_after_the_commit_says_how_to_get_the_changes(capsys, monkeypatch):
    def stopped(*_):
        raise KeyboardInterrupt

    words = [*RUN.split(), "--output", "out", "--changes", "changed $rows", "--metrics", "m.prom", "--html", "m.html"]
    with monkeypatch.context() as patch:
        patch.setattr("mutator.pipeline.kept_changes.keep_changes", stopped)
        assert main(words) == 130

    said = capsys.readouterr().err
    begin, cure = said.rsplit(" with: mutator ", 1)
    assert begin == (
        "mutator: stopped from outside; the merge was committed; m.html was not written: run the command again with "
        "another --output; put its changed rows into their directory"
    )
    metrics = Path("m.prom").read_text().splitlines()
    for name, value in (("success", 0.0), ("exit_code", 130.0)):
        assert next(line for line in metrics if line.startswith(f"mutator_{name}{{")).endswith(f"}} {value}")
    assert main(shlex.split(cure)) == 0
    assert [*map(json.loads, rows_at("changed $rows", capsys))] == printed(capsys, "changes out --format json")


@pytest.mark.parametrize(("point", "code"), [("changes.linked", 143), ("changes.kept", 0)])
def test_a_signal_is_without_effect_once_the_changes_are_there(capsys, monkeypatch, point, code):
    monkeypatch.setattr(kept_changes, "failpoint", lambda name: name == point and signal.raise_signal(15))

    assert main(f"{RUN} --output out --changes changed --json".split()) == code

    out, err = capsys.readouterr()
    assert "mutator: stopped from outside; the merge was committed" in err
    assert bool(out) != bool(code)
    assert (read_kept_changes("changed") is None) == bool(code)


def rows_at(place, capsys):
    capsys.readouterr()
    assert main(["changes", place, "--format", "json"]) == 0
    return capsys.readouterr().out.splitlines()


def test_places_that_cannot_get_or_have_changes_are_refused(capsys):
    Path("there").mkdir()
    refused(capsys, f"{RUN} --output out --changes there", 5, "already exists")
    refused(capsys, f"{RUN} --output out --changes out/x", 2, "inside the output")
    assert not Path("out").exists()
    assert main(f"{RUN} --output out".split()) == 0
    refused(capsys, "changes out", 2, "has no changed rows", "--changes DIR")
    refused(capsys, "changes nowhere", 2, "there is no such directory")
    refused(capsys, "changes out --from 1", 2, "--from and --to are for a base")


def test_no_other_files_get_changes_beside_them(capsys):
    assert main(f"{RUN} --output out --changes changed".split()) == 0
    assert main(f"{RUN} --output again -D changes=true".split()) == 0
    before = sorted(Path().rglob("*"))

    for place in ("master", "changed"):
        refused(capsys, f"changes again --changes {place}", 5, f"{place}: the output directory already exists")
    refused(capsys, "changes again --changes new --from 1", 2, "leave out --from")

    assert sorted(Path().rglob("*")) == before
    assert main(["changes", "out", "--changes", "changed"]) == 0


def test_versions_of_a_base_without_changes_are_named(capsys):
    Path("base").mkdir()
    Path("master").rename("base/master")
    Path("feed").rename("base/incr")
    run = "workflow run base --key 0 --order-by 1 --op 3 -D claim.min.age=0s -D max.delete.fraction=1 --quiet"
    for number, changes in enumerate(["true", "false", "true", "true"], 2):
        if number > 2:
            Path(f"base/incr/f_{number}.txt").write_text(f"a,{number},v{number},U\n")
        assert main([*run.split(), "-D", f"changes={changes}"]) == 0

    found = printed(capsys, "changes base --format json")
    assert [row["_commit_version"] for row in found] == [3, 3, 4, 4]
    assert printed(capsys, "changes base --from 3 --format json") == found[2:]
    assert len(printed(capsys, "changes base --from 0 --to 1 --format json")) == 4
    refused(capsys, "changes base --from 3 --to 1", 2, "from version 3 to 1 run backwards")
    for words in ("--from 5", "--to 5", "--from -1"):
        refused(capsys, f"changes base {words}", 2, f"base: version {words[-2:].strip()} does not exist", "newest is 4")
    refused(capsys, "changes base --from 0", 2, "version 2 has no changed rows", "mutator diff base@1 base@2")
