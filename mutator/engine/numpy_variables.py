"""Variables that numpy reads when it is loaded, for the processes of mutator.

This module imports nothing else: the command sets them before it loads numpy.
"""

import os
import sys

_THREADS, _DISABLED, _ENABLED = "OPENBLAS_NUM_THREADS", "NPY_DISABLE_CPU_FEATURES", "NPY_ENABLE_CPU_FEATURES"
_AVX512 = "AVX512_SKX X86_V4"
_PROCESSORS = "/proc/cpuinfo"


def numpy_variables() -> dict[str, str]:
    """Return the variables and their values; a value that the user set wins.

    For linear algebra, which mutator does not use, numpy starts a thread per core, and at first these take processor
    time: one thread is enough.
    """
    return {_THREADS: os.environ.get(_THREADS, "1"), **disabled_features()}


def disabled_features() -> dict[str, str]:
    """Return the variable that disables instructions with which numpy is slower than without; none elsewhere.

    Where a processor has AVX-512, numpy sorts with it. On AMD's Zen 4, one of its instructions is so slow that a sort
    of whole numbers takes five times as long as with AVX2 (numpy/x86-simd-sort, issue 6). OpenJDK does not sort with
    AVX-512 on these processors either (JDK-8317976).
    """
    if _DISABLED in os.environ:
        return {_DISABLED: os.environ[_DISABLED]}
    if _ENABLED in os.environ or not _sorts_slowly():  # numpy accepts one of the two variables
        return {}
    return {_DISABLED: _AVX512}


def _sorts_slowly() -> bool:
    """Return whether numpy sorts faster without AVX-512, and can do without it.

    numpy 2.4 renamed the feature. Each version gives an ImportWarning, which is ignored by default, about the name that
    it lacks. A numpy built for one processor does not load without its instructions; those from PyPI do, and have the
    libraries that they need beside them.
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
