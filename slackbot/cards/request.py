"""The message that puts a request to people: a pure function of what is stored.

Order: risk and object, where it stands, facts, arguments, who asks and under which rule, then the agent's own
words, then the buttons. Approve is offered only when every byte that would run can be read.

Slack refuses about 13,200 characters over all blocks (undocumented); these sizes add up to less than 12,000.
"""

from __future__ import annotations

from agent.domain.action import Action
from agent.domain.policy import Risk
from agent.domain.request import ExecutionStatus, RequestStatus, RequestView
from slackbot.cards import blocks, facts, inert, json_text, status
from slackbot.cards.values import (
    ACTION_APPROVE,
    ACTION_ASK_AGAIN,
    ACTION_DETAILS,
    ACTION_DONE,
    ACTION_REJECT,
    ACTION_RETRY,
    Card,
    Json,
    Names,
    button_value,
    metadata,
)

MAX_DESCRIPTION = 600
MAX_ARGUMENTS = 4500
MAX_RATIONALE = 900
MAX_RATIONALE_LINES = 12
MAX_REVIEWERS = 8

_ASSERTED = {
    "slack": "",
    "key-owner": " (owner of the API key that asked)",
    "on-behalf": " (named by an API client; Slack has not confirmed it)",
    "none": "",
}


def request_card(
    view: RequestView,
    *,
    names: Names | None = None,
    delivery_id: object | None = None,
    details_available: bool = False,
    permalink: str | None = None,
) -> Card:
    """The card at the place that `view.place_nonce` names; without a nonce it has no buttons.

    `details_available`: a Details button leads to everything that was cut here, so Approve may be offered.
    `permalink`: where the run's thread is, an address that Slack gave.
    """
    looked_up = facts.shown(view.facts or {})
    arguments, hidden = _arguments(view)
    withheld = None if details_available else _unread(hidden, looked_up)
    if view.action.digest != view.digest:
        withheld = "the stored digest does not fit the stored action."
    rows = [
        blocks.header(inert.line(title(view), blocks.HEADER_LIMIT)),
        *_description(view),
        blocks.rich_text(*status.parts(view)),
        *_facts(view, looked_up),
        *arguments,
        *_cut_note(hidden, details_available),
        blocks.rich_text(*_origin(view, names or Names(), permalink)),
        *_rationale(view),
        blocks.context(_small_print(view)),
        *_withheld_note(view, withheld),
        *_buttons(view, approvable=not withheld, details=details_available),
    ]
    state = f"{view.id}:{view.revision}:{view.status}:{view.voided}"
    return Card(fallback(view), blocks.with_ids(rows, state), metadata(delivery_id, request=view.id))


def title(view: RequestView) -> str:
    """Risk first, then the object: `High risk · Refund 1,499.00 for order 7`. Not inert yet."""
    return f"{view.risk.value.capitalize()} risk · {_object(view)}"


def fallback(view: RequestView) -> str:
    """What a notification shows: risk, object, money, status; while it waits, also whom the rule notifies."""
    waiting = view.status is RequestStatus.WAITING
    money = facts.amounts(view.facts, view.description)
    shown = inert.mrkdwn(f"{title(view)} ({money})" if money else title(view), 1000)
    if not waiting:
        return f"{status.words(view)}: {shown}"
    asked = " ".join(filter(None, map(blocks.mention_mrkdwn, view.notify[:10])))
    until = f"Waiting for review until {blocks.moment_mrkdwn(view.expires_at)}"
    return f"{shown} · {until}{f' · {asked}' if asked else ''}"


def _object(view: RequestView) -> str:
    """What it is about; a tool's name is better than nothing."""
    return view.description if inert.line(view.description, 10) else view.action.tool


def _description(view: RequestView) -> list[Json]:
    """The description in full, when the title had no room for it."""
    whole = inert.line(title(view), 100_000)
    if inert.weight(whole) <= blocks.HEADER_LIMIT:
        return []
    return [blocks.rich_text(blocks.section(blocks.text(inert.line(_object(view), MAX_DESCRIPTION))))]


def _facts(view: RequestView, looked_up: facts.Shown) -> list[Json]:
    parts: list[Json] = []
    if view.previous_facts is not None:
        changed = facts.changes(view.previous_facts, view.facts or {})
        label = (
            "Changed since an earlier approval, which is void"
            if changed.items
            else "Asked again; facts are the same"
        )
        parts += [blocks.section(blocks.text(label, bold=True)), *_bullets(changed.items)]
    if view.facts:
        label = "Facts, looked up by the tool"
        parts += [blocks.section(blocks.text(label, bold=True)), *_bullets(looked_up.items)]
    else:
        note = "No facts were looked up: everything below is the agent's own claim."
        parts.append(blocks.section(blocks.text(note, italic=True)))
    return [blocks.rich_text(*parts)]


def _bullets(items: list[Json]) -> list[Json]:
    return [blocks.bullets(items)] if items else []


def _arguments(view: RequestView) -> tuple[list[Json], int]:
    """The arguments as a block, read from the canonical bytes, and how many characters did not fit."""
    action = Action.from_canonical(view.action.canonical)
    shown, hidden = inert.cut(json_text.pretty(action.arguments), MAX_ARGUMENTS)
    label = blocks.section(
        blocks.text("Arguments of ", bold=True),
        blocks.text(inert.line(action.tool, 80), code=True),
        blocks.text(f", version {inert.line(action.tool_version, 40)}"),
    )
    return [blocks.rich_text(label, blocks.preformatted(shown))], hidden


