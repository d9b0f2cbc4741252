"""numpy leaves out AVX-512 where it sorts slowly with it, can do without, and the user set nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

from mutator.engine import numpy_variables as module
from mutator.engine.numpy_variables import numpy_variables

AMD, INTEL = "AuthenticAMD", "GenuineIntel"
SLOW = "AVX512_SKX X86_V4"


@pytest.mark.parametrize(
    ("vendor", "family", "wheel", "given", "expected"),
    [
        (AMD, 25, True, None, SLOW),
        (AMD, 25, True, "", ""),  # the user wants all features
        (AMD, 25, True, "X86_V3", "X86_V3"),
        (AMD, 25, False, None, None),  # built for this processor
        (AMD, 26, True, None, None),
        (INTEL, 25, True, None, None),
        (None, 0, True, None, None),
    ],
)
def test_features_are_disabled(
    vendor: str | None,
    family: int,
    wheel: bool,
    given: str | None,
    expected: str | None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    processors = tmp_path / "cpuinfo"
    if vendor is not None:
        processors.write_text(f"processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: 17\n")
    if wheel:
        (tmp_path / "numpy.libs").mkdir()
    monkeypatch.setattr(module, "_PROCESSORS", str(processors))
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.setattr(sys, "warnoptions", [])
    monkeypatch.delenv("NPY_DISABLE_CPU_FEATURES", raising=False)
    if given is not None:
        monkeypatch.setenv("NPY_DISABLE_CPU_FEATURES", given)
    assert numpy_variables().get("NPY_DISABLE_CPU_FEATURES") == expected
    monkeypatch.setattr(sys, "warnoptions", ["error"])  # the name that this numpy does not know would be an error
    assert numpy_variables().get("NPY_DISABLE_CPU_FEATURES") == given
    monkeypatch.setattr(sys, "warnoptions", [])
    monkeypatch.setenv("NPY_ENABLE_CPU_FEATURES", "X86_V4")  # numpy accepts one of the two variables
    assert numpy_variables().get("NPY_DISABLE_CPU_FEATURES") == given


def test_numpy_accepts_the_names() -> None:
    program = "import numpy; print(numpy.sort(numpy.array([3, 1, 2])).tolist())"
    words, variables = [sys.executable, "-c", program], {"NPY_DISABLE_CPU_FEATURES": SLOW}
    done = subprocess.run(words, env=variables, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("[1, 2, 3]\n", "")
