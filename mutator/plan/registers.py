"""Choose the register of a run, for merges and for explain."""

from mutator.config.settings import Config
from mutator.plan.rows.row_plan import RowPlan
from mutator.rules.last_wins import LAST_WINS, SNAPSHOT
from mutator.rules.register import Register


def register_of(config: Config, rows: RowPlan, *, full: bool) -> Register:
    """Return the register of a run. rows: where a register finds fields. full: the feed is a snapshot."""
    return SNAPSHOT if full else LAST_WINS
