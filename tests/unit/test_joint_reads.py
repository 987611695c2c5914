"""Reads that share a query, without a database: what fails, and for whom."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from agent.database.errors import DatabaseUnavailable
from agent.usecases.joint_reads import JointRead


async def test_what_cannot_be_read_fails_alone() -> None:
    """An entry that nobody can read, as one of a later release, keeps no other caller from reading his own."""

    reads = 0

    async def read(keys: list[int]) -> Mapping[int, str]:
        nonlocal reads
        reads += 1
        if 2 in keys:
            raise ValueError("an unknown state")
        return {key: f"number {key}" for key in keys if key != 3}

    joint = JointRead(read)
    keys = (1, 2, 3, 4, 2)
    found = await asyncio.gather(*(joint.get(key) for key in keys), return_exceptions=True)
    failed = [isinstance(each, ValueError) for each in found]
    assert failed == [key == 2 for key in keys]
    assert [found[0], *found[2:4]] == ["number 1", None, "number 4"]
    reads = 0
    await asyncio.gather(*(joint.get(key) for key in range(1_000)), return_exceptions=True)
    assert reads <= 21  # halves, not one by one


async def test_a_database_that_is_away_is_asked_once() -> None:
    """Callers who share a query share its failure: a database that is away is not asked for each of them."""
    asked: list[list[int]] = []

    async def read(keys: list[int]) -> Mapping[int, str]:
        asked.append(keys)
        raise DatabaseUnavailable("away")

    joint = JointRead(read)
    found = await asyncio.gather(*(joint.get(key) for key in (1, 2, 3)), return_exceptions=True)
    assert asked == [[1, 2, 3]]
    assert [type(each) for each in found] == [DatabaseUnavailable] * 3
    with pytest.raises(DatabaseUnavailable):
        await joint.get(4)
