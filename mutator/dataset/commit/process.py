"""Who is at work: what a process writes down of itself where others may have to find out whether it is still there."""

from __future__ import annotations

import json
import os
import socket
import uuid
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

__all__ = ["Owner"]


@dataclass(frozen=True)
class Owner:
    """A process, and what it does."""

    id: str
    run: str  # what it does: a run's id, run, restore, look
    host: str
    system: str  # boot and process namespace: where a process number means something
    process: int
    born: str  # when the process started, as the kernel counts; tells it from a later one of the same number
    since: str
    timeout: float  # seconds without a sign of life after which it is taken for dead

    @classmethod
    def this_process(cls, run: str, timeout: float) -> Owner:
        """Return this process as an owner of its own."""
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
        """Read what ``dump`` made; None for what is something else."""
        try:
            return cls(**json.loads(data))
        except (ValueError, TypeError):
            return None

    def dump(self) -> bytes:
        """Return it as JSON."""
        return json.dumps(asdict(self)).encode("ascii")

    def is_this_process(self) -> bool:
        """Tell whether it is the process that asks."""
        mine = Owner.this_process("", 0)
        return (self.host, self.system, self.process, self.born) == (mine.host, mine.system, mine.process, mine.born)

    def has_ended(self) -> bool:
        """Tell whether the process is known to be gone; False where that cannot be seen from here."""
        if not self.system or (self.host, self.system) != (socket.gethostname(), _system()):
            return False
        try:
            os.kill(self.process, 0)
        except ProcessLookupError:
            return True
        except OSError:
            return False
        return _born(self.process) not in ("", self.born)


def _system() -> str:
    """Return the boot of this machine and the namespace of its process numbers; empty where nobody can say."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as stream:
            return f"{stream.read().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _born(process: int) -> str:
    """Return when a process started, in ticks since the machine did; empty where it is not there, or nobody can say."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as stream:
            return stream.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""
