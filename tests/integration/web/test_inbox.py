"""The inbox page: who sees what, and what can be done there."""

from __future__ import annotations

import re

import httpx

from agent.store.outbox import Outlet
from slackbot.web.inbox import assets
from tests.integration import asking
from tests.integration.service.conftest import http_house  # noqa: F401
from tests.integration.web.visiting import LINUS, TEAM, Porch, porch  # noqa: F401


def section(page: str, name: str) -> str:
    """The part of a page that a heading of this id names."""
    found = re.search(rf'<section aria-labelledby="{name}".*?</section>', page, re.DOTALL)
    return found[0] if found else ""


async def test_what_waits_for_the_reader_comes_first(porch: Porch) -> None:  # noqa: F811
    """A reviewer's own work stands in the first list, what others decide in the second, outcomes in the third."""
    mine = await porch.asked(7)
    await porch.asked(8, asking.rule(approvers=("U0LINUS",)))
    reader = await porch.visitor("U0GRACE")
    await reader.open("/inbox")
    assert "order 7" in section(reader.page, "for-you")
    assert f"/inbox/requests/{mine}" in section(reader.page, "for-you")
    assert "order 8" not in section(reader.page, "for-you")
    assert "order 8" in section(reader.page, "for-others")
    assert "order 7" not in section(reader.page, "for-others")
    for words in ("Waiting", "Medium risk", "0 of 1 approval", "in 23 h", "@finance may decide", "by @ada"):
        assert words in reader.words, words


async def test_a_list_shows_what_its_reader_may_see(porch: Porch) -> None:  # noqa: F811
    """Requests of a channel that the reader is not in, and that they may not decide, are in no list of theirs."""
    workspace = porch.house.slack.workspace
    workspace.add_channel("C0SECRET", "secret", ["U0LINUS", workspace.bot.user_id])
    await porch.asked(
        9,
        asking.rule(approvers=("U0LINUS",)),
        outlet=Outlet(TEAM, "C0SECRET"),
        requester=LINUS,
    )
    grace, linus = await porch.visitor("U0GRACE"), await porch.visitor("U0LINUS")
    for path in ("/inbox", "/inbox/history?status=waiting", "/inbox/history?status=waiting&q=order"):
        await grace.open(path)
        assert "order 9" not in grace.page
        await linus.open(path)
        assert "order 9" in linus.page


async def test_assets_are_kept_by_browsers_and_htmx_comes_from_its_package(porch: Porch) -> None:  # noqa: F811
    """Every script and style of a page is served, for good, under a name that has its hash; nothing comes from afar."""
    reader = await porch.visitor("U0GRACE")
    await reader.open("/inbox")
    found = re.findall(r'(?:src|href)="(/inbox/static/[^"]+)"', reader.page)
    assert len(found) == 3
    assert not re.search(r'(?:src|href)="(?:https?:)?//', reader.page)
    stranger: httpx.AsyncClient = porch.stranger().browser
    for path in found:
        answer = await stranger.get(path)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
    assert any("htmx" in path for path in found)
    assert (await stranger.get(found[0].replace(".", ".0", 1))).status_code == 404
    assert "htmx" in assets.assets()["htmx-2.min.js"].content.decode()[:200]
