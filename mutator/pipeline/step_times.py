"""The time that each step of a merge takes."""

import time
from collections.abc import Mapping


class StepTimes:
    """The seconds of the steps so far. The first step begins when this is made, each other one when the last ends."""

    def __init__(self) -> None:
        self._started = self._last = time.monotonic()
        self._seconds: dict[str, float] = {}

    def end(self, step: str) -> None:
        """End a step: it has taken the time since the last one ended."""
        now = time.monotonic()
        self._seconds[step] = self._seconds.get(step, 0.0) + now - self._last
        self._last = now

    @property
    def seconds(self) -> Mapping[str, float]:
        """The seconds of each step, in their order, to three decimals."""
        return {step: round(seconds, 3) for step, seconds in self._seconds.items()}

    @property
    def total(self) -> float:
        """The seconds from the beginning to the end of the last step, to three decimals."""
        return round(self._last - self._started, 3)
