"""A proxy in front of a NameNode that loses answers: it forwards a call, and breaks the connection when it is answered.

with lossy_proxy("127.0.0.1:8020", b"rename", every=3) as address:
    Table(f"hdfs://{address}/table")
"""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_MOST = 1 << 16  # bytes that are forwarded at once


@contextmanager
def lossy_proxy(target: str, method: bytes, every: int) -> Iterator[str]:
    """Yield the address of a proxy that loses the answer to every so-many-th call of a method.

    method: with which the name of the call begins; Hadoop's protocol has it as text.
    """
    host, _, port = target.rpartition(":")
    calls = itertools.count(1)

    def serve(client: socket.socket) -> None:
        with client, socket.create_connection((host, int(port))) as server:
            lost = threading.Event()
            answers = threading.Thread(target=forward_answers, args=(server, client, lost), daemon=True)
            answers.start()
            with suppress(OSError):
                while data := client.recv(_MOST):
                    if method in data and next(calls) % every == 0:
                        lost.set()
                    server.sendall(data)
            with suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)
            answers.join()

    def forward_answers(server: socket.socket, client: socket.socket, lost: threading.Event) -> None:
        with suppress(OSError):
            while data := server.recv(_MOST):
                if lost.is_set():
                    break
                client.sendall(data)
        with suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)

    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            with suppress(OSError):  # the listener was closed
                while True:
                    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)  # ends ``accept`` in its thread
