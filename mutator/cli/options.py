"""What several commands share: options, and the answer that a command returns."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

__all__ = ["Answer", "partition_option", "settings_of"]


@dataclass(frozen=True)
class Answer:
    """What a command says."""

    text: str
    warnings: tuple[str, ...] = ()
    code: int = 0
    said: bool = True  # whether it says more than that there was nothing to do


def partition_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that partitions a master."""
    parser.add_argument(
        "--partitioned-by",
        metavar="FIELDS",
        help="the master has a directory for each value of these, for example store_id,day=date(ts); as partitioned.by",
    )


def settings_of(arguments: argparse.Namespace) -> list[str]:
    """Return the settings of a command line, those with options of their own among them."""
    by = arguments.partitioned_by
    return [*arguments.settings, *([] if by is None else [f"partitioned.by={by}"])]
