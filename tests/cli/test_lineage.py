"""OpenLineage events are valid by the client's own classes, and never the reason why a merge fails."""

from __future__ import annotations

import json
import shutil
import socket
import sys
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import attr
import pytest
from openlineage.client import event_v2, facet_v2

from mutator.cli import main
from mutator.errors import error
from mutator.pipeline import lineage
from mutator.workflow import directory
from tests.support.cluster import SAMPLE

CONFIG = ["--config", str(SAMPLE / "bumu.properties")]
FACETS = {
    one._get_schema(): one
    for module in vars(facet_v2).values()
    if isinstance(module, type(sys))
    for one in vars(module).values()
    if isinstance(one, type) and attr.has(one) and hasattr(one, "_get_schema")
}


def checked(members, kind):
    """Make a value of a class of the client from the members of JSON; unknown and missing members are errors."""
    names = {field.name for field in attr.fields(kind)}
    needed = {field.name for field in attr.fields(kind) if field.default is attr.NOTHING}
    assert set(members) - {"_producer", "_schemaURL"} <= names, kind
    assert needed <= set(members), kind
    init = {field.name: field.alias for field in attr.fields(kind) if field.init}
    return kind(**{init[name]: value for name, value in members.items() if name in init})


def valid(event):
    """Return an event of JSON. Assert that it is one of the published schema, with all its facets."""
    assert event["schemaURL"].endswith("/OpenLineage.json#/$defs/RunEvent")
    facets = [event["run"]["facets"], event["job"]["facets"]]
    for role, kind in (("inputs", event_v2.InputDataset), ("outputs", event_v2.OutputDataset)):
        for dataset in event[role]:
            checked(dataset, kind)
            facets += [dataset["facets"], dataset[f"{role.removesuffix('s')}Facets"]]
    for found in facets:
        for facet in found.values():
            checked(facet, FACETS[facet["_schemaURL"]])
    for field in (one for found in facets for one in found.get("schema", {"fields": []})["fields"]):
        checked(field, facet_v2.schema_dataset.SchemaDatasetFacetFields)
    checked(event["run"], event_v2.Run)
    checked(event["job"], event_v2.Job)
    checked({**event, "eventType": event_v2.RunState[event["eventType"]]}, event_v2.RunEvent)
    return event


def read(path):
    return [valid(json.loads(line)) for line in path.read_text().splitlines()]


def run(tmp_path, target, *more):
    words = ["run", *CONFIG, "--master", SAMPLE / "master", "--feed", SAMPLE / "feed", "--output", tmp_path / "out"]
    return main([*map(str, words), "--lineage", str(target), *more])


@pytest.fixture
def file(tmp_path):
    return tmp_path / "events.jsonl"


def test_a_run_starts_and_completes_with_schema_and_row_counts(tmp_path, file):
    assert run(tmp_path, file) == 0

    start, complete = read(file)
    assert [start["eventType"], complete["eventType"]] == ["START", "COMPLETE"]
    assert start["run"]["runId"] == complete["run"]["runId"]
    assert start["eventTime"] < complete["eventTime"]
    assert complete["job"]["name"] == f"mutator run {SAMPLE / 'master'}"
    counts = {one["name"]: one["inputFacets"]["inputStatistics"] for one in complete["inputs"]}
    assert counts[str(SAMPLE / "master")]["rowCount"] == 1000
    assert counts[str(SAMPLE / "feed")]["rowCount"] == 130
    assert counts[str(SAMPLE / "feed")]["fileCount"] == 2
    [output] = complete["outputs"]
    assert (output["namespace"], output["name"]) == ("file", str(tmp_path / "out"))
    assert output["outputFacets"]["outputStatistics"]["rowCount"] == 1000
    assert [(one["name"], one["type"]) for one in output["facets"]["schema"]["fields"]][:2] == [
        ("field_0", "string"),
        ("field_1", "string"),
    ]


def test_a_run_that_fails_says_why(tmp_path, file):
    (tmp_path / "out").mkdir()

    assert run(tmp_path, file) == 5

    start, fail = read(file)
    assert fail["eventType"] == "FAIL"
    assert fail["run"]["runId"] == start["run"]["runId"]
    assert str(tmp_path / "out") in fail["run"]["facets"]["errorMessage"]["message"]


