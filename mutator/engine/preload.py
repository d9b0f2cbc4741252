"""Load what most tasks need, in the process that workers are forked from.

The libraries of JSON Lines and Avro take a tenth of the time that all others do: workers that read them load them.
"""

import numpy as np
import pyarrow as pa

from mutator.dataset.gc_pause import collect_rarely, spare_modules
from mutator.engine.hidden_pandas import pandas_hidden
from mutator.engine.partitions import partition_steps as partitions  # noqa: F401
from mutator.engine.records import record_steps as records  # noqa: F401
from mutator.engine.steps import merge  # noqa: F401
from mutator.formats.blocks.block_types import load_quick

load_quick()
collect_rarely()  # also in its workers
with pandas_hidden():
    pa.array([0])  # with the first array of a list, Arrow looks for pandas
    pa.array(np.zeros(1))  # with the first of numpy, for masked arrays
spare_modules()
