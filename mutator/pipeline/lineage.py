"""OpenLineage run events, by its client library (extra ``lineage``): START, then COMPLETE or FAIL.

Events are sent by a thread of their own, and a command waits for it a bounded time: neither a failing endpoint nor one
that never answers can fail or hold up a merge.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from mutator.errors import error
from mutator.errors.display import without_secrets
from mutator.errors.quick_dataclass import dataclass
from mutator.errors.version import VERSION
from mutator.storage import dataset_name

if TYPE_CHECKING:
    from openlineage.client import OpenLineageClient
    from openlineage.client.event_v2 import InputDataset, OutputDataset, RunEvent

PRODUCER = "urn:spark-mutator:runs"  # names the program, not a page
_TIMEOUT = 5.0  # seconds of one request
_PATIENCE = 10.0  # seconds that a command waits at its end
_ADDRESSES, _CONFIGURATIONS = ("http://", "https://"), (".yml", ".yaml")
_NAMESPACE = "OPENLINEAGE_NAMESPACE"


@dataclass(frozen=True)
class LineageDataset:
    """A dataset that a run reads or writes. None is not known.

    namespace: of one that no storage has, whose path is its name; None: the path says it.
    """

    path: str
    rows: int | None = None
    bytes: int | None = None
    files: int | None = None
    fields: Sequence[tuple[str, str]] | None = None  # names and types
    version: str | None = None
    namespace: str | None = None

    @property
    def names(self) -> tuple[str, str]:
        """The namespace and the name."""
        return dataset_name(without_secrets(self.path)) if self.namespace is None else (self.namespace, self.path)


@dataclass(frozen=True)
class Work:
    """The event of a run. job: its name, the same for each run of one pipeline."""

    job: str
    inputs: Sequence[LineageDataset]
    outputs: Sequence[LineageDataset]
    tags: Mapping[str, str] = field(default_factory=dict)


def check_installed(what: str) -> None:
    """Raise ConfigError if the library of the extra ``lineage`` is missing. what: needs it."""
    try:
        import openlineage.client  # noqa: F401
    except ImportError:
        raise error("extra", what=what, package="openlineage-python", extra="lineage") from None


def file_of(target: str) -> str | None:
    """Return the path of the file to which the events of a target go, if they go to one.

    >>> file_of("events.jsonl"), file_of("https://lineage.example.com"), file_of("openlineage.yml")
    ('events.jsonl', None, None)
    """
    return None if target.startswith(_ADDRESSES) or target.endswith(_CONFIGURATIONS) else target


class Lineage:
    """The events of one run."""

    def __init__(self, target: str) -> None:
        """target: address of an HTTP endpoint, path of a file, or of a configuration of the client (``.yml``)."""
        self._target = target
        self._queue: queue.SimpleQueue[RunEvent | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._run = ""
        self._faults: list[str] = []
        self._sent = 0
        self._given = 0

    @property
    def has_begun(self) -> bool:
        """Whether START was given."""
        return self._thread is not None

    def start(self, work: Work) -> None:
        """Send START; once for each run."""
        if self.has_begun:
            return
        from openlineage.client.uuid import generate_new_uuid

        self._run = str(generate_new_uuid())
        self._thread = threading.Thread(target=self._send_all, daemon=True, name="openlineage")
        self._thread.start()
        self._give("START", work)

    def complete(self, work: Work) -> list[str]:
        """Send COMPLETE, and wait; return the warnings of all events."""
        return self._end("COMPLETE", work)

    def fail(self, work: Work, message: str) -> list[str]:
        """Send FAIL, and wait; return the warnings of all events."""
        return self._end("FAIL", work, message)

    def _end(self, kind: str, work: Work, message: str | None = None) -> list[str]:
        self._give(kind, work, message)
        self._queue.put(None)
        assert self._thread is not None
        self._thread.join(_PATIENCE)
        if self._thread.is_alive():
            lost = f"no answer from {without_secrets(self._target)} within {_PATIENCE:.0f} s"
            self._faults.append(lost)
        self._thread = None
        missing = self._given - self._sent
        why = "; ".join(dict.fromkeys(self._faults))
        return [f"{missing} of {self._given} OpenLineage events were not sent: {why}"] if missing else []

    def _give(self, kind: str, work: Work, message: str | None = None) -> None:
        self._given += 1
        self._queue.put(_event(kind, self._run, work, message))

    def _send_all(self) -> None:
        client: OpenLineageClient | None = None
        while (event := self._queue.get()) is not None:
            try:
                client = client or _client(self._target)
                client.emit(event)
                self._sent += 1
            except Exception as fault:  # noqa: BLE001  # of any library that a transport uses
                self._faults.append(without_secrets(f"{type(fault).__name__}: {fault}")[:300])


def _client(target: str) -> OpenLineageClient:
    """Return the client for a target. The key of an endpoint is that of OPENLINEAGE_API_KEY."""
    from openlineage.client import OpenLineageClient

    if target.endswith(_CONFIGURATIONS):
        import yaml  # type: ignore[import-untyped]  # the client needs it

        with open(target, encoding="utf-8") as stream:
            return OpenLineageClient(config=yaml.safe_load(stream))
    if (file := file_of(target)) is not None:
        return OpenLineageClient(config={"transport": {"type": "file", "log_file_path": file, "append": True}})
    parts = urlsplit(target)
    transport: dict[str, Any] = {
        "type": "http",
        "url": f"{parts.scheme}://{parts.netloc}",
        "timeout": _TIMEOUT,
        "retry": {"total": 1, "backoff_factor": 0.1},
    }
    path = parts.path.strip("/")
    transport |= {"endpoint": path} if path else {}
    key = os.environ.get("OPENLINEAGE_API_KEY")
    transport |= {"auth": {"type": "api_key", "apiKey": key}} if key else {}
    return OpenLineageClient(config={"transport": transport})


def _event(kind: str, run: str, work: Work, message: str | None) -> RunEvent:
    from openlineage.client.event_v2 import Job, Run, RunEvent, RunState
    from openlineage.client.facet_v2 import error_message_run, job_type_job, processing_engine_run, tags_run

    tags = [tags_run.TagsRunFacetFields(key=name, value=value, source="mutator") for name, value in work.tags.items()]
    facets: dict[str, Any] = {
        "processing_engine": processing_engine_run.ProcessingEngineRunFacet(
            version=VERSION, name="mutator", openlineageAdapterVersion=VERSION, producer=PRODUCER
        ),
        "tags": tags_run.TagsRunFacet(tags=tags, producer=PRODUCER),
    }
    if message is not None:
        facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(
            message=without_secrets(message), programmingLanguage="Python", producer=PRODUCER
        )
    job_type = job_type_job.JobTypeJobFacet("BATCH", "MUTATOR", "JOB", producer=PRODUCER)
    namespace = os.environ.get(_NAMESPACE, "mutator")
    return RunEvent(
        eventType=RunState[kind],
        eventTime=datetime.fromtimestamp(time.time(), UTC).isoformat(),
        run=Run(runId=run, facets=facets),
        job=Job(namespace=namespace, name=work.job, facets={"jobType": job_type}),
        inputs=[_input(one) for one in work.inputs],
        outputs=[_output(one) for one in work.outputs],
        producer=PRODUCER,
    )


def _input(one: LineageDataset) -> InputDataset:
    from openlineage.client.event_v2 import InputDataset
    from openlineage.client.facet_v2 import input_statistics_input_dataset as statistics

    namespace, name = one.names
    facets: dict[str, Any] = {}
    if one.rows is not None:
        facets["inputStatistics"] = statistics.InputStatisticsInputDatasetFacet(
            rowCount=one.rows, size=one.bytes, fileCount=one.files, producer=PRODUCER
        )
    return InputDataset(namespace=namespace, name=name, facets=_facets(one, namespace), inputFacets=facets)


def _output(one: LineageDataset) -> OutputDataset:
    from openlineage.client.event_v2 import OutputDataset
    from openlineage.client.facet_v2 import output_statistics_output_dataset as statistics

    namespace, name = one.names
    facets: dict[str, Any] = {}
    if one.rows is not None:
        facets["outputStatistics"] = statistics.OutputStatisticsOutputDatasetFacet(
            rowCount=one.rows, size=one.bytes, fileCount=one.files, producer=PRODUCER
        )
    return OutputDataset(namespace=namespace, name=name, facets=_facets(one, namespace), outputFacets=facets)


def _facets(one: LineageDataset, namespace: str) -> dict[str, Any]:
    from openlineage.client.facet_v2 import dataset_version_dataset, datasource_dataset, schema_dataset

    uri = namespace if "://" in namespace else f"{namespace}://"
    found: dict[str, Any] = {
        "dataSource": datasource_dataset.DatasourceDatasetFacet(name=namespace, uri=uri, producer=PRODUCER)
    }
    if one.fields is not None:
        fields = [schema_dataset.SchemaDatasetFacetFields(name=name, type=kind) for name, kind in one.fields]
        found["schema"] = schema_dataset.SchemaDatasetFacet(fields=fields, producer=PRODUCER)
    if one.version is not None:
        found["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(one.version, producer=PRODUCER)
    return found
