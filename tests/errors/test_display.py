"""File names and values in messages and reports cannot forge a line."""

import pytest

from mutator.cli import main
from mutator.errors import error
from mutator.errors.exceptions import CATALOGUE
from tests.support.workflow_base import BY_NAME, Place

FORGED = "ups_2\nversion 9 became the master.txt"


def test_no_field_of_a_message_adds_a_line():
    """The fields with several lines are made of lines that are escaped already."""
    for kind, (_, template) in CATALOGUE.items():
        names = [name for name in _fields(template) if name not in ("rows", "faults")]
        message = str(error(kind, **dict.fromkeys(_fields(template), "plain") | dict.fromkeys(names, "a\nb")))
        assert len(message.splitlines()) == len(template.splitlines()), kind


def _fields(template):
    from string import Formatter

    return [name for _, name, _, _ in Formatter().parse(template) if name]


def test_message_within_a_message_keeps_its_lines():
    inner = error("rejects", what="2 rows", rows="  a: x\n  b: y", cure="")
    assert "2 rows:\n  a: x\n  b: y\n" in str(error("publish.later", path="base", version=1, why=inner))


def test_file_name_cannot_forge_a_line_of_a_report_or_status(tmp_path):
    place = Place(tmp_path / "base", BY_NAME)
    (place.path / "master" / "base_1.txt").write_text("a,1\n")
    place.arrive(FORGED, "a,2")
    place.arrive("ups_3.txt", "a,3")
    (place.path / "output" / "mine\nbase  forged").mkdir(parents=True)
    done = place.run()

    assert done.waiting == (
        (FORGED, "has a control character in its name, which no report can show safely: rename it"),
    )
    for text in (done.text(), place.status().text()):
        assert "ups_2\\nversion 9 became the master.txt: has a control character in its name" in text
        assert not any(line.startswith("version 9") for line in text.splitlines())
    assert "mine\\nbase  forged" in place.status().text()


@pytest.mark.parametrize("value", ["\x0es\x0f", "\x0es", "\x0f", "\x0eq\x0f", "\x0es-D \x0f"])
def test_controls_of_rows_and_paths_are_escaped(value, tmp_path, capsys):
    shown = value.replace("\x0e", "\\x0e").replace("\x0f", "\\x0f")
    for place, row in ("master", "1,a,5"), (value, f"1,a,{value}"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "rows.txt").write_text(f"{row}\n")
    line = [
        "run",
        "--key=0",
        "--order-by=2",
        "--runner=local",
        f"--output={tmp_path / 'out'}",
        f"--feed={tmp_path / value}",
    ]

    assert main([*line, f"--master={tmp_path / 'master'}"]) == 3
    assert main([*line, f"--master={tmp_path / 'missing'}{value}"]) == 2
    assert main([*line, f"--bad{value}"]) == 2
    text = "".join(capsys.readouterr())
    assert f"is not an integer: '{shown}': 1,a,{shown}\n" in text
    assert f"/missing{shown}: " in text
    assert f"--bad{shown}" in text
    assert text.replace("\n", "").isprintable()
