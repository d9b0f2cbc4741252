"""Files of untouched partitions become files of the output without being read."""

import threading
from pathlib import Path
from typing import Any

import pytest

from mutator.dataset.checksum import whole
from mutator.dataset.directory import read_manifest
from mutator.engine.blocks import carry
from mutator.engine.partitions import partition_steps as steps
from mutator.errors import MutatorError
from mutator.storage import storage_for
from mutator.storage.local import LocalStorage
from tests.support import local_engine
from tests.support.patience import PATIENCE
from tests.support.plain_workflow import put

SETTINGS = {"id.field.ordinals": "0", "temporal.ordering.field.ordinal": "1", "partitioned.by": "shop=2"}
PARTITIONS = 48


@pytest.mark.thorough(keep=0)
def test_an_object_store_copies_several_files_at_once(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    root, carry, most = s3.bucket(), steps.carry_partitions, []
    put(f"{root}/base/1.txt", b"".join(b"k%d,1,s%d\n" % (number, number) for number in range(PARTITIONS)))
    put(f"{root}/feed/1.txt", b"k0,2,s0\n")
    settings = SETTINGS | {"key.scope": "partition"}
    local_engine.mutate(settings, master=f"{root}/base", feed=[], output=f"{root}/managed")

    def slow_carry(*arguments: Any) -> Any:
        s3.behave(wait=0.1)
        left = carry(*arguments)
        most.append(s3.behave())
        return left

    monkeypatch.setattr(steps, "carry_partitions", slow_carry)
    report = local_engine.mutate(
        settings, master=f"{root}/managed", feed=[f"{root}/feed"], output=f"{root}/next", tasks=2
    )

    assert report.carried == PARTITIONS - 1
    known = read_manifest(storage_for(root), f"{root}/next")
    assert known is not None
    assert len(known.files) == PARTITIONS
    assert max(most) > 4  # of the 16 requests at once that link files; the merge beside them has one or two


def files_to_copy(root: Path, count: int) -> list[tuple[str, str, str]]:
    """Write files; return (source, target, checksum) of each."""
    found = []
    for number in range(count):
        content = b"row %d\n" % number
        (root / f"{number}.txt").write_bytes(content)
        found.append((f"{root}/{number}.txt", f"{root}/copy-{number}.txt", whole(content)))
    return found


def test_a_task_copies_several_files_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each copy waits until another one has begun."""
    both, copy = threading.Barrier(2, timeout=PATIENCE), carry.carry_file

    def together(*part: str) -> None:
        both.wait()
        copy(*part)

    monkeypatch.setattr(LocalStorage, "link_new", lambda *_: False)
    monkeypatch.setattr(carry, "carry_file", together)
    parts = files_to_copy(tmp_path, 4)
    carry.copied(parts, 0, 0)

    assert [Path(target).read_bytes() for _, target, _ in parts] == [b"row %d\n" % number for number in range(4)]


def test_a_damaged_file_stops_the_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalStorage, "link_new", lambda *_: False)
    parts = files_to_copy(tmp_path, 4)
    (tmp_path / "1.txt").write_bytes(b"rot 1\n")
    with pytest.raises(MutatorError, match=r"1\.txt: its checksum is "):
        carry.copied(parts, 0, 0)

    assert not (tmp_path / "copy-1.txt").exists()
    assert not list(tmp_path.glob(".*"))
