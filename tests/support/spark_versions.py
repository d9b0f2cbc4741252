"""What a Spark is too old for."""

from __future__ import annotations

import pyspark
import pytest

VERSION = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
NEEDS_SOURCES = pytest.mark.skipif(VERSION < (4, 1), reason='format("mutator") needs Spark 4.1 or newer')
