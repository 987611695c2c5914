"""The page of reports: whose numbers it shows, and that every plot can be read without seeing it."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest

from agent.store.ids import new_id
from agent.store.outbox import Destination
from tests.integration import asking
from tests.integration.service.conftest import http_house  # noqa: F401
from tests.integration.web.visiting import Porch, porch  # noqa: F401


def bars(page: str, caption: str) -> list[tuple[str, str, list[str]]]:
    """The lines of a plot: name, words, and the kinds of its marks."""
    found = re.search(
        rf'<caption class="unseen">{re.escape(caption)}</caption>(.*?)</table>', page, re.DOTALL
    )
    assert found, caption
    lines = re.findall(r'<th scope="row">(.*?)</th>.*?<td>(.*?)</td>', found[1], re.DOTALL)
    return [
        (name, re.sub(r"<[^>]+>", "", drawn).strip(), re.findall(r'rect class="(?!track)(\w+)"', drawn))
        for name, drawn in lines
    ]


async def test_reports_show_what_their_reader_may_see(porch: Porch) -> None:  # noqa: F811
    """Waiting, outcomes, times, agents, rules, votes: in words beside each mark; others' requests are in none."""
    decided, _ = await porch.asked(7), await porch.asked(8)
    elsewhere = asking.rule(approvers=("U0LINUS",), checkpoint_id="elsewhere")
    await porch.asked(9, elsewhere, destination=Destination("T0SANDBOX", "C0OPS"), requester=None)
    grace = await porch.visitor("U0GRACE")
    await grace.open(f"/inbox/requests/{decided}")
    await grace.send(f"/inbox/requests/{decided}/approve", {"revision": "1"})
    await grace.open("/inbox/reports?days=7")
    assert "For the requests that you may see." in grace.words
    assert '<a class="plain" href="/inbox/reports?days=7" aria-current="page">' in grace.page
    assert "1 request waits." in grace.words
    assert ("under 5 min", "1 of 1 (100 %)", ["waiting"]) in bars(grace.page, "Waiting requests by age")
    assert ("4 to 24 h", "1 of 1 (100 %)", ["waiting"]) in bars(grace.page, "Waiting requests by time left")
    assert "1 in 7 days: 1 approved, 0 rejected, 0 expired, 0 withdrawn, 0 answered." in grace.words
    assert re.search(
        r'<svg class="columns"[^>]* role="img" aria-label="[^"]+">\s*(<rect|$)', grace.page, re.MULTILINE
    )
    [(agent, words, kinds)] = bars(grace.page, "Agents: outcomes")
    assert (agent, kinds) == ("refunds", ["approved"])
    assert words.startswith("1: 1 approved; median ")
    assert [name for name, _, _ in bars(grace.page, "Checkpoints: outcomes")] == ["refunds"]
    assert [line[1][:22] for line in bars(grace.page, "Votes of each reviewer")] == ["1 approved, 0 rejected"]
    assert bars(grace.page, "Votes without opening Details")[0][1] == "0 of 1 (0 %)"  # she read its page
    assert "style=" not in grace.page
    admin = await porch.visitor("U0ADA")
    await admin.open("/inbox/reports?days=abc")
    assert "For the whole workspace." in admin.words
    assert "2 requests wait." in admin.words
    assert "1 in 30 days" in admin.words


def widths(page: str, caption: str) -> dict[str, tuple[str, dict[str, float]]]:
    """The lines of a plot: words, and the widths of the marks by kind; a track is 100 wide."""
    found = re.search(
        rf'<caption class="unseen">{re.escape(caption)}</caption>(.*?)</table>', page, re.DOTALL
    )
    assert found, caption
    lines = re.findall(r'<th scope="row">(.*?)</th>.*?<td>(.*?)</td>', found[1], re.DOTALL)
    mark = r'rect class="(?!track)(\w+)" x="[^"]+" width="([^"]+)"'
    return {
        name: (
            re.sub(r"<[^>]+>", "", drawn).strip(),
            {kind: float(width) for kind, width in re.findall(mark, drawn)},
        )
        for name, drawn in lines
    }


