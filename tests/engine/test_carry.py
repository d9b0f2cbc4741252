"""Files of untouched partitions become files of the output without being read."""

import time
from typing import Any

import pytest

from mutator.dataset.directory import read_manifest
from mutator.storage import storage_for
from tests.support import local_engine
from tests.support.plain_workflow import put

SETTINGS = {"id.field.ordinals": "0", "temporal.ordering.field.ordinal": "1", "partitioned.by": "shop=2"}
PARTITIONS, WAIT = 48, 0.1


@pytest.mark.thorough(keep=0)
def test_an_object_store_copies_several_files_at_once(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    root, carry, took = s3.bucket(), local_engine.carry_partitions, []
    put(f"{root}/base/1.txt", b"".join(b"k%d,1,s%d\n" % (number, number) for number in range(PARTITIONS)))
    put(f"{root}/feed/1.txt", b"k0,2,s0\n")
    settings = SETTINGS | {"key.scope": "partition"}
    local_engine.mutate(settings, master=f"{root}/base", feed=[], output=f"{root}/managed")

    def slow_carry(*arguments: Any) -> Any:
        s3.behave(wait=WAIT)
        began = time.monotonic()
        left = carry(*arguments)
        took.append(time.monotonic() - began)
        s3.behave()
        return left

    monkeypatch.setattr(local_engine, "carry_partitions", slow_carry)
    report = local_engine.mutate(
        settings, master=f"{root}/managed", feed=[f"{root}/feed"], output=f"{root}/next", tasks=2
    )

    assert report.carried == PARTITIONS - 1
    known = read_manifest(storage_for(root), f"{root}/next")
    assert known is not None
    assert len(known.files) == PARTITIONS
    print(f"{took[0]:.1f} s")  # noqa: T201  # with -s
    assert took[0] < PARTITIONS * WAIT  # one after the other they would take three requests each
