"""A request's card: a pure function of stored facts.

Approve is offered only if every byte that would run can be read. Slack refuses more than about 13,200 characters over
all blocks (undocumented); these sizes add up to less than 12,000. If it refuses a message all the same, a plain one
is sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from agent.domain.masked_action import MaskedAction
from agent.domain.request import EXTERNAL, RequestStatus
from agent.domain.request_view import RequestView
from agent.domain.rules import DERIVED
from agent.domain.short_ids import short_id
from signoff.description import without_command
from signoff.json_paths import without
from slackbot.cards import (
    arguments,
    blocks,
    buttons,
    facts,
    inert,
    json_text,
    limits,
    scalars,
    status,
    status_words,
    tree,
)
from slackbot.cards.buttons import subject
from slackbot.cards.values import Card, Json, Names, metadata

MAX_CARD = 11_800
MAX_DESCRIPTION = 600
MAX_ARGUMENTS = 4000
LEAST_ARGUMENTS = 400
MAX_FACTS = 2000
MAX_CHANGES = 1000
MAX_RATIONALE = 900
MAX_RATIONALE_LINES = 12
MAX_REVIEWERS = 8
MAX_SMALL = 400

_WORDS = re.compile(r"[^\W_]+")
_FILLING = frozenset(
    _WORDS.findall(
        "a an and as ask at by for from i in is it of on please request requested so that the this to was will with"
    )
)
"""Says nothing of an action by itself. No negation, time or condition is among these words."""
_CONFIRMED = {
    "slack": "",
    "none": "",
    "schedule": " (on a schedule)",
    "key-owner": " (owner of the API key that asked)",
}
_NAMED = "; Slack has not confirmed it)"


def request_card(
    view: RequestView,
    *,
    names: Names | None = None,
    delivery_id: object | None = None,
    whole: bool = False,
) -> Card:
    """The card at the place `view.place_nonce`, if any. Cut parts are in Details, unless ``whole``."""
    names = names or Names()
    withheld = unreadable(view)
    titled = without_command_in_title(view)
    head = [
        blocks.header(inert.line(title(titled), blocks.HEADER_LIMIT)),
        *_description(titled),
        blocks.rich_text(*status.parts(view, status.ALL if whole else blocks.MAX_NAMED)),
    ]
    state = f"{view.id}:{view.revision}:{view.status}:{view.voided}"
    if not (whole or _is_open(view)):
        rows = [*head, blocks.context(small_print(view)), *buttons.row(view, names, approvable=False)]
        return Card(fallback(view), blocks.with_ids(rows, state), metadata(delivery_id, request=view.id))
    above = [*head, *limits_blocks(view), *facts_blocks(view)]
    below = [
        *([blocks.rich_text(*origin(view, names))] if whole else [small_line(view, names)]),
        *_rationale(view),
        *([blocks.context(small_print(view))] if whole else []),
        *withheld_note(view, withheld),
        *buttons.row(view, names, approvable=not withheld),
    ]
    room = MAX_CARD - blocks.size(above) - blocks.size(below)
    rows = [*above, *_arguments(titled, max(LEAST_ARGUMENTS, min(MAX_ARGUMENTS, room))), *below]
    return Card(fallback(view), blocks.with_ids(rows, state), metadata(delivery_id, request=view.id))


def _is_open(view: RequestView) -> bool:
    doubted = view.execution is not None and view.execution.awaits_settlement
    return view.status is RequestStatus.WAITING or doubted


def unreadable(view: RequestView) -> str | None:
    """Why Approve is not offered. Nobody can consent to what they cannot read."""
    if view.action.digest != view.digest:
        return "the stored digest does not match the stored action."
    if isinstance(view.action, MaskedAction) and view.action.unseen:
        return "not all of it could be checked for secrets in time, so it is masked."
    return None


def named_in(view: RequestView) -> list[str]:
    """Return the Slack ids whose names a request's card needs: its approvers and its requester."""
    asked_for = view.behalf.requester
    return [*view.approvers, *([asked_for.user_id] if asked_for else [])]


def title(view: RequestView) -> str:
    """`High risk · Refund 1,499.00 for order 7`; an answer risks nothing. Not inert yet."""
    risk = "" if view.wants_answer else f"{view.risk.value.capitalize()} risk · "
    return f"{risk}{subject(view)}"


def without_command_in_title(view: RequestView) -> RequestView:
    """For places that show the command as code."""
    return replace(view, description=without_command(view.description, view.action.arguments))


def fallback(view: RequestView) -> str:
    """Notification text; while the request waits, also the people to notify."""
    waiting = view.status is RequestStatus.WAITING
    money = scalars.amounts(view)
    shown = inert.mrkdwn(f"{title(view)} ({money})" if money else title(view), 1000)
    if not waiting:
        return f"{status_words.of_request(view.standing)}: {shown}"
    asked = " ".join(filter(None, map(blocks.mention_mrkdwn, view.rule.notify[:10])))
    until = f"Waiting for review until {blocks.moment_mrkdwn(view.expires_at)}"
    return f"{shown} · {until}{f' · {asked}' if asked else ''}"