def _cut_note(hidden: int, details_available: bool) -> list[Json]:
    if not hidden:
        return []
    where = "shown in full under Details" if details_available else "not shown"
    return [
        blocks.rich_text(blocks.section(blocks.text(f"… {hidden:,} more characters, {where}", bold=True)))
    ]


def _unread(hidden: int, looked_up: facts.Shown) -> str | None:
    """Why Approve is not offered, or None. Nobody can consent to what they cannot read."""
    if hidden:
        return f"{hidden:,} characters of the arguments cannot be read here."
    return None if looked_up.complete else "not all of the facts can be read here."


def _withheld_note(view: RequestView, withheld: str | None) -> list[Json]:
    if not withheld or view.status is not RequestStatus.WAITING:
        return []
    title = blocks.text("Approve is withheld: ", bold=True)
    return [blocks.rich_text(blocks.section(title, blocks.text(f"{withheld} It can still be rejected.")))]


def _origin(view: RequestView, names: Names, permalink: str | None) -> list[Json]:
    asserted = _ASSERTED.get(view.requester_asserted)
    if asserted is None:
        asserted = f" (asserted by: {inert.line(view.requester_asserted, 60)})"
    agent = f"{inert.line(view.agent, 80)}, version {inert.line(view.agent_version, 40)}"
    run = [blocks.text(" · "), blocks.link(permalink, "its run")] if permalink else []
    return [
        blocks.section(
            blocks.text("Requested by ", bold=True),
            blocks.person(view.requester, "nobody in Slack"),
            blocks.text(asserted),
        ),
        blocks.section(blocks.text("Agent ", bold=True), blocks.text(agent), *run),
        blocks.section(
            blocks.text("Checkpoint ", bold=True), blocks.text(inert.line(view.checkpoint_id, 80), code=True)
        ),
        blocks.section(blocks.text("Needs ", bold=True), blocks.text(_quorum(view, names))),
    ]


def _quorum(view: RequestView, names: Names) -> str:
    """Who may decide, by name: a mention would ping people whom the rule does not notify."""
    people = [
        "members of this channel" if each == "channel" else inert.line(names.of(each), 40)
        for each in view.approvers
    ]
    more = [f"{len(people) - MAX_REVIEWERS:,} more"] if len(people) > MAX_REVIEWERS else []
    of = ", ".join([*people[:MAX_REVIEWERS], *more]) or "nobody: its list of reviewers is empty"
    own = "" if view.prevent_self_review else ". Whoever requested this may approve it themselves"
    return f"{view.approvals_required} of {of}{own}"


def _rationale(view: RequestView) -> list[Json]:
    shown = inert.paragraph(view.rationale or "", MAX_RATIONALE, MAX_RATIONALE_LINES)
    if not shown:
        return []
    label = blocks.section(blocks.text("The agent's own words (not checked):", italic=True))
    return [blocks.rich_text(label, blocks.quote(blocks.text(shown)))]


def _small_print(view: RequestView) -> str:
    ends = "Decide before" if view.status is RequestStatus.WAITING else "Deadline:"
    return f"{ends} {blocks.moment_mrkdwn(view.expires_at)} · request {view.id} · revision {view.revision}"


def _buttons(view: RequestView, *, approvable: bool, details: bool) -> list[Json]:
    if not view.place_nonce:
        return []
    row = _decide(view, approvable) or _ask_again(view) or _settle(view)
    if details:
        row.append(blocks.button("Details", ACTION_DETAILS, button_value(view)))
    return blocks.actions(*row)


def _decide(view: RequestView, approvable: bool) -> list[Json]:
    if view.status is not RequestStatus.WAITING:
        return []
    value = button_value(view)
    approve = blocks.button("Approve", ACTION_APPROVE, value, "primary", _confirmation(view))
    reject = blocks.button("Reject", ACTION_REJECT, value, "danger")
    return [approve, reject] if approvable else [reject]


def _ask_again(view: RequestView) -> list[Json]:
    if view.status is not RequestStatus.EXPIRED or view.requester is None:
        return []
    return [blocks.button("Ask again", ACTION_ASK_AGAIN, button_value(view))]


def _settle(view: RequestView) -> list[Json]:
    execution = view.execution
    if (
        execution is None
        or execution.status is not ExecutionStatus.IN_DOUBT
        or execution.settled_as is not None
    ):
        return []
    value = button_value(view, execution.id)
    retry = blocks.confirm(
        "Run it again?",
        "The first attempt may have had its effect, or may still be at work: "
        "running it again can make it happen twice.",
        "Run it again",
        style="danger",
    )
    return [
        blocks.button("Retry", ACTION_RETRY, value, "danger", retry),
        blocks.button("Mark as done", ACTION_DONE, value),
    ]


def _confirmation(view: RequestView) -> Json | None:
    """High risk and above: the object and the money once more, between the click and its effect."""
    if view.risk < Risk.HIGH:
        return None
    money = facts.amounts(view.facts, view.description)
    question = f"{inert.line(_object(view), 170)}{f' ({money})' if money else ''}. Once approved, it runs."
    return blocks.confirm(
        f"Approve this {view.risk.value}-risk action?", question, "Approve", style="primary"
    )
