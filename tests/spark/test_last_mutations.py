"""`mutator.last_mutations` on an RDD of Python objects gives the same result as a dict."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from operator import itemgetter
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PythonException

import mutator

Mutation = tuple[Any, Any, str]  # key, precedence, operation

KEYS: dict[str, list[Any]] = {
    "text": ["", "a", "b", "\u00e9", "\U00010000", "\ue000"],
    "integers": [0, -1, -2, 7, 2**61 - 1, 2**64],
    "tuples": [("a", 1), ("a", 2), ("b", 0), ("", 0)],
    # Equal keys are one key, even if their types differ.
    "numbers": [1, 1.0, True, Decimal(1), 0, False, -0.0, 0.5, Decimal("0.5")],
    "dates": [date(2026, 1, 31), date(1969, 12, 31)],
}


# Not functions of this module, because the workers cannot import it.
FIRST, SECOND = itemgetter(0), itemgetter(1)


def last_of_each(mutations: list[Mutation], is_delete: Callable[[Mutation], bool]) -> dict[Any, Mutation]:
    found: dict[Any, Mutation] = {}
    for mutation in mutations:
        rank = (mutation[1], repr(mutation))
        if mutation[0] not in found or rank > (found[mutation[0]][1], repr(found[mutation[0]])):
            found[mutation[0]] = mutation
    return {key: mutation for key, mutation in found.items() if not is_delete(mutation)}


@pytest.mark.thorough(keep=0)
@pytest.mark.parametrize("partitions", [1, 2, 7])
@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS.keys())
def test_last_mutations_equal_those_of_a_dict(sc, keys, partitions):
    rng = random.Random(partitions)
    # Few precedences, so that repr() often decides.
    mutations = [(rng.choice(keys), rng.randrange(4), rng.choice("xyzD")) for _ in range(60)]
    expected = last_of_each(mutations, lambda m: m[2] == "D")

    made = mutator.last_mutations(
        sc.parallelize(mutations, 3),
        FIRST,
        SECOND,
        is_delete=lambda m: m[2] == "D",
        partitions=partitions,
    )
    parts = made.glom().collect()

    assert len(parts) == partitions
    assert sorted(map(repr, (m for part in parts for m in part))) == sorted(map(repr, expected.values()))
    for part in parts:
        assert [m[0] for m in part] == sorted(m[0] for m in part)


def test_last_mutations_without_deletes_keep_the_number_of_partitions(sc):
    made = mutator.last_mutations(sc.parallelize([("a", 1, "x"), ("b", 1, "D"), ("a", 0, "y")], 2), FIRST, SECOND)

    assert made.getNumPartitions() == 2
    assert sorted(made.collect()) == [("a", 1, "x"), ("b", 1, "D")]


def test_last_mutations_refuses_a_key_without_a_stable_hash(sc):
    mutations = sc.parallelize([(frozenset("a"), 1, "x")], 2)

    # Spark 3.5 raises the JVM's exception, Spark 4 an exception of its own.
    with pytest.raises((Py4JJavaError, PythonException), match="a key of type frozenset has no canonical bytes"):
        mutator.last_mutations(mutations, FIRST, SECOND).collect()
