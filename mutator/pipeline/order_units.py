"""Order values in several units: seconds and milliseconds since 1970 cannot be compared."""

from mutator.errors import error
from mutator.errors.display import counted
from mutator.pipeline.accounting import Result
from mutator.plan.run_plan import Plan
from mutator.rules.order_units import joined, several_units
from mutator.rules.order_values import order_text

_SIDES = {"feed": "{rows} of the feed", "master": "{rows} of the master that mutations met"}


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
