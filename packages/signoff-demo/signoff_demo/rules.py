"""The demo's policy: the tour's own, or that of the folder, with the people whom it names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from agent.domain import checkpoints
from agent.domain.policy import Policy
from signoff.errors import SignoffError
from signoff_demo.sandbox import SandboxWorkspace, demo_workspace

TOUR = """\
# The checkpoints of `signoff demo`; rewritten at each start.

[defaults]
channel = "#refund-reviews"
approvers = ["S0FINANCE"]      # @finance: Grace and Linus
notify = ["S0FINANCE"]
timeout = "24h"
prevent_self_review = true
unmatched = "review"
money = ["facts.price"]        # shown as 1,899.00; what is not named here is shown as it is

[grants]                       # reviewers may allow the next ones in advance, within these bounds
max_for = "24h"
max_uses = 10

[[limit]]                      # what reads all customers runs by itself once a day for each person
name = "all-orders"
action_pattern = "list_orders"
of = "count"
per = "requester"
within = "24h"
max = 1

[[checkpoint]]
checkpoint_id = "refund-very-large"
action_pattern = "process_refund"
when = "facts.price > 5000.0"
description_template = "Refund ${{facts.price}} for order {{args.order_id}}"
risk = "critical"
timeout = {seconds}                   # very short, to show what happens when nobody decides
remind_at = [0.5]              # halfway there, those who can still help are mentioned
on_reject = "tell_model"

[[checkpoint]]
checkpoint_id = "refund-large"
action_pattern = "process_refund"
when = "facts.price > 2000.0"
description_template = "Refund ${{facts.price}} for order {{args.order_id}}"
link_template = "https://shop.example/orders/{{args.order_id}}"
risk = "high"
approvals_required = 2         # both of @finance; the card shows who has voted and how many are missing
reject_reasons = ["Wrong amount", "Wrong customer"]
remind_at = [0.5, 0.9]
on_reject = "tell_model"

[[checkpoint]]
checkpoint_id = "refund-over-limit"
action_pattern = "process_refund"
when = "facts.price > 1000.0"  # the price in the shop's own records, not the one that the model states
description_template = "Refund ${{facts.price}} for order {{args.order_id}}"
link_template = "https://shop.example/orders/{{args.order_id}}"
risk = "high"
allow_edit = true              # a wrong order number can be mended on the card, up to what this rule covers
editor_may_approve = false     # somebody else approves what the editor made of it
reason_required = ["reject"]
reject_reasons = ["Wrong amount", "Wrong customer"]
remind_at = [0.5, 0.9]
on_reject = "tell_model"

[[checkpoint]]
checkpoint_id = "deletions"    # for programs elsewhere: examples/guide_agent.py
action_pattern = "delete_*"
description_template = "Delete {{args.count}} records from {{args.table_name}}"
risk = "high"
allow_grants = true
on_reject = "stop"

[[checkpoint]]
checkpoint_id = "refunds-of-programs"  # examples/langgraph_refunds.py; others can be asked about as they are
action_pattern = "refund_order$"
when = "args.price > 1000.0"
description_template = "Refund ${{args.price}} for order {{args.order_id}}"
money = ["args.price"]
risk = "high"
reject_reasons = ["Wrong amount", "Wrong customer"]
"""

REVIEWS = "#reviews"

OWN = """\
# No checkpoints.toml was found in the current directory, so people are asked about everything that is not read-only.

[defaults]
channel = "#reviews"
approvers = ["S0REVIEWERS"]    # @reviewers: Grace and Linus
timeout = "24h"
unmatched = "review"
"""

SECONDS = 20
SECONDS_AUTO = 4
"""Deadlines of a very large refund: SECONDS leaves time to watch, SECONDS_AUTO is just enough for the checks."""


@dataclass(frozen=True)
class DemoPolicy:
    """A demo's policy: the file's text, what it means, and remarks to print about it."""

    text: str
    policy: Policy
    remarks: tuple[str, ...] = ()


def tour_policy(seconds: int) -> DemoPolicy:
    """A very large refund expires after `seconds`."""
    text = TOUR.format(seconds=seconds)
    return DemoPolicy(text, checkpoints.load(text, filename="checkpoints.toml"))


def folder_policy(workdir: Path) -> DemoPolicy:
    """Raises PolicyError, and SignoffError for an unreadable file."""
    path = workdir / "checkpoints.toml"
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        remark = "no checkpoints.toml here: people are asked about every tool that is not read-only"
        return DemoPolicy(OWN, checkpoints.load(OWN, filename=path.name), (remark,))
    except (OSError, UnicodeError) as error:
        raise SignoffError(f"cannot read {path}: {error}") from None
    away = "the demo reads none of your settings; leave it out here, and try it with `signoff serve`"
    return DemoPolicy(text, checkpoints.load(text, filename=path.name, no_mail=away, no_lookups=away))


def workspace_of_agents() -> SandboxWorkspace:
    """Return the demo's workspace with a channel for reviews, of which everybody is a member."""
    workspace = demo_workspace()
    everybody = workspace.channels["C0GENERAL"].members
    return workspace.add_channel("C0REVIEWS", REVIEWS.removeprefix("#"), everybody)


def invite(policy: Policy, workspace: SandboxWorkspace) -> list[str]:
    """Add the people, groups and channels named by the policy; returns a line about each."""
    terms = (policy.defaults, *policy.rules)
    people = [member.id for member in workspace.members.values() if member.team_id == workspace.team.id]
    said = []
    for name in sorted({channel for each in terms if (channel := each.channel)}):
        plain = name.removeprefix("#")
        known = workspace.channels.values()
        if not any(name == channel.id or plain == channel.name for channel in known):
            is_id = plain == name and name.isupper()
            workspace.add_channel(name if is_id else f"C0{len(known)}NEW", plain.lower(), people)
            said.append(f"channel {name} (of your checkpoints.toml) was added to the sandbox")
    for who in sorted({who for each in terms for who in (*each.approvers, *each.notify)}):
        if who.startswith("S") and who not in workspace.usergroups:
            workspace.add_usergroup(who, who.lower(), ["U0GRACE", "U0LINUS"])
            said.append(f"user group {who} was added to the sandbox, with Grace and Linus in it")
        elif who.startswith(("U", "W")) and who not in workspace.members:
            workspace.add_member(who, who.lower(), f"Reviewer {who}")
            for place in workspace.channels.values():
                place.members.add(who)
            said.append(f"person {who} was added to the sandbox; you can act as them")
    return said
