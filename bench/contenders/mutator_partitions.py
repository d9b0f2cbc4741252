"""mutator itself, on a master with partitions."""

from __future__ import annotations

from pathlib import Path

from bench.contenders.contender import Skipped
from bench.contenders.mutator_merge import Mutator
from bench.layout import PARTITIONED_SETTINGS, format_of

__all__ = ["MutatorPartitions"]


class MutatorPartitions(Mutator):
    """``mutator.mutate`` with ``partitioned.by``, and a scope of keys."""

    def __init__(self, scope: str) -> None:
        super().__init__("aligned")
        self.more_settings = {"key.scope": scope}

    def start(self, scratch: Path) -> dict[str, str]:
        """Start Spark; skip if this version of mutator does not support partitions."""
        import mutator

        try:
            mutator.parse(PARTITIONED_SETTINGS["text"] | self.more_settings)
        except mutator.ConfigError:
            raise Skipped("this version has no settings partitioned.by and key.scope") from None
        return super().start(scratch)

    def settings_for(self, master: Path) -> dict[str, str]:
        """Return mutator's settings for these rows."""
        return PARTITIONED_SETTINGS[format_of(master)] | self.more_settings
