"""Load what most tasks need, in the process that workers are forked from.

Libraries for JSON Lines, Avro and ORC are loaded by the workers that read these formats.
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
    pa.array(np.zeros(1))  # with the first array of numpy, Arrow loads numpy.ma
spare_modules()
