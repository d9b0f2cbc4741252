"""The settings of an apply: those that a user gives, and for the others those that the table has recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mutator.config import Config
from mutator.config.audience import PYTHON
from mutator.config.definitions import MERGE_OF_FIELD, published
from mutator.config.feed_settings import OF_DELETES, OP, as_recorded, has_no_op_codes, is_full
from mutator.config.reader import completed
from mutator.config.sources import shown
from mutator.dataset.versions.snapshot import Snapshot
from mutator.errors import error
from mutator.errors.exceptions import said_to
from mutator.errors.parts import setting
from mutator.pipeline.master_settings import settings_of_state
from mutator.rules.envelope_kind import DIALECT
from mutator.rules.envelopes import OF_APPLIES

CALL = "mutator.Table"
_OPERATION = "write.operation"
SOURCE = "in the table"  # of settings that nobody set


def config_of_apply(snapshot: Snapshot, given: Mapping[str, Any], call: str = "apply") -> Config:
    """Return the configuration of an apply with some settings, by their keys: the others are those of the table.

    call: the method that errors name.
    """
    with said_to(PYTHON.writers):
        found = completed(given, recorded_settings(snapshot, given), f"{CALL}.{call}()", source=SOURCE)
    return found.read_by(PYTHON)


def with_operation(given: Mapping[str, Any], config: Config | None, operation: str) -> dict[str, Any]:
    """Return the settings of an overwrite: those of a user, and the operation. Raises ConfigError for another one."""
    known = given.get(_OPERATION, operation) if config is None else config.operation.name
    if known != operation:
        what = f"{setting('write.operation')} is {known}"
        raise error("argument.both", call=f"{CALL}.{operation}()", what=what, cure=f"leave it out, or set {operation}")
    return {**given, _OPERATION: operation}


def config_of_snapshot(snapshot: Snapshot) -> Config:
    """Return the configuration of a table, with no settings of a user."""
    return completed({}, recorded_settings(snapshot, {}), "mutator.Table", source=SOURCE)


def config_of_version(snapshot: Snapshot, settings: Mapping[str, Any]) -> Config:
    """Return the configuration of an earlier apply. settings: those that its version has recorded."""
    unset = dict.fromkeys(OF_APPLIES, "") if settings else {}  # those of later versions
    return completed(as_recorded(settings), recorded_settings(snapshot, {**unset, **settings}), CALL, source=SOURCE)


def recorded_settings(snapshot: Snapshot, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a table that a user has not set. settings: those of the user; an empty one is set, too.

    A feed without op codes needs none of the settings of deletes that the other feeds have.
    """
    given = set(map(published, settings))
    if is_full(settings) or (has_no_op_codes(settings) and OP in map(published, snapshot.state.settings)):
        given.update(OF_DELETES)
    if not _reads_as_before(snapshot, settings) or (OP in given and DIALECT in snapshot.state.settings):
        given.update(OF_APPLIES)
    if snapshot.state.spec:
        given.add("order.epoch")  # that of the first apply
    own = {key: value for key, value in snapshot.state.settings.items() if published(key) not in given}
    if snapshot.state.spec:  # which has these, as the last apply that named them
        own = {key: value for key, value in own.items() if not key.startswith((MERGE_OF_FIELD, "noop.ignore"))}
    found = settings_of_state(snapshot.state, {**own, **settings}) if snapshot.state.spec else {}
    given.update(map(published, own))
    return {**{name: value for name, value in found.items() if published(name) not in given}, **own}


def _reads_as_before(snapshot: Snapshot, settings: Mapping[str, Any]) -> bool:
    """Return whether settings leave the dialect of the messages as the table has it."""
    known = snapshot.state.settings.get(DIALECT)
    return all(shown(value) == known for name, value in settings.items() if published(name) == DIALECT)
