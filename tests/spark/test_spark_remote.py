"""Runs, verify and the workflow with Spark on a real S3 server and a real HDFS: the same commands as on a disk."""

import json

import pytest

from mutator.storage import storage_for
from tests.support.plain_workflow import put, read
from tests.support.remote_commands import ROOT, run
from tests.support.storage_places import PLACES

SAMPLE = ROOT / "sample_data" / "product"


@pytest.fixture(params=PLACES)
def root(request):
    return PLACES[request.param](request)


def copied(directory, to):
    storage = storage_for(to)
    storage.make_directory(to)
    for path in sorted(directory.iterdir()):
        put(f"{to}/{path.name}", path.read_bytes())


def rows(directory):
    found = [one.path for one in storage_for(directory).entries(directory) if one.name.startswith("part-")]
    return sorted(b"".join(map(read, found)).splitlines())


@pytest.mark.thorough(keep=0)
@pytest.mark.jvm
def test_run_verify_and_workflow(root, tmp_path):
    copied(SAMPLE / "master", f"{root}/master")
    copied(SAMPLE / "feed", f"{root}/feed")
    copied(SAMPLE / "master", f"{root}/base/master")
    copied(SAMPLE / "feed", f"{root}/base/incr")
    config = ["--config", str(SAMPLE / "bumu.properties")]
    # Hadoop uses the odd scheme for the same storage.
    spelled = root.replace("s3://", "s3a://")
    one = ["run", *config, "--master", f"{root}/master", "--feed", f"{root}/feed", "--output", f"{spelled}/one"]
    two = ["run", *config, "--master", f"{spelled}/one", "--feed", f"{root}/feed", "--output", f"{root}/two"]
    local = ["run", *config, "--master", str(SAMPLE / "master"), "--feed", str(SAMPLE / "feed")]
    local += ["--output", str(tmp_path / "local")]
    workflow = ["workflow", "run", f"{root}/base", *config, "-D", "claim.min.age=0s"]
    answers = run(
        [
            [*one, "--json"],
            [*one],
            [*two, "--json"],
            ["verify", f"{root}/two"],
            [*workflow, "--json"],
            [*workflow, "--json"],
            ["workflow", "status", f"{root}/base", *config, "--json"],
            ["verify", f"{root}/base"],
            local,
        ]
    )
    codes = [code for code, _ in answers]
    assert codes == [0, 5, 0, 0, 0, 0, 0, 0, 0], [text for code, text in answers if code not in (0, 5)]
    first, second = (json.loads(text[text.index("{") :]) for _, text in (answers[0], answers[2]))
    expected = rows(str(tmp_path / "local"))
    assert len(expected) == 1000
    assert (first["counts"]["feed updated"], first["counts"]["feed deleted"]) == (66, 30)
    assert (second["join"], second["carried"], len(second["consumed"])) == ("aligned", 2, 2)
    assert rows(f"{root}/one") == rows(f"{root}/two") == expected
    status = json.loads(answers[6][1][answers[6][1].index("{") :])
    assert status["problems"] == []
    assert rows(status["master"].replace("s3a://", "s3://")) == expected
    assert "as its manifest says" in answers[3][1]
    assert "1,000 rows" in answers[7][1]