def _description(view: RequestView) -> list[Json]:
    whole = inert.line(title(view), 100_000)
    if inert.weight(whole) <= blocks.HEADER_LIMIT:
        return []
    return [blocks.rich_text(blocks.section(blocks.text(inert.line(subject(view), MAX_DESCRIPTION))))]


def facts_blocks(view: RequestView) -> list[Json]:
    """Return a request's facts, or why there are none; if it was asked again, first what has changed."""
    parts: list[Json] = []
    if view.previous_facts is not None:
        changed = tree.changes(view.previous_facts, view.facts or {}, MAX_CHANGES, view.money_in("facts"))
        label = (
            "Changed since an earlier approval, which is void"
            if changed.parts
            else "Asked again; facts are the same"
        )
        parts += [blocks.section(blocks.text(label, bold=True)), *changed.parts]
    if view.facts:
        parts += facts.shown(view, MAX_FACTS, 20)
    elif not view.is_question:
        parts.append(blocks.section(blocks.text(facts.absent(view), italic=True)))
    return [blocks.rich_text(*parts)] if parts else []


def limits_blocks(view: RequestView) -> list[Json]:
    """Return a request's limits over time as a block; empty if none applies."""
    lines = limits.parts(view)
    return [blocks.rich_text(*lines)] if lines else []


def _arguments(view: RequestView, limit: int) -> list[Json]:
    """Those that the title does not show, with the length of all if not all are shown."""
    title_shown = inert.weight(inert.line(subject(view), 100_000)) <= MAX_DESCRIPTION
    seen = arguments.shown(view, limit - 200, title_shown=title_shown)
    parts = [*seen.parts, *arguments.hidden_note(view)]
    if seen.complete:
        return [blocks.rich_text(*parts)] if parts else []
    whole = len(json_text.compact(json_text.arguments_of(view.action)))
    note = f"Cut here: all {whole:,} characters of the arguments are in Details."
    return [blocks.rich_text(*parts, blocks.section(blocks.text(note, bold=True)))]


def withheld_note(view: RequestView, withheld: str | None) -> list[Json]:
    """Return why a waiting request has no Approve; empty if nothing is withheld, or it no longer waits."""
    if not withheld or view.status is not RequestStatus.WAITING:
        return []
    title = blocks.text("Approve is withheld: ", bold=True)
    return [blocks.rich_text(blocks.section(title, blocks.text(f"{withheld} It can still be rejected.")))]


def small_line(view: RequestView, names: Names) -> Json:
    """`for @ada · refunds · 1 of @finance · until tomorrow 8:47 PM`. Details has the rest."""
    asked_for = view.behalf.requester
    person = blocks.mention_mrkdwn(asked_for.user_id) if asked_for else ""
    whom = "anyone" if view.behalf.anyone else person or "nobody in Slack"
    doubted = "" if _confirmed(view.requester_asserted) else " (not confirmed)"
    needed = f"{view.approvals_required} of {_reviewers(view, names, blocks.MAX_NAMED)}"
    why = DERIVED.get(view.checkpoint_id) if not view.is_question else None
    until = f"until {blocks.moment_mrkdwn(view.expires_at)}" if view.status is RequestStatus.WAITING else ""
    # A narrow window breaks the line between elements, so that a dot ends one and begins none.
    agent = f"{inert.line(view.chain, 80)} · {needed}{' ·' if until or why else ''}"
    pieces: list[str | Json] = [f"for {whom}{doubted} ·", blocks.plain(agent, MAX_SMALL)]
    pieces += [f"{until} ·" if why else until] if until else []
    pieces += [blocks.plain(why, MAX_SMALL)] if why else []
    return blocks.context(*pieces)


def origin(view: RequestView, names: Names, permalink: str | None = None) -> list[Json]:
    """Say for whom and by which agent a request is asked, under which checkpoint, and what it needs."""
    agent = inert.line(view.chain, 160)
    if view.agent_version != EXTERNAL:
        agent += f", version {inert.line(view.agent_version, 40)}"
    run = [blocks.text(" · "), blocks.link(permalink, "its run")] if permalink else []
    return [
        blocks.section(
            blocks.text("On behalf of " if view.grant else "Requested by ", bold=True),
            blocks.requester(view.behalf),
            blocks.text(asserted(view.requester_asserted)),
        ),
        blocks.section(blocks.text("Agent ", bold=True), blocks.text(agent), *run),
        *_checkpoint(view),
        blocks.section(blocks.text("Needs ", bold=True), blocks.text(_quorum(view, names))),
    ]


