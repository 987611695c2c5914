"""A flood with groups at its full size."""

from __future__ import annotations

import pytest

from tests.integration.test_delivery import Office, office
from tests.integration.test_groups import flooded
from tests.stress.budget import full

__all__ = ["office"]


@pytest.mark.stress
async def test_a_flood_of_a_thousand_with_groups(office: Office) -> None:
    """A thousand requests, half of them in batches of five: each is shown, once, and groups in their order."""
    await flooded(office, full(100), full(500))
