"""A real S3 server (moto's) as a process on loopback, which can misbehave as bad servers and networks do.

ignore    conditions of puts are not looked at, as some servers do that speak S3's protocol
unknown   a put with a condition is answered with 501 NotImplemented, as others do
deny      requests of these methods are answered with 403 AccessDenied
lose      the answer to the next so-many-th writing request gets lost: it is done, and 500 is the answer
lose_each the same for every so-many-th writing request
cut       the body of the next so-many-th answer to a GET ends after half of it
wait      every request is answered so many seconds later
"""

import itertools
import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
import uuid
from contextlib import contextmanager

import pytest

QUIET = {"ignore": False, "unknown": False, "deny": "", "lose": 0, "lose_each": 0, "cut": 0, "wait": 0}
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}


class Server:
    """A running server, and a bucket of its own for each test."""

    def __init__(self, url):
        self.url = url

    @property
    def environment(self):
        """The environment variables by which a process finds the server."""
        return CREDENTIALS | {"AWS_ENDPOINT_URL": self.url}

    def client(self):
        import boto3

        names = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": "us-east-1"}
        return boto3.client("s3", endpoint_url=self.url, **names)

    def bucket(self):
        """Create a new bucket; return its path."""
        name = f"lake-{uuid.uuid4().hex[:12]}"
        self.client().create_bucket(Bucket=name)
        return f"s3://{name}"

    def behave(self, **how):
        """Set the faults of the server from now on; return the most requests that waited at once before."""
        data = json.dumps(QUIET | how).encode()
        with urllib.request.urlopen(urllib.request.Request(f"{self.url}/_behave", data, method="POST")) as answer:
            return int(answer.read())

    def uploads(self, path):
        """Return the keys of the unfinished uploads in a bucket."""
        found = self.client().list_multipart_uploads(Bucket=path.split("/")[2])
        return [one["Key"] for one in found.get("Uploads", ())]


@contextmanager
def s3_server():
    """Start a server; it ends with the ``with`` block, or with this process."""
    with subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            yield Server(f"http://127.0.0.1:{int(process.stdout.readline())}")
        finally:
            process.kill()


@pytest.fixture(scope="session")
def s3():
    """The server of all tests of this session; its address and credentials are in the environment."""
    with s3_server() as server, pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment.items():
            patch.setenv(name, value)
        patch.delenv("AWS_PROFILE", raising=False)
        patch.setenv("AWS_MAX_ATTEMPTS", "3")
        yield server


class Faults:
    """The proxy in front of the server."""

    def __init__(self, application):
        self._application = application
        self._how = dict(QUIET)
        self._lock = threading.Lock()
        self._one = threading.Lock()
        self._written = itertools.count(1)
        self._now = 0  # requests that wait for their answer
        self._most = 0  # of them, since the faults were set

    def __call__(self, environ, start_response):
        if environ["PATH_INFO"] == "/_behave":
            with self._lock:
                self._how = json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
                most, self._most = b"%d" % self._most, self._now
            start_response("200 OK", [("Content-Length", str(len(most)))])
            return [most]
        method = environ["REQUEST_METHOD"]
        with self._lock:
            ignore, unknown, deny = self._how["ignore"], self._how["unknown"], self._how["deny"]
            writes = method in ("PUT", "POST", "DELETE")
            lose = writes and (self._counted("lose") or self._is_each("lose_each"))
            cut = method == "GET" and self._counted("cut")
            self._now += 1
            self._most = max(self._most, self._now)
        try:
            time.sleep(self._how["wait"])
        finally:
            with self._lock:
                self._now -= 1
        if unknown and "HTTP_IF_NONE_MATCH" in environ:
            return _error(start_response, "501 Not Implemented", "NotImplemented")
        if ignore:
            environ.pop("HTTP_IF_NONE_MATCH", None)
        if deny and method in deny:
            return _error(start_response, "403 Forbidden", "AccessDenied")
        if lose:
            b"".join(self._run(environ, lambda *_: None))
            return _error(start_response, "500 Internal Server Error", "InternalError")
        answer = self._run(environ, start_response)
        if cut:
            body = b"".join(answer)
            return [body[: len(body) // 2]]
        return answer

    def _run(self, environ, start_response):
        if "HTTP_IF_NONE_MATCH" not in environ:
            return self._application(environ, start_response)
        with self._one:  # moto checks and then writes, which S3 does in one step
            return list(self._application(environ, start_response))

    def _is_each(self, name):
        """Return whether a fault of every so-many-th request is one of this request."""
        return self._how[name] and next(self._written) % self._how[name] == 0

    def _counted(self, name):
        """Return whether the countdown of a fault ends with this request."""
        if self._how[name] == 0:
            return False
        self._how[name] -= 1
        return self._how[name] == 0


def _error(start_response, status, code):
    body = f"<Error><Code>{code}</Code><Message>as told</Message></Error>".encode()
    start_response(status, [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
    return [body]


def main():
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Handler(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"  # connections are reused, as with every real server

        def log(self, *_):
            pass

    application = Faults(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=Handler)
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    server.serve_forever()


if __name__ == "__main__":
    main()