def test_events_have_no_secrets(tmp_path, file):
    words = ["run", *CONFIG, "--master", "sftp://me:secret@host/master", "--feed", SAMPLE / "feed"]

    assert main([*map(str, words), "--output", str(tmp_path / "out"), "--lineage", str(file)]) == 2

    assert [one["job"]["name"] for one in read(file)] == ["mutator run sftp://me:***@host/master"] * 2
    assert ":secret" not in file.read_text()


@pytest.mark.parametrize(
    "feed",
    [
        "--feed one --feed two/*.csv --feed c_4.csv",
        "--feed one two/*.csv c_4.csv",
        "--feed one two/*.csv --feed c_4.csv",
    ],
)
def test_each_feed_has_its_own_rows(tmp_path, file, monkeypatch, feed):
    for name, rows in (("one/a_1.csv", 1), ("two/a_2.csv", 2), ("two/b_3.csv", 4), ("c_4.csv", 8)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("id,ts\n" + "".join(f"{name}{row},1\n" for row in range(rows)))
    monkeypatch.chdir(tmp_path)
    words = "run --key id --order-by ts -D allow.empty.master=true --master none --output out --lineage events.jsonl"

    assert main([*words.split(), *feed.split()]) == 0

    found = [one["inputFacets"]["inputStatistics"] for one in read(file)[-1]["inputs"][1:]]
    assert [(one["rowCount"], one["fileCount"]) for one in found] == [(1, 1), (6, 2), (8, 1)]


def test_a_dry_run_has_no_events(tmp_path, file):
    assert run(tmp_path, file, "--dry-run") == 0

    assert not file.exists()


def test_a_workflow_has_events_only_where_it_merges(tmp_path, file):
    base = tmp_path / "base"
    shutil.copytree(SAMPLE / "master", base / "master")
    shutil.copytree(SAMPLE / "feed", base / "incr")
    words = ["workflow", "run", str(base), *CONFIG, "-D", "claim.min.age=0s", "--lineage", str(file)]

    assert main(words) == 0
    assert main(words) == 0

    _, complete = read(file)
    assert complete["eventType"] == "COMPLETE"
    assert complete["outputs"][0]["name"] == str(base / "master")
    assert complete["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 1000


def test_a_run_of_a_watch_that_gives_up_has_failed(tmp_path, file, monkeypatch):
    merge_by, runs = directory.merge_by, []

    def outrun_once(config, merge_on, engine):
        own = merge_by(config, merge_on, engine)

        def merge(task):
            runs.append(1)
            if len(runs) > 1:
                return own(task)
            with suppress(AttributeError):
                merge_on(None, None)  # begins, and has no plan
            raise error("table.outrun", path="base", count=3)

        return merge

    monkeypatch.setattr(directory, "merge_by", outrun_once)
    shutil.copytree(SAMPLE / "master", tmp_path / "base" / "master")
    shutil.copytree(SAMPLE / "feed", tmp_path / "base" / "incr")
    words = ["workflow", "watch", tmp_path / "base", *CONFIG, "--min-age", 0, "--interval", 0.01, "--runs", 1]

    assert main([*map(str, words), "--lineage", str(file)]) == 0

    assert [one["eventType"] for one in read(file)] == ["START", "FAIL", "START", "COMPLETE"]


@pytest.mark.parametrize("target", ["master", "table"])
def test_a_run_that_merges_again_without_a_bad_file_starts_once(target, tmp_path, file):
    (tmp_path / "base" / "incr").mkdir(parents=True)
    key = ["--key", "id", "--order-by", "at"]
    if target == "table":
        assert main(["table", "create", str(tmp_path / "base" / "table"), *key, "-q"]) == 0
        key = []
    for name, content in {"ups_1.csv": "1,1", "ups_2.csv": "2,soon"}.items():
        (tmp_path / "base" / "incr" / name).write_text(f"id,at\n{content}\n")
    words = [*key, "-D", "claim.min.age=0s", "-D", "runner=local", "-D", "allow.empty.master=true"]

    assert main(["workflow", "run", str(tmp_path / "base"), *words, "--lineage", str(file)]) == 6

    assert [one["eventType"] for one in read(file)] == ["START", "COMPLETE"]


def test_tables_have_events_with_their_version(tmp_path, file):
    base, table = tmp_path / "base", str(tmp_path / "base" / "table")
    (base / "incr").mkdir(parents=True)
    (base / "incr" / "rows.csv").write_text("id,ts,price\n1,5,7\n2,5,8\n")
    (tmp_path / "more.csv").write_text("id,ts,price\n1,6,7\n")
    assert main(["table", "create", table, "--key", "id", "--order-by", "ts"]) == 0

    assert main(["workflow", "run", str(base), "-D", "claim.min.age=0s", "--lineage", str(file)]) == 0
    words = ["table", "apply", table, "--feed", str(tmp_path / "more.csv"), "--runner", "local"]
    assert main([*words, "--lineage", str(file)]) == 0

    events = read(file)
    assert [one["eventType"] for one in events] == ["START", "COMPLETE", "START", "COMPLETE"]
    for event, version in ((events[1], "1"), (events[3], "2")):
        facets = event["outputs"][0]["facets"]
        assert facets["version"]["datasetVersion"] == version
        assert [one["name"] for one in facets["schema"]["fields"]] == ["id", "ts", "price"]


class _Endpoint(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.found.append((self.path, self.headers.get("Authorization"), json.loads(body)))
        time.sleep(self.server.seconds)
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def endpoint():
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Endpoint)
    server.found, server.status, server.seconds, server.daemon_threads = [], 201, 0, True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_an_endpoint_gets_the_events(tmp_path, endpoint, monkeypatch):
    monkeypatch.setenv("OPENLINEAGE_API_KEY", "key-of-a-test")

    assert run(tmp_path, f"http://127.0.0.1:{endpoint.server_port}") == 0

    assert [event["eventType"] for _, _, event in endpoint.found] == ["START", "COMPLETE"]
    assert {(path, key) for path, key, _ in endpoint.found} == {("/api/v1/lineage", "Bearer key-of-a-test")}
    for _, _, event in endpoint.found:
        valid(event)


def test_an_endpoint_that_refuses_is_a_warning(tmp_path, endpoint, capsys):
    endpoint.status = 400

    assert run(tmp_path, f"http://127.0.0.1:{endpoint.server_port}/own/path") == 0

    assert "warning: 2 of 2 OpenLineage events were not sent: HTTPError: 400" in capsys.readouterr().err
    assert endpoint.found[0][0] == "/own/path"
    assert main(["verify", str(tmp_path / "out")]) == 0


def test_an_endpoint_that_never_answers_holds_up_nothing_for_long(tmp_path, endpoint, capsys, monkeypatch):
    endpoint.seconds = 30
    monkeypatch.setattr(lineage, "_PATIENCE", 0.2)

    assert run(tmp_path, f"http://127.0.0.1:{endpoint.server_port}") == 0

    assert "no answer from http://127.0.0.1" in capsys.readouterr().err


def test_a_port_without_a_server_and_a_file_that_cannot_be_written_are_warnings(tmp_path, capsys):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    (tmp_path / "file").write_text("")

    assert run(tmp_path, f"http://127.0.0.1:{port}") == 0
    assert "2 of 2 OpenLineage events were not sent: " in capsys.readouterr().err
    shutil.rmtree(tmp_path / "out")
    assert run(tmp_path, tmp_path / "file" / "events.jsonl") == 0
    assert "2 of 2 OpenLineage events were not sent: " in capsys.readouterr().err


def test_a_file_of_the_client_says_where_events_go(tmp_path, file):
    place = tmp_path / "openlineage.yml"
    place.write_text(f"transport:\n  type: file\n  log_file_path: {file}\n  append: true\n")

    assert run(tmp_path, place) == 0

    assert len(read(file)) == 2


def test_events_without_their_library_are_refused_before_the_merge(tmp_path, file, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "openlineage.client", None)

    assert run(tmp_path, file) == 2

    assert "pip install -e '.[lineage]'" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
