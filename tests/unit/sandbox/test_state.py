"""The pure parts of the stand-in: timestamps, threads, modals and triggers, rate limits, dice."""

from __future__ import annotations

from typing import Any

import pytest

from signoff_demo.sandbox import Faults, demo_workspace
from signoff_demo.sandbox.faults import FaultKind
from signoff_demo.sandbox.messages import Messages, Timestamps
from signoff_demo.sandbox.modals import Modals
from signoff_demo.sandbox.rate_limits import RateLimits
from signoff_demo.sandbox.refusal import SandboxRefusal

VIEW: dict[str, Any] = {"type": "modal", "title": {"type": "plain_text", "text": "T"}, "blocks": []}


def modals(trigger_seconds: float = 3.0) -> Modals:
    return Modals("T0", "A0", "B0", trigger_seconds)


def test_timestamps_are_unique_and_increase() -> None:
    """Ten thousand messages in a burst have ten thousand timestamps, in order."""
    timestamps = Timestamps()
    made = [timestamps.next() for _ in range(10_000)]
    assert len(set(made)) == 10_000
    assert made == sorted(made, key=lambda ts: (int(ts.split(".")[0]), ts.split(".")[1]))


def test_a_reply_to_a_reply_joins_the_root() -> None:
    """Threads have one level; the root counts its replies and stays in the channel's history alone."""
    messages = Messages(Timestamps())
    root = messages.add("C", {"user": "U1", "text": "root"})
    reply = messages.add("C", {"user": "U2", "text": "one"}, root["ts"])
    messages.add("C", {"user": "U1", "text": "two"}, reply["ts"])
    assert [each["text"] for each in messages.thread("C", reply["ts"])] == ["root", "one", "two"]
    assert [each["reply_count"] for each in messages.roots("C")] == [2]
    with pytest.raises(SandboxRefusal, match="thread_not_found"):
        messages.add("C", {"text": "x"}, "1.000000")


def test_a_trigger_works_once_and_not_for_long() -> None:
    """A second exchange, a late one and an invented one each have their own error."""
    fresh, late = modals(), modals(trigger_seconds=-1)
    trigger = fresh.new_trigger("U1")
    assert fresh.exchange(trigger).user == "U1"
    for stack, trigger_id, code in (
        (fresh, trigger, "exchanged_trigger_id"),
        (late, late.new_trigger("U1"), "expired_trigger_id"),
        (fresh, "1.2.abc", "invalid_trigger_id"),
    ):
        with pytest.raises(SandboxRefusal, match=code):
            stack.exchange(trigger_id)


def test_the_stack_of_modals_ends_at_three() -> None:
    """A fourth view is refused, and closing one shows the one below."""
    stack = modals()
    root = stack.open("U1", VIEW)
    second, third = stack.push("U1", VIEW), stack.push("U1", VIEW)
    with pytest.raises(SandboxRefusal, match="push_limit_reached"):
        stack.push("U1", VIEW)
    assert (third["previous_view_id"], third["root_view_id"]) == (second["id"], root["id"])
    stack.close("U1", third["id"])
    assert [view["id"] for view in stack.stack("U1")] == [root["id"], second["id"]]


def test_an_update_with_an_old_hash_conflicts() -> None:
    """A view changed in the meantime is not overwritten by somebody who has not seen it."""
    stack = modals()
    view = stack.open("U1", VIEW)
    _, updated = stack.update(view["id"], None, VIEW, view["hash"])
    assert updated["id"] == view["id"]
    with pytest.raises(SandboxRefusal, match="hash_conflict"):
        stack.update(view["id"], None, VIEW, view["hash"])
    stack.close("U1", view["id"])
    with pytest.raises(SandboxRefusal, match="not_found"):
        stack.update(view["id"], None, VIEW, None)


def test_posts_are_limited_for_each_channel() -> None:
    """After a short burst a channel must wait, while another one need not; switched off, nothing waits."""
    limits = RateLimits(burst=2)
    waits = [limits.retry_after("chat.postMessage", None, channel) for channel in ("C1", "C1", "C1", "C2")]
    assert waits == [0, 0, 1, 0]
    assert {RateLimits(enabled=False, burst=0).retry_after("chat.postMessage", None, "C1")} == {0}


def test_tiers_bound_the_other_methods() -> None:
    """Tier 2 allows twenty calls at once and then one every three seconds."""
    limits = RateLimits()
    waits = [limits.retry_after("usergroups.users.list", 2, "") for _ in range(21)]
    assert waits == [0] * 20 + [3]


def test_faults_strike_as_often_as_told_and_the_same_with_the_same_seed() -> None:
    """A fault counts down, spares other methods, and its dice are reproducible."""
    faults = Faults()
    faults.http_500("chat.update", times=2)
    struck = [
        faults.take_fault(name) for name in ("chat.delete", "chat.update", "chat.update", "chat.update")
    ]
    assert [fault and fault.kind for fault in struck] == [None, FaultKind.HTTP_500, FaultKind.HTTP_500, None]

    def rolls() -> list[bool]:
        dice = Faults()
        dice.error("*", "fatal_error", times=None, probability=0.5, seed=7)
        return [dice.take_fault("chat.update") is not None for _ in range(50)]

    assert rolls() == rolls()
    assert 10 < sum(rolls()) < 40


def test_the_demo_workspace_has_everyone_that_the_tour_needs() -> None:
    """A guest, somebody who left, somebody from outside, reviewers in a group, four time zones and more."""
    workspace = demo_workspace()
    shown = {user: member.as_slack() for user, member in workspace.members.items()}
    assert shown["U0MALLORY"]["is_restricted"]
    assert shown["U0GONE"]["deleted"]
    assert shown["U0EVE"]["is_stranger"]
    assert shown["U0EVE"]["team_id"] != workspace.team.id
    assert shown["U0BOT"]["is_bot"]
    assert workspace.usergroups["S0FINANCE"].users == ["U0GRACE", "U0LINUS"]
    assert len({member.tz for member in workspace.members.values()}) >= 4
