"""Variables that numpy reads when it is loaded, for the processes of mutator.

This module imports nothing else: the command sets them before it loads numpy.
"""

import os
import sys

_THREADS, _FEATURES = "OPENBLAS_NUM_THREADS", "NPY_DISABLE_CPU_FEATURES"
_PROCESSORS = "/proc/cpuinfo"


def numpy_variables() -> dict[str, str]:
    """Return the variables and their values; a value that the user set wins.

    For linear algebra, which mutator does not use, numpy starts a thread per core, and at first these take processor
    time: one thread is enough.

    Where a processor has AVX-512, numpy sorts with it. On AMD's Zen 4, one of the instructions for it is so slow that a
    sort of whole numbers takes five times as long as with AVX2 (numpy/x86-simd-sort, issue 6). OpenJDK does not sort
    with AVX-512 on these processors either (JDK-8317976).
    """
    found = {_THREADS: os.environ.get(_THREADS, "1")}
    features = os.environ.get(_FEATURES, "AVX512_SKX X86_V4" if _sorts_slowly() else None)
    return found if features is None else {**found, _FEATURES: features}


def _sorts_slowly() -> bool:
    """Return whether numpy sorts faster without AVX-512, and accepts that it is disabled.

    numpy before 2.4 has another name for it, and gives a warning, ignored unless options say otherwise, on a name that
    it does not know. A numpy built for one processor cannot do without its instructions, and does not load; those from
    PyPI can, and have the libraries that they need beside them.
    """
    if sys.warnoptions or not any(os.path.isdir(os.path.join(path, "numpy.libs")) for path in sys.path):
        return False
    try:
        with open(_PROCESSORS, "rb") as file:
            first = file.read(256).split(b"\n")
    except OSError:  # not Linux
        return False
    facts = {name.strip(): value.strip() for name, _, value in (line.partition(b":") for line in first)}
    return facts.get(b"vendor_id") == b"AuthenticAMD" and facts.get(b"cpu family") == b"25"
