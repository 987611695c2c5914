"""Forms that another site, or another person's page, makes a signed-in browser send: each is refused."""

from __future__ import annotations

import re
from uuid import UUID

import httpx
from fastapi.routing import iter_route_contexts

from agent.store import views
from slackbot.web import inbox
from slackbot.web.inbox import sign_in
from tests.integration.service.conftest import http_house  # noqa: F401
from tests.integration.web.visiting import Porch, Visitor, porch  # noqa: F401

REFUSED = "a page that is no longer valid"
FORMS = sorted(
    context.path or ""
    for context in iter_route_contexts([*inbox.router.routes, *sign_in.router.routes])
    if "POST" in (context.methods or ())
)


async def test_a_form_counts_only_from_a_page_of_its_sender(porch: Porch) -> None:  # noqa: F811
    """Refused, with nothing changed: no token, somebody else's, a foreign `Origin`, none; their own page's is read."""
    assert {"/inbox/requests/{request_id}/approve", "/inbox/pause", "/sign-out"} < set(FORMS)
    asked = await porch.asked(7)
    (run_id,) = await porch.house.column("SELECT id FROM agent_run")
    forms = [
        re.sub(r"{\w+}", str(run_id) if path.startswith("/inbox/runs") else asked, path)
        for path in FORMS
        if path != sign_in.LINK  # it signs in whoever has none of our tokens yet
    ]
    ada, grace = await porch.visitor("U0ADA"), await porch.visitor("U0GRACE")
    await ada.open("/inbox/runs")
    await grace.open("/inbox/runs")
    before = await _facts(porch, UUID(asked))
    own, ours = {"Origin": str(ada.browser.base_url).rstrip("/")}, {"token": _token(ada)}
    form = {"revision": "1", "agent": "data", "task": "count"}
    for path in forms:
        for headers, token in (
            (own, {}),
            (own, {"token": ""}),
            (own, {"token": _token(grace)}),
            ({}, ours),
            ({"Origin": "https://evil.example"}, ours),
            ({"Origin": "null"}, ours),
            ({"Sec-Fetch-Site": "cross-site"}, ours),
        ):
            answer = await ada.browser.post(path, data=form | token, headers=headers)
            assert _is_refused(answer), (path, headers, token)
    assert await _facts(porch, UUID(asked)) == before
    for path in forms:  # signing out comes last
        assert not _is_refused(await ada.browser.post(path, data=form | ours, headers=own)), path


def _is_refused(answer: httpx.Response) -> bool:
    return answer.status_code == 403 and REFUSED in answer.text


def _token(visitor: Visitor) -> str:
    found = re.search(r'name="token" value="([0-9a-f]{64})"', visitor.page)
    assert found
    return found[1]


async def _facts(porch: Porch, request_id: UUID) -> tuple[object, ...]:  # noqa: F811
    """All that a form could change: every chain, sessions, and the request as it stands."""
    heads = await porch.house.column("SELECT subject || ' ' || seq FROM audit_head ORDER BY subject")
    sessions = await porch.house.column("SELECT count(*) FROM web_session")
    return heads, sessions, await porch.house.db.read(views.request_view, request_id)
