"""Races for the last use of a grant, and for the last unit of its sum, many times over."""

from __future__ import annotations

from decimal import Decimal
from uuid import UUID

import pytest

from agent.database.pools import Database
from tests.integration.granting import race
from tests.stress.budget import full

ROUNDS = full(500)


@pytest.mark.stress
async def test_no_race_overdraws_a_grant(database: Database) -> None:
    """Twenty workers ask at once, in every round: exactly as many begin as uses, or the sum, allow."""
    waiting: list[tuple[UUID, UUID]] = []
    for number in range(ROUNDS):
        by_sum = number % 2
        terms = {"max_uses": 50, "max_sum": Decimal(4500)} if by_sum else {"sum_of": None, "max_sum": None}
        assert await race(database, waiting, **terms) == 3, number