async def test_numbers_agree_with_their_bars(porch: Porch) -> None:  # noqa: F811
    """A bar beside a percentage has that part of its track; one beside counts has parts in their proportion."""
    grace = await porch.visitor("U0GRACE")
    other = asking.rule(checkpoint_id="other")
    for order, verb in enumerate(["approve", "approve", "reject", "approve", "approve"]):
        asked = await porch.asked(order, other if order < 1 else None)
        await grace.open("/inbox" if order < 2 else f"/inbox/requests/{asked}")  # a row shows no details
        form = {"revision": "1"} | ({"back": "/inbox"} if order < 2 else {})
        assert (await grace.send(f"/inbox/requests/{asked}/{verb}", form)).status_code == 303
    for minutes in (0, 10, 10):
        asked = await porch.asked(9)
        await asking.write(
            porch.house.db,
            "UPDATE approval_request SET created_at = created_at - make_interval(mins => :m) WHERE id = :id",
            m=minutes,
            id=asked,
        )
    await grace.open("/inbox/reports?days=7")
    shares = 0
    for caption in (
        "Waiting requests by age",
        "Waiting requests by time left",
        "Decisions by the time they took",
        "Votes without opening Details",
    ):
        for name, (words, parts) in widths(grace.page, caption).items():
            found = re.fullmatch(r"(\d+) of (\d+) \(\d+ %\)", words)
            assert found, (caption, name, words)
            part, whole = int(found[1]), int(found[2])
            assert sum(parts.values()) == pytest.approx(100 * part / whole, abs=0.01), (caption, name, words)
            shares += 0 < part < whole
    assert shares >= 4
    for caption, most in (
        ("Agents: outcomes", 5),
        ("Checkpoints: outcomes", 4),
        ("Votes of each reviewer", 5),
    ):
        for name, (words, parts) in widths(grace.page, caption).items():
            counts = {kind: int(number) for number, kind in re.findall(r"(\d+) (approved|rejected)", words)}
            drawn = {kind: count * 100 / most for kind, count in counts.items() if count}
            assert parts == pytest.approx(drawn, abs=0.01), (caption, name, words)
            total = re.match(r"(\d+): ", words)
            assert total is None or int(total[1]) == sum(counts.values())
    assert "The tallest column is 5." in grace.words
    columns = re.findall(r'rect class="(\w+)" x="[^"]+" y="[^"]+" width="8" height="([^"]+)"', grace.page)
    assert {kind: float(height) for kind, height in columns} == {"approved": 80.0, "rejected": 20.0}
    assert grace.words.count("A full bar is 5.") == 2
    assert "A full bar is 4." in grace.words


async def test_a_report_of_nothing_says_so(porch: Porch) -> None:  # noqa: F811
    """An empty plot is a sentence; the page asks who looks, like every page."""
    assert (await porch.stranger().open("/inbox/reports")).status_code == 303
    grace = await porch.visitor("U0GRACE")
    assert (await grace.open("/inbox/reports")).status_code == 200
    assert "Nothing waits." in grace.words
    assert "Nothing was decided in these days." in grace.words


async def test_administrators_read_what_the_policy_did(porch: Porch) -> None:  # noqa: F811
    """Denials by checkpoint with their whole, of the days that the page is of; nobody else reads of all actions."""
    await asking.write(
        porch.house.db,
        """INSERT INTO judgement (id, policy_epoch, agent, tool, traits, facts_failed, verdict, checkpoint_id, because)
           SELECT id, 1, 'a', 't', '{}', false, verdict, 'never', ''
           FROM unnest(CAST(:ids AS uuid[]), CAST('{deny,run,run,run}' AS text[])) AS made (id, verdict)""",
        ids=[new_id() for _ in range(4)],  # they begin with their time, by which reports find them
    )
    admin = await porch.visitor("U0ADA")
    await admin.open("/inbox/reports?days=7")
    assert "Denied: 1 of 4 (25 %) evaluated actions." in admin.words
    assert "never: 1" in admin.words
    yesterday = (datetime.now(UTC) - timedelta(days=1)).date()
    await admin.open(f"/inbox/reports?days=7&last={yesterday}")
    assert f"end with {yesterday}" in admin.words
    assert "Denied: none." in admin.words
    for last in ("never", "0001-01-01", "1999-12-31"):
        assert (await admin.open(f"/inbox/reports?last={last}")).status_code == 200
        assert "include today" in admin.words
    assert (await admin.open("/inbox/reports?last=9999-12-31")).status_code == 200
    assert "end with 9999" not in admin.words
    grace = await porch.visitor("U0GRACE")
    await grace.open("/inbox/reports?days=7")
    assert "Denied" not in grace.words
