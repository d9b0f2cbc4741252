"""Another default of a setting, as a later release may have it."""

from collections.abc import Iterator
from dataclasses import Field, fields, is_dataclass
from typing import Any

import pytest

from mutator.config import Config
from mutator.config.definitions import SETTINGS, newest_defaults


def change_default(monkeypatch: pytest.MonkeyPatch, name: str, default: str | None) -> None:
    """Give a setting another default, and keep the one before for the runs that had it."""
    known, version = SETTINGS[name], newest_defaults()
    later = known._replace(default=default, earlier={**known.earlier, version: known.default})
    monkeypatch.setitem(SETTINGS, name, later)  # type: ignore[arg-type]
    for one in _attributes(Config):
        if one.metadata["setting"].name == name:
            monkeypatch.setattr(one, "default", later.by_default(one.metadata["otherwise"]))


def _attributes(spec: Any) -> Iterator[Field[Any]]:
    """Yield the attributes of a spec and of the specs within."""
    for one in fields(spec):
        if is_dataclass(one.default_factory):
            yield from _attributes(one.default_factory)
        elif "setting" in one.metadata:
            yield one
