"""Order values in several units: seconds and milliseconds since 1970 cannot be compared."""

from collections.abc import Iterator

from mutator.errors import error
from mutator.errors.display import counted, value_in_quotes
from mutator.errors.parts import MASTER, setting
from mutator.pipeline.accounting import Result
from mutator.plan.reading import Reading
from mutator.plan.run_plan import Plan
from mutator.rules.order_units import joined, several_units
from mutator.rules.order_values import order_text

_SIDES = {"feed": "{rows} of the feed", "master": f"{{rows}} of {MASTER} that mutations met"}


def check_order_max(plan: Plan, result: Result) -> None:
    """Raise DataError for order values of the feed above ``order.max``."""
    if plan.order_max is not None and result.future is not None:
        rows, lowest = result.future
        shown = [plan.shown.order_text(order_text(plan.rows.order_type, one)) for one in (plan.order_max, lowest)]
        raise error("order.max", rows=counted(rows, "row"), most=shown[0], lowest=shown[1])


def future_warnings(plan: Reading, result: Result) -> Iterator[str]:
    """Yield a warning of order values in the future."""
    if plan.order_max is None and result.future is not None:
        rows, lowest = result.future
        shown = value_in_quotes(order_text(plan.rows.order_type, lowest) or "")
        have, they = ("has an order value", "it wins") if rows == 1 else ("have order values", "they win")
        yield (
            f"{counted(rows, 'row')} of the feed {have} in the future, from {shown} on: {they} against all mutations "
            f"until then; set {setting('order.max')} to stop such a run"
        )


def check_order_units(plan: Plan, result: Result) -> None:
    """Raise DataError if the order values of the feed, and of the records that it met, are times in several units."""
    if plan.limits.several_units or plan.by_file_name:
        return
    units = several_units(joined(result.units.values()))
    if not units:
        return
    found = []
    for side, text in _SIDES.items():
        of_side = result.units[side]
        for unit in units:
            if unit in of_side:
                count, lowest = of_side[unit]
                rows = text.format(rows=counted(count, "row"))
                example = plan.shown.order_text(order_text(plan.rows.order_type, lowest))
                found.append(f"{unit} in {rows}, such as {example}")
    raise error("order.units", found="; ".join(found))
