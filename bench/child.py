"""The process of one contender: ``python -m bench.child NAME FORMAT SCRATCH``, a JSON line in, a JSON line out.

Only this process measures time: from the paths to the result on disk, or from the address to the last byte.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.contenders.catalogue import Entry, find
from bench.contenders.contender import Contender, Skipped

if TYPE_CHECKING:
    from bench.contenders.transfers import Transfer

__all__ = ["main"]


def main(name: str, form: str, scratch: str) -> None:
    """Answer commands until standard input ends."""
    entry = find(name, form)
    # Output of libraries goes to the log; the pipe is only for answers.
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)
        contender: Contender | Transfer | None = None
        for line in sys.stdin:
            command = json.loads(line)
            answer: dict[str, Any]
            try:
                if contender is None:
                    contender = make(entry)
                answer = obey(contender, command, Path(scratch))
            except Skipped as why:
                answer = {"skipped": str(why)}
            except Exception as fault:  # noqa: BLE001  # the parent reports it, and continues
                traceback.print_exc()
                answer = blame(entry, fault)
            answers.write(json.dumps(answer) + "\n")
            answers.flush()
        if contender is not None:
            contender.stop()


def blame(entry: Entry, fault: Exception) -> dict[str, str]:
    """Return the answer for an exception: skipped if a module is missing, otherwise failed."""
    if isinstance(fault, ModuleNotFoundError) and fault.name in entry.needs:
        return {"skipped": f"{fault.name} is not installed"}
    first = (str(fault).strip() or "no message").splitlines()[0]
    return {"failed": f"{type(fault).__name__}: {first[:300]}"}


def make(entry: Entry) -> Contender | Transfer:
    """Import the contender's class and create an instance."""
    module, _, name = entry.where.partition(":")
    return getattr(importlib.import_module(f"bench.contenders.{module}"), name)(*entry.arguments)


def obey(contender: Contender | Transfer, command: dict[str, str], scratch: Path) -> dict[str, Any]:
    """Carry out one command, and return the answer."""
    paths = {name: Path(value) for name, value in command.items() if name != "do"}
    match command["do"]:
        case "start":
            return {"versions": contender.start(scratch)}
        case "prepare":
            contender.prepare(paths["master"], paths["state"])
        case "run":
            contender.reset()
            started = time.monotonic()
            ran = contender.run(paths["feed"], paths["output"])
            seconds = time.monotonic() - started
            figures = {"shuffled": ran.shuffled(), "more": ran.more, "steps": ran.steps}
            return {"seconds": seconds, "how": ran.how, **figures}
        case "export":
            made = contender.export(paths["output"], paths["to"])
            return {"directory": None if made is None else str(made)}
        case "write":
            started = time.monotonic()
            contender.write(paths["source"], command["address"])
            return {"seconds": time.monotonic() - started}
        case "read":
            started = time.monotonic()
            found = contender.read(command["address"])
            return {"seconds": time.monotonic() - started, "hash": found}
        case unknown:
            raise ValueError(unknown)
    return {}


if __name__ == "__main__":
    main(*sys.argv[1:])
