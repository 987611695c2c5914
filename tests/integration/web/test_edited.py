"""A word that a program carries is on what was looked at: an edit in between makes it stale."""

from __future__ import annotations

from uuid import UUID

from agent.domain.people import Standing
from agent.usecases import requests
from agent.usecases.requests import Edit
from signoff.values import Action
from tests.integration.asking import column
from tests.integration.web.conftest import LINUS, Street


async def edit(site: Street, request_id: str) -> None:
    """Linus makes it six records."""
    changed = Action("delete_records", "external", {"table_name": "customers", "count": 6})
    editor = Standing(LINUS, frozenset({"S0FINANCE"}))
    request = UUID(request_id)
    made = Edit(request, 1, editor, changed, None, None, "test", policy_epoch=1)
    await requests.edit(site.db, made)


async def test_an_edited_request_is_approved_only_by_its_revision(site: Street) -> None:
    """Without `revision` an approval of an edited request is 409 and recorded as stale; with it, it counts."""
    opened = (await (await site.program()).ask()).json()
    grace = await site.reviewer()
    await edit(site, opened["id"])
    blind = await grace.decide("r-1")
    assert (blind.status_code, blind.json()["type"]) == (409, "urn:signoff:stale-revision")
    assert await column(site.db, "SELECT count(*) FROM vote") == [0]
    assert (await grace.decide("r-1", revision=2)).json()["status"] == "approved"


async def test_a_no_needs_no_revision(site: Street) -> None:
    """Who rejects an edited request without naming its revision has rejected it."""
    opened = (await (await site.program()).ask()).json()
    await edit(site, opened["id"])
    assert (await (await site.reviewer()).decide("r-1", "rejected")).json()["status"] == "rejected"
