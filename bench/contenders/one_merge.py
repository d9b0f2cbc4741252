"""A user's script for one merge.

``python -m bench.contenders.one_merge MODULE:CLASS MASTER FEED OUTPUT SCRATCH [ARGUMENT]``
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

__all__ = ["main"]


def main(where: str, master: Path, feed: Path, output: Path, scratch: Path, *arguments: str) -> None:
    """Merge once with a contender of ``bench.contenders``, and end. arguments: of its class."""
    module, _, name = where.partition(":")
    contender = getattr(importlib.import_module(f"bench.contenders.{module}"), name)(*arguments)
    contender.start(scratch)
    contender.prepare(master, scratch)
    contender.run(feed, output)


if __name__ == "__main__":
    main(sys.argv[1], *map(Path, sys.argv[2:6]), *sys.argv[6:])
