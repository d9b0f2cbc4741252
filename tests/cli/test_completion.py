"""``mutator completion``: a shell completes commands, options, choices and paths with the script that it prints."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from mutator.cli import main
from mutator.cli.program import COMMANDS

pytest.importorskip("shtab", reason="shtab is not installed: pip install shtab")


def script(shell, capfd):
    assert main(["completion", shell]) == 0
    out, err = capfd.readouterr()
    assert err == ""
    return out


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("mutator ver", ["verify"]),
        ("mutator run-", ["run-many"]),
        ("mutator workflow re", ["report", "restore"]),
        ("mutator run --eng", ["--engine"]),
        ("mutator run --engine ", ["auto", "blocks", "records"]),
        ("mutator workflow run base --order-", ["--order-by", "--order-type"]),
        ("mutator run --config a", ["a_directory", "a_file.toml"]),
        ("mutator run --feed b", []),
        ("mutator verify a", ["a_directory"]),
        ("mutator completion ", ["bash", "zsh", "fish"]),
    ],
)
def test_bash_completes(tmp_path, capfd, line, found):
    (tmp_path / "a_directory").mkdir()
    (tmp_path / "a_file.toml").touch()
    words = " ".join(f"'{word}'" for word in line.split(" "))
    ask = f"COMP_WORDS=({words}); COMP_CWORD={line.count(' ')}; compopt() {{ :; }}; _shtab_mutator mutator"
    program = f'{script("bash", capfd)}\n{ask} "${{COMP_WORDS[-1]}}"\nprintf \'%s\\n\' "${{COMPREPLY[@]}}"\n'

    done = subprocess.run(["bash", "--norc"], input=program, cwd=tmp_path, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert sorted(name.rstrip("/") for name in done.stdout.split()) == sorted(found)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_script_is_whole(capfd, shell):
    text = script(shell, capfd)

    for command in COMMANDS:
        assert command.name in text
    for option in ("--partitioned-by", "--min-age", "--verbose"):
        assert option.lstrip("-") in text
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=text, text=True, check=True)


def test_other_shell(capfd):
    assert main(["completion", "bsh"]) == 2
    assert "'bsh' is not one of bash, zsh, fish; did you mean bash?" in capfd.readouterr().err
