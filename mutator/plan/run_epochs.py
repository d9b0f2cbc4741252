"""Whether the order values of a run have room for epochs, a warning of an earlier epoch, and the epochs to record."""

from collections.abc import Iterator, Mapping
from typing import Any

from mutator.config.settings import OrderSpec
from mutator.errors import error
from mutator.errors.parts import MASTER, place, setting
from mutator.plan.inspect.survey import Survey
from mutator.plan.rows.row_plan import RowPlan
from mutator.rules.epochs import EPOCHS, epochs_in, text_of
from mutator.rules.order_types import POSITION
from mutator.rules.order_values import is_tuple

_ORDER = "temporal.ordering.field.ordinal"


def check_epochs(order: OrderSpec, rows: RowPlan, survey: Survey) -> None:
    """Raise ConfigError for an epoch of order values that have no room for one."""
    if order.epoch is None or (rows.orders_beside and is_tuple(rows.order_type)):
        return
    what = "order comes from file names"
    cure = f"have the files delivered with higher numbers, or put {POSITION} into {setting(_ORDER)} of a new master"
    if rows.orders_beside:
        what = f"{place(survey.master_path)} was begun without epochs, so its order values have no room for one"
        cure = f"mutator order PLACE --to {','.join(map(str, order.fields))} --beside gives them room"
        cure += "; after that, its rows are older than all mutations"
    elif not order.by_file_name:
        what, cure = "the order value is a part of the rows", f"put a field with the epoch first in {setting(_ORDER)}"
    raise error("config", where=setting("order.epoch"), faults=f"{what}; {cure}")


def epoch_notes(order: OrderSpec, rows: RowPlan) -> Iterator[str]:
    """Yield a note on the epochs of the rows of a run, if there was another one than the first."""
    if epochs_in(rows.spec).newest:
        of = [f"{epoch} of source {name}" for name, epoch in order.epochs.named.items()]
        yield f"rows of the feed are of epoch {', '.join([str(order.epochs.of_unnamed), *of])}"


def epoch_warnings(order: OrderSpec, rows: RowPlan, survey: Survey) -> Iterator[str]:
    """Yield a warning if an epoch in the settings is not the newest one, as it may be left from an earlier time.

    Yield one for a source that may be misspelt, too.
    """
    after, before = epochs_in(rows.spec), {} if survey.state is None else epochs_in(survey.state.spec).named
    seen = {name for one in survey.feed if one.wrapped is not None for name in one.wrapped.envelope.sources}
    for name, epoch in (order.epoch or {}).items():
        newest = after.of.get(name, epoch) if name else after.newest
        given = setting(f"order.epoch={text_of({name: epoch})}")
        if epoch < newest:
            of = f"epoch of source {name}" if name else f"newest epoch of {MASTER}"
            yield (
                f"{given}: the {of} is {newest}, so {'its rows in' if name else 'the rows of'} this run are "
                f"older than all rows of that one, and later runs are of {newest} again; leave it out if that is wrong"
            )
        elif name and survey.feed and name not in seen and name not in before:
            first = f"neither {MASTER} nor the first rows of the feed are of source {name}"
            yield f"{given}: {first}; check its name if no row is"


def recorded_epochs(spec: Mapping[str, Any], order: OrderSpec) -> dict[str, str]:
    """Return the setting of the epochs of a run, which explains its rows once others are the newest ones."""
    return {"order.epoch": text_of(order.epochs.of)} if EPOCHS in spec else {}
