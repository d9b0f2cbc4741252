"""Debezium's engine: it captures the changes of tables, and gives their messages as files of Kafka Connect have them.

    with Engine(properties_of_connectors) as engine:
        wait_until(lambda: engine.have("public.signals", b'"id":"end"'))
    engine.messages[0]["public.items"]  # values as JSON, in the order of arrival

`make debezium` fetches its jars to build/debezium; where they are missing, the test fails. Its JVM ends with this
process.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pyspark
from py4j.java_gateway import CallbackServerParameters, GatewayParameters, JavaGateway, launch_gateway

from tests.support.cluster import ROOT

JARS = ROOT / "build" / "debezium"
# What is the same for each connector, and on for a merge: all codes, and the order within a transaction
COMMON = {
    "offset.storage": "org.apache.kafka.connect.storage.MemoryOffsetBackingStore",
    "skipped.operations": "none",
    "provide.transaction.metadata": "true",
    "poll.interval.ms": "50",
}
_LOGGING = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx1g")


class _Consumer:
    """Takes the messages of an engine; py4j calls it."""

    def __init__(self) -> None:
        self.messages: dict[str, list[bytes]] = defaultdict(list)
        self.fault = ""  # that ended the engine

    def accept(self, event: Any) -> None:
        """Take a message."""
        topic, value = event.destination().partition(".")[2], event.value()  # without topic.prefix
        self.messages[topic].append(b"null" if value is None else value.encode())

    def handle(self, worked: bool, message: str, error: Any) -> None:
        """Take the end of the engine."""
        self.fault = "" if worked else f"{message}: {error and error.toString()}"

    class Java:
        """The interfaces that this is, for py4j."""

        implements: ClassVar[list[str]] = [
            "java.util.function.Consumer",
            "io.debezium.engine.DebeziumEngine$CompletionCallback",
        ]


class Engine:
    """An engine for each connector, in one JVM."""

    def __init__(self, connectors: Sequence[Mapping[str, str]]) -> None:
        if not any(JARS.glob("debezium-embedded-*.jar")):
            raise FileNotFoundError(f"the jars of Debezium are not in {JARS}: make debezium")
        self._connectors = connectors
        self._consumers = [_Consumer() for _ in connectors]

    @property
    def messages(self) -> list[Mapping[str, list[bytes]]]:
        """The messages of each engine, by topic."""
        return [one.messages for one in self._consumers]

    def __enter__(self) -> Engine:
        jar = next((Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar"))
        java = os.path.join(os.environ["JAVA_HOME"], "bin", "java") if "JAVA_HOME" in os.environ else "java"
        port, token = launch_gateway(
            jarpath=str(jar),
            classpath=str(JARS / "*"),
            javaopts=[*_LOGGING],
            java_path=java,
            die_on_exit=True,
            enable_auth=True,
            redirect_stdout=subprocess.DEVNULL,
            redirect_stderr=sys.stderr,
        )
        own = CallbackServerParameters(port=0, daemonize=True, daemonize_connections=True)
        self._gateway = JavaGateway(
            gateway_parameters=GatewayParameters(port=port, auth_token=token), callback_server_parameters=own
        )
        server = self._gateway.java_gateway_server
        address = server.getCallbackClient().getAddress()
        server.resetCallbackClient(address, self._gateway.get_callback_server().get_listening_port())
        self._engines = [self._start(*one) for one in zip(self._connectors, self._consumers, strict=True)]
        return self

    def _start(self, properties: Mapping[str, str], consumer: _Consumer) -> Any:
        java = self._gateway.jvm.java
        found = java.util.Properties()
        for name, value in {**COMMON, **properties}.items():
            found.setProperty(name, value)
        form = java.lang.Class.forName("io.debezium.engine.format.Json")
        debezium = self._gateway.jvm.io.debezium.engine.DebeziumEngine
        engine = debezium.create(form).using(found).using(consumer).notifying(consumer).build()
        java.lang.Thread(engine).start()
        return engine

    def have(self, topic: str, part: bytes) -> bool:
        """Return whether each engine has given a message with some bytes. Raises RuntimeError if one has ended."""
        for one in self._consumers:
            if one.fault:
                raise RuntimeError(one.fault)
        return all(any(part in message for message in [*one.messages[topic]]) for one in self._consumers)

    def __exit__(self, *_: object) -> None:
        for engine in self._engines:
            engine.close()
        self._gateway.shutdown()
