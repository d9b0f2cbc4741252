"""Epochs: a source that begins again restarts its positions, and a number says which start an order value is of.

Every mutation of a later epoch is newer than each of an earlier one. A source may have a name in its rows, such as the
ID of a server: then the epoch of each row is that of its source. The rows of sources without a name are of the epoch
that a run is given, by default the newest one. A number without a name is also that of a source which is the only one.

A run can be of a lower epoch than the place: its rows are of before the source began again. Later runs are not.

>>> known = Epochs({"": 0, "11": 0})
>>> known.ranked({"22": 1}, ["11", "22"]).of, known.ranked({}, ["11"]).of
({'': 1, '11': 0, '22': 1}, {'': 0, '11': 0})
>>> again = known.after(known.ranked({"": 1}, ["11"]))
>>> again.of, again.after(again.ranked({"11": 0}, ["11"])).of
({'': 1, '11': 1}, {'': 1, '11': 1})
>>> known.ranked({}, ["22"])
Traceback (most recent call last):
mutator.rules.epochs.Unranked: ['22']
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

from mutator.errors.quick_dataclass import dataclass

EPOCHS = "epochs"  # in a manifest: the newest one, by "", and those of sources with names
UNNAMED = ""  # the sources without a name
_MOST = 2**63 - 1


class Unranked(ValueError):
    """The epochs of some sources are not known; ``sources`` has their names."""

    def __init__(self, sources: Sequence[str]) -> None:
        super().__init__(list(sources))
        self.sources = sources


@dataclass(frozen=True)
class Epochs:
    """The epochs of sources by their names; that of the rows without one is by ``UNNAMED``."""

    of: Mapping[str, int] = field(default_factory=dict, hash=False)

    @property
    def of_unnamed(self) -> int:
        """The epoch of rows that do not name their source."""
        return self.of.get(UNNAMED, 0)

    @property
    def named(self) -> dict[str, int]:
        """The epochs of sources with names."""
        return named_in(self.of)

    @property
    def newest(self) -> int:
        """The newest epoch."""
        return max(self.of.values(), default=0)

    def ranked(self, asked: Mapping[str, int], seen: Iterable[str]) -> Epochs:
        """Return the epochs of a run. asked: those that its user gives. seen: the sources that its rows name.

        The first source of a place needs no epoch of its own. Raises Unranked for another one without, and for those
        that a number without a name may be of.
        """
        given = named_in(asked)
        named = {**self.named, **given}
        sources = list(dict.fromkeys((*named, *seen)))
        without = [name for name in sources if name not in (given if UNNAMED in asked else named)]
        newest = asked.get(UNNAMED, max([self.newest, *named.values()]))
        if without and len(sources) > 1:
            raise Unranked(without)
        return Epochs({UNNAMED: newest, **named, **dict.fromkeys(without, newest)})

    def after(self, run: Epochs) -> Epochs:
        """Return the epochs of a place after a run. run: the epochs of the run; one of before lowers none."""
        highest = {name: max(epoch, self.of.get(name, 0)) for name, epoch in run.of.items()}
        return Epochs({**self.of, **highest, UNNAMED: max(self.newest, run.newest)})

    def spec(self) -> dict[str, dict[str, int]]:
        """Return the member of a manifest; none for a source that never began again and has no name."""
        return {EPOCHS: dict(sorted(self.of.items()))} if any(self.of.values()) or self.named else {}


NO_EPOCHS = Epochs()


def named_in(epochs: Mapping[str, int]) -> dict[str, int]:
    """Return the epochs of sources with names."""
    return {name: epoch for name, epoch in epochs.items() if name != UNNAMED}


def epochs_in(spec: Mapping[str, Any]) -> Epochs:
    """Return the epochs in a manifest."""
    return Epochs(spec[EPOCHS]) if EPOCHS in spec else NO_EPOCHS


def parse_epochs(parts: Sequence[Any]) -> dict[str, int]:
    """Read the epochs of sources: a number for those without a name, and ``NAME:NUMBER``.

    >>> parse_epochs(["1", "223344:0"]), parse_epochs([2])
    ({'': 1, '223344': 0}, {'': 2})
    """
    found = dict[str, int]()
    for part in parts:
        name, _, number = str(part).strip().rpartition(":")
        name, number = name.strip(), number.strip()
        if not (number.isascii() and number.isdigit()) or int(number[:20]) > _MOST or name in found:
            raise ValueError("must be a number from 0, or SOURCE:NUMBER, or several with commas between them")
        found[name] = int(number)
    return found


def text_of(epochs: Mapping[str, int]) -> str:
    """Write epochs as ``parse_epochs`` reads them.

    >>> text_of({"": 1, "223344": 0})
    '1,223344:0'
    """
    return ",".join(f"{name}:{epoch}" if name else str(epoch) for name, epoch in epochs.items())


def cure_of(source: str, known: Epochs) -> str:
    """Return how a source gets its epoch, for the reason of a reject.

    >>> cure_of("22", Epochs({"": 0, "11": 0}))
    'set its epoch, as in order.epoch=11:0,22:1 if it began after the others'
    """
    later = text_of({**known.named, source: known.newest + 1})
    return f"set its epoch, as in order.epoch={later} if it began after the others"


_CURE = re.compile(r"set its epoch, as in order\.epoch=(\S+) if it began after the others$")


def cured(reasons: Iterable[str]) -> dict[str, int]:
    """Return the epochs that would cure rejects, each source later than those before; {} if no reason is this one.

    >>> known = Epochs({"": 0, "11": 0})
    >>> cured([cure_of("22", known), "has no key", cure_of("33", known)])
    {'11': 0, '22': 1, '33': 2}
    """
    found = dict[str, int]()
    for one in filter(None, map(_CURE.search, reasons)):
        for name, epoch in parse_epochs(one[1].split(",")).items():
            found.setdefault(name, max([epoch, *(known + 1 for known in found.values())]) if epoch else 0)
    return found
