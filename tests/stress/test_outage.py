"""Slack fails at random over 200 cards."""

from __future__ import annotations

import pytest

from tests.integration.test_delivery import Office, office, play_outage
from tests.stress.budget import full

__all__ = ["office"]


@pytest.mark.stress
@pytest.mark.parametrize("seed", range(5))
async def test_200_cards_through_an_outage(office: Office, seed: int) -> None:
    """Each card once, each line once, threads in order, whatever the dice say."""
    await play_outage(office, cards=full(200), seed=seed)
