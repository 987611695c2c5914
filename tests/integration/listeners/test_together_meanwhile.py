"""Whatever happens to requests between opening a form for several and sending it, in any order."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import nullcontext, suppress
from itertools import count
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.domain.errors import Refused
from agent.usecases import pause, requests
from agent.usecases.requests import Edit
from signoff.values import Action
from slackbot.cards.together_form import together_button
from slackbot.cards.values import ACTION_DECIDE_TOGETHER
from tests.integration import alone
from tests.integration.asking import ADA, LINUS, Asked, ask, ballot, reviewer, rule
from tests.integration.listeners.conftest import House
from tests.integration.listeners.test_together import VERDICT, decided, statuses
from tests.integration.on_record import put_terms_on_record

REQUESTS = 4
OF_GROUP = {0, 2}
"""Those that Grace may decide only as a member of a group."""

LINUS_HIMSELF = reviewer(LINUS, "S0FINANCE", LINUS.user_id)

_numbers = count(1)


async def _edit(house: House, asked: Asked) -> None:
    action = Action("process_refund", "1", {"order_id": 9})
    edit = Edit(asked.request_id, 1, LINUS_HIMSELF, action, {"price": 9}, None, "slack_edit")
    await requests.edit(house.db, edit)


async def _past_its_deadline(house: House, asked: Asked) -> None:
    late = """UPDATE approval_request SET expires_at = created_at + interval '1 microsecond'
              WHERE id = %s AND status = 'waiting'"""
    house.owner.execute(late, (asked.request_id,))


async def _expire(house: House, asked: Asked) -> None:
    """With a deadline that is not on record, it is not escalated."""
    await _past_its_deadline(house, asked)
    await requests.expire_due(house.db)


async def _escalate(house: House, asked: Asked) -> None:
    """The second time it expires."""
    await _past_its_deadline(house, asked)
    await put_terms_on_record(house.db)
    await requests.expire_due(house.db)


async def _withdraw(house: House, asked: Asked) -> None:
    await requests.withdraw(house.db, asked.request_id, ADA, "Not needed")


async def _approve(house: House, asked: Asked) -> None:
    await alone.vote(house.db, ballot(asked, LINUS_HIMSELF))


async def _reject(house: House, asked: Asked) -> None:
    await alone.vote(house.db, ballot(asked, LINUS_HIMSELF, "reject"))


async def _pause(house: House, asked: Asked) -> None:
    """Of the agent, so of all requests."""
    await pause.pause(house.db, "refunds", by="cli:root")


async def _leave_group(house: House, asked: Asked) -> None:
    """Of all that the group decides."""
    members = house.slack.workspace.usergroups["S0FINANCE"].users
    if "U0GRACE" in members:
        members.remove("U0GRACE")
    house.ctx.directory.forget("S0FINANCE")


Event = Callable[[House, Asked], Awaitable[None]]
EVENTS: tuple[Event, ...] = (
    *(_edit, _expire, _withdraw, _approve, _reject),
    *(_escalate, _pause, _leave_group),
)


def _touched(events: list[tuple[Event, int]]) -> set[int]:
    """Which requests the form leaves open or as they are; an escalated one is decided as before."""
    touched: set[int] = set()
    escalated: set[int] = set()
    for event, at in events:
        if event is _leave_group:
            touched |= OF_GROUP
        elif event is _pause:
            touched |= set(range(REQUESTS))
        elif event is not _escalate or at in escalated:
            touched.add(at)
        elif event is _escalate:
            escalated.add(at)
    return touched


async def _asked(house: House, checkpoint: str) -> list[Asked]:
    """Of a checkpoint of their own."""
    terms = rule(
        checkpoint_id=checkpoint,
        allow_edit=True,
        editor_may_approve=True,
        on_timeout="escalate",
        escalate_to=("U0EVE",),
    )
    named = terms.model_copy(update={"approvers": ("U0GRACE", "U0LINUS")})
    return [
        await ask(house.db, terms if at in OF_GROUP else named, description=f"Refund order {at}")
        for at in range(REQUESTS)
    ]


async def _opened(house: House, checkpoint: str) -> dict[str, Any]:
    button = together_button({"checkpoint": checkpoint}, checkpoint)
    blocks = [{"type": "actions", "elements": [button]}]
    posted = await house.client.chat_postMessage(channel="C0REVIEW", text=checkpoint, blocks=blocks)
    message = next(each for each in house.slack.messages("C0REVIEW") if each["ts"] == posted["ts"])
    await house.slack.person("U0GRACE").click(message, ACTION_DECIDE_TOGETHER)
    return await house.modal("U0GRACE", "Record")


async def _as_before(house: House) -> None:
    await pause.resume(house.db, "refunds", by="cli:root")
    house.slack.workspace.usergroups["S0FINANCE"].users[:] = ["U0GRACE", "U0LINUS"]
    house.ctx.directory.forget("S0FINANCE")


def _recorded(house: House, asked: list[Asked]) -> list[Any]:
    """Votes and outcomes."""
    ids = [each.request_id for each in asked]
    votes = "SELECT request_id, user_id, verdict::text, superseded_by FROM vote WHERE request_id = ANY(%s) ORDER BY id"
    outcomes = """SELECT r.id, r.status::text, r.revision, d.user_id, d.decided_at
                  FROM approval_request AS r LEFT JOIN decision AS d ON d.request_id = r.id
                  WHERE r.id = ANY(%s) ORDER BY r.id"""
    return [house.rows(votes, ids), house.rows(outcomes, ids)]


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    events=st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(0, REQUESTS - 1)), max_size=6),
)
async def test_exactly_what_was_touched_is_left(http_house: House, events: list[tuple[Event, int]]) -> None:
    """In any order of edits, deadlines, withdrawals, votes, pauses and lost rights: what they touch stays as it is and
    is named, everything else gets exactly one vote, and sending the form again changes nothing.
    """
    house, checkpoint = http_house, f"refunds-{next(_numbers)}"
    await _as_before(house)
    asked = await _asked(house, checkpoint)
    form = await _opened(house, checkpoint)
    assert str(form["blocks"]).count("'checkboxes'") == REQUESTS
    for number, (event, at) in enumerate(events):
        # What was touched before may refuse the next: a vote on what has ended, for example.
        with suppress(Refused) if at in _touched(events[:number]) else nullcontext():
            await event(house, asked[at])
    before, touched = await statuses(house, asked), _touched(events)
    said = await decided(house, "U0GRACE", form, {})
    for at, (each, was, now) in enumerate(zip(asked, before, await statuses(house, asked), strict=True)):
        votes = house.rows(
            "SELECT path FROM vote WHERE request_id = %s AND user_id = 'U0GRACE'", each.request_id
        )
        assert now == (was if at in touched else "approved")
        assert votes == ([] if at in touched else [("slack_together",)])
        assert (str(each.request_id) in said) == (at in touched)
    recorded = _recorded(house, asked)
    again = await house.slack.person("U0GRACE").submit(form, {VERDICT: "approve"}, drawn=form["hash"])
    assert (again.error, again.errors) == (None, {})
    assert _recorded(house, asked) == recorded