def _checkpoint(view: RequestView) -> list[Json]:
    if view.checkpoint_id in DERIVED:  # says why people are asked, which stands under its own heading
        return []
    checkpoint = blocks.text(inert.line(view.checkpoint_id, 80), code=True)
    return [blocks.section(blocks.text("Checkpoint ", bold=True), checkpoint)]


def asserted(by: str) -> str:
    """Say how a requester is known: `key:<name>` is the key's owner, `key:<name> for U…` a person whom it named."""
    key, named, _ = by.removeprefix("key:").partition(" for ")
    if by in _CONFIRMED:
        return _CONFIRMED[by]
    if by == "on-behalf":
        return f" (named by an API client{_NAMED}"
    if not by.startswith("key:"):
        return f" (asserted by: {inert.line(by, 60)})"
    shown = inert.line(key, 70)
    return f" (named by the API key {shown}{_NAMED}" if named else f" (owner of the API key {shown})"


def _confirmed(by: str) -> bool:
    return by in _CONFIRMED or (by.startswith("key:") and " for " not in by)


def _quorum(view: RequestView, names: Names) -> str:
    own = "" if view.rule.prevent_self_review else ". The requester may approve it"
    return f"{view.approvals_required} of {_reviewers(view, names, MAX_REVIEWERS)}{own}"


def _reviewers(view: RequestView, names: Names, most: int) -> str:
    """By name: a mention would notify people whom the rule does not."""
    people = [
        "members of this channel" if each == "channel" else inert.line(names.of(each), 40)
        for each in view.approvers
    ]
    more = [f"{len(people) - most:,} more"] if len(people) > most else []
    return ", ".join([*people[:most], *more]) or "nobody: its list of reviewers is empty"


def _rationale(view: RequestView) -> list[Json]:
    said = "\n\n".join(each for each in (view.rationale or "").split("\n\n") if _adds(view, each))
    shown = inert.paragraph(said, MAX_RATIONALE, MAX_RATIONALE_LINES)
    if not shown:
        return []
    label = blocks.section(blocks.text("The agent's own words (not checked):", italic=True))
    return [blocks.rich_text(label, blocks.quote(blocks.text(shown)))]


def _adds(view: RequestView, said: str) -> bool:
    """Whether these words say more than what stands above them: title, facts and arguments."""
    shown = (
        without(view.action.arguments, view.rule.hidden, "args").values,
        without(view.facts or {}, view.rule.hidden, "facts").values,
    )
    above = [view.description, view.action.tool, *_leaves(shown)]
    return not _words(said) <= _words(" ".join(above)) | _FILLING


def _leaves(value: Any) -> Iterator[str]:
    """Names and values."""
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield str(name)
            yield from _leaves(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _leaves(each)
    else:
        yield str(value)


def _words(text: str) -> set[str]:
    return set(_WORDS.findall(text.casefold()))


def small_print(view: RequestView, request: str | None = None) -> str:
    """Deadline and ids as mrkdwn; `request`: the displayed id, by default the short one."""
    ids = f"request {request or short_id(view.id)} · revision {view.revision}"
    if view.status is not RequestStatus.WAITING:
        return ids
    return f"Decide before {blocks.moment_mrkdwn(view.expires_at)} · {ids}"


_WITHHELD = "Slack did not accept the full card. Approve is withheld here; Details shows everything, with every button."
_SHORTENED = "Slack did not accept the full card. Details shows everything."
_SHORTENED_LINE = "Slack did not accept the full message. The pages of the run and of the request show it."


def plain_request_card(view: RequestView, *, delivery_id: object | None, findable: bool) -> Card:
    """Details and Reject only: nobody approves what is not shown."""
    waiting = view.status is RequestStatus.WAITING
    rows = [
        _section(inert.line(title(view), blocks.HEADER_LIMIT)),
        _section(f"{status_words.of_request(view.standing)}. {_WITHHELD if waiting else _SHORTENED}"),
        blocks.context(small_print(view)),
        *buttons.plain_row(view),
    ]
    known = metadata(delivery_id, request=view.id) if findable else None
    return Card(fallback(view), blocks.with_ids(rows, f"plain:{view.id}:{view.status}"), known)


def plain_message(card: Card, *, findable: bool) -> Card:
    """Return a card as mere text, for when Slack refuses its blocks; `findable` keeps its metadata."""
    text = card.text if len(card.text) <= blocks.TEXT_LIMIT else ""
    said = [{"type": "section", "text": {"type": "mrkdwn", "text": text}}] if text else []
    rows = blocks.with_ids([*said, _section(_SHORTENED_LINE)], "plain")
    return Card(text or _SHORTENED_LINE, rows, card.metadata if findable else None)


def _section(content: str) -> Json:
    return {"type": "section", "text": blocks.plain(content, blocks.TEXT_LIMIT)}
