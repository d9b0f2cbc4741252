"""The owner of a lock or staging directory: a process, described so that others can find out whether it still runs."""

from __future__ import annotations

import json
import os
import socket
import uuid
from dataclasses import asdict
from datetime import UTC, datetime

from mutator.errors.quick_dataclass import dataclass

_ZOMBIE = "Z"  # state of a process that has ended, but whose parent has not asked for its exit code


@dataclass(frozen=True)
class Owner:
    """A process and its task."""

    id: str
    run: str  # its task: a run's ID, run, restore, look
    host: str
    system: str  # boot and process namespace, within which a process number is unique
    process: int
    born: str  # when the process started, by the kernel: a later process may have the same number
    since: str
    timeout: float  # seconds without a renewal after which it counts as dead

    @classmethod
    def this_process(cls, run: str, timeout: float) -> Owner:
        """Return this process as a new owner."""
        return cls(
            id=uuid.uuid4().hex,
            run=run,
            host=socket.gethostname(),
            system=_system(),
            process=os.getpid(),
            born=_born(os.getpid()),
            since=datetime.now(UTC).isoformat(timespec="seconds"),
            timeout=timeout,
        )

    @classmethod
    def parse(cls, data: bytes) -> Owner | None:
        """Parse the result of ``dump``; None for other data."""
        try:
            return cls(**json.loads(data))
        except (ValueError, TypeError):
            return None

    def dump(self) -> bytes:
        """Return the owner as JSON."""
        return json.dumps(asdict(self)).encode("ascii")

    def is_this_process(self) -> bool:
        """Return whether the owner is this process."""
        mine = Owner.this_process("", 0)
        return (self.host, self.system, self.process, self.born) == (mine.host, mine.system, mine.process, mine.born)

    def has_ended(self) -> bool:
        """Return whether the process is known to have ended; False if that cannot be seen from this machine."""
        if not self.system or (self.host, self.system) != (socket.gethostname(), _system()):
            return False
        try:
            os.kill(self.process, 0)
        except ProcessLookupError:
            return True
        except OSError:
            return False
        return _state(self.process) == _ZOMBIE or _born(self.process) not in ("", self.born)


def _system() -> str:
    """Return the boot of this machine and the namespace of its process numbers; empty if unknown."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as stream:
            return f"{stream.read().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _born(process: int) -> str:
    """Return when a process started, in ticks since boot; empty if it does not exist, or unknown."""
    return _stat(process, 19)


def _state(process: int) -> str:
    """Return the state of a process as a letter; empty if it does not exist, or unknown."""
    try:
        threads = len(os.listdir(f"/proc/{process}/task"))
    except OSError:
        return ""
    return _stat(process, 0) if threads == 1 else ""  # the first thread may end before the others


def _stat(process: int, field: int) -> str:
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as stream:
            return stream.read().rpartition(")")[2].split()[field]
    except (OSError, IndexError):
        return ""
