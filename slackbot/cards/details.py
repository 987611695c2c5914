"""A request in full: pages of a modal, or a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agent.domain.explanation import WhyAsked
from agent.domain.request_view import RequestView, VoteView
from agent.domain.together import with_others
from agent.domain.verdicts import VERDICTS
from signoff import formats
from slackbot.cards import (
    arguments,
    blocks,
    buttons,
    facts,
    inert,
    json_text,
    paging,
    status,
    status_words,
    tree,
    why,
)
from slackbot.cards.modals import modal
from slackbot.cards.request import (
    limits_blocks,
    origin,
    small_print,
    title,
    unreadable,
    withheld_note,
    without_command_in_title,
)
from slackbot.cards.values import ACTION_FILE, Json, Names, button_value

PAGES_BEFORE_FILE = 5
MAX_READABLE = 3_000
_NO_LIMIT = 2**62
_EXACTLY = "The same, exactly and in full"

_SHOWN_CONTEXT = ("task", "earlier_calls", "transcript", "action_description")
"""What a program said of its action is among the agent's own words."""

PAGE_OF_DETAILS = "details"
"""Page values with `request`, `revision` and `page`."""


def details_modal(
    view: RequestView,
    page: int = 1,
    *,
    names: Names | None = None,
    permalink: str | None = None,
    asked_because: WhyAsked | None = None,
) -> Json:
    """The page (from 1) or the nearest; with the card's buttons if `view.place_nonce` names a place."""
    names = names or Names()
    pages = paging.in_pages(list(_content(view, names, permalink, asked_because)))
    page = max(1, min(page, len(pages)))
    above = [blocks.header(inert.line(title(without_command_in_title(view)), blocks.HEADER_LIMIT))]
    withheld = unreadable(view)
    turns = paging.turns(PAGE_OF_DETAILS, page, len(pages), request=view.id, revision=view.revision)
    below = [
        blocks.context(f"{small_print(view, str(view.id))} · page {page} of {len(pages)}"),
        *buttons.turning(turns, f"details of {buttons.subject(view)}"),
        *withheld_note(view, withheld),
        *buttons.whole_row(view, names, approvable=not withheld),
        *_file(view, len(pages)),
    ]
    rows = blocks.with_ids([*above, *pages[page - 1], *below], f"{view.id}:{view.revision}:{page}")
    return modal("Details", rows, close="Close")


def details_text(view: RequestView) -> str:
    """Everything as plain text, as exact as the modal."""
    standing = f"{status_words.of_request(view.standing)} · request {view.id} · revision {view.revision}"
    parts = [f"{inert.line(title(view), 2000)}\n{standing}"]
    parts += [f"{label}\n{text}" for label, text in _texts(view)]
    return "\n\n".join(parts)


def details_pages(view: RequestView) -> int:
    """Return the number of pages that the modal with a request's details has, at least one."""
    return len(paging.in_pages(list(_content(view, Names()))))


def _content(
    view: RequestView,
    names: Names,
    permalink: str | None = None,
    asked_because: WhyAsked | None = None,
) -> Iterator[Json]:
    if inert.weight(inert.line(title(view), 100_000)) > blocks.HEADER_LIMIT:  # the header is cut
        yield blocks.rich_text(blocks.section(blocks.text(inert.line(buttons.subject(view), 2500))))
    yield blocks.rich_text(*status.parts(view, status.ALL))
    yield blocks.rich_text(*origin(view, names, permalink), *_tool(view))
    if because := why.lines(view, asked_because):
        reasons = blocks.bullets(blocks.section(blocks.text(each)) for each in because)
        yield blocks.rich_text(blocks.section(blocks.text(why.TITLE, bold=True)), reasons)
    if view.previous_facts is not None:
        changed = tree.changes(view.previous_facts, view.facts or {}, MAX_READABLE, view.money_in("facts"))
        head = blocks.section(blocks.text("Facts: what has changed since an earlier approval", bold=True))
        yield blocks.rich_text(head, *changed.parts)
    if together := [(vote, how) for vote in view.votes if (how := with_others(vote.others))]:
        yield blocks.rich_text(blocks.bullets(_together(vote, how) for vote, how in together))
    yield from limits_blocks(view)
    yield from _facts(view)
    yield from _arguments(view)
    for label, text in _quoted_words(view, names):
        yield from _boxes(blocks.section(blocks.text(label, bold=True)), text)


def _together(vote: VoteView, how: str) -> Json:
    verb = VERDICTS[vote.verdict].outcome.status.word
    return blocks.section(blocks.person(vote.person), blocks.text(f" {verb} {how}"))


def _tool(view: RequestView) -> list[Json]:
    digest = blocks.text(view.digest.hex(), code=True)
    said = "SHA-256 of the question " if view.wants_answer else "SHA-256 of what is approved "
    what = blocks.section(blocks.text(said, bold=True), digest)
    if view.is_question:
        return [what]
    tool = blocks.text(inert.line(view.action.tool, 80), code=True)
    version = blocks.text(arguments.version_of(view.action))
    return [blocks.section(blocks.text("Tool ", bold=True), tool, version), what]


def _arguments(view: RequestView) -> Iterator[Json]:
    given = json_text.arguments_of(view.action)
    parts = arguments.shown(view, MAX_READABLE, 60, whole=True).parts
    if view.is_question:
        yield from [blocks.rich_text(*parts)] if parts else []
        yield from _boxes(
            _italic("Everything that was sent with the question, exactly"), json_text.readable(given)
        )
        return
    yield blocks.rich_text(*(parts or [arguments.label(view), _italic("none")]))
    if given:
        yield from _boxes(_italic(_EXACTLY), json_text.readable(given))


def _facts(view: RequestView) -> Iterator[Json]:
    """First readable, if short enough; then exact and complete."""
    if view.facts:
        seen = tree.show_values(view.facts, MAX_READABLE, 60, view.money_in("facts"), view.called)
        yield blocks.rich_text(facts.heading(view), *seen.parts)
        yield from _boxes(_italic(_EXACTLY), json_text.readable(dict(view.facts)))
    elif not view.is_question:
        yield blocks.rich_text(_italic(facts.absent(view)))


def _italic(content: str) -> Json:
    return blocks.section(blocks.text(content, italic=True))


def _boxes(label: Json, text: str) -> Iterator[Json]:
    for number, piece in enumerate(paging.pieces(text)):
        head = [label] if number == 0 else []
        yield blocks.rich_text(*head, blocks.preformatted(piece))


def _quoted_words(view: RequestView, names: Names) -> Iterator[tuple[str, str]]:
    """Hidden characters are made visible; the text is otherwise exact."""
    for vote in view.votes:
        if vote.reason:
            what = VERDICTS[vote.verdict].outcome.own_words
            yield f"{what} of {inert.line(names.of(vote.person.user_id), 80)}", _lines(vote.reason)
    if view.decision and view.decision.reason:
        yield "Reason of the decision", _lines(view.decision.reason)
    if view.execution and view.execution.error:
        heading = "Why nothing was done" if view.execution.nothing_done else "What the tool said"
        yield heading, _lines(view.execution.error)
    if view.rationale:
        yield "The agent's own words (not checked)", _lines(view.rationale)
    yield from _context(view.context)


def _context(context: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if task := context.get("task"):
        yield "The agent's task, as given", _lines(_text(task))
    if calls := _sequence(context.get("earlier_calls")):
        shown = (f"{number}. {_call(call)}" for number, call in enumerate(calls, 1))
        yield f"Earlier tool calls of this run ({len(calls):,})", "\n".join(shown)
    if transcript := _sequence(context.get("transcript")):
        shown = (f"{_role(message)}: {_lines(_member(message, 'text'))}" for message in transcript)
        yield f"Recent transcript, newest last, not checked ({len(transcript):,})", "\n".join(shown)
    rest = {key: value for key, value in context.items() if key not in _SHOWN_CONTEXT}
    if rest:
        yield "Other context of the agent", json_text.readable(rest)


def _texts(view: RequestView) -> Iterator[tuple[str, str]]:
    if earlier := view.rejected_before:
        by = f" by {inert.line(str(earlier.person), 80)}" if earlier.person else ""
        why = f"\n{_lines(earlier.reason)}" if earlier.reason else ""
        shown = f"{formats.moment(earlier.at)}{by}, request {earlier.request_id}{why}"
        yield "The same action was recently rejected:", shown
    if view.facts:
        yield f"{facts.title(view)}:", json_text.readable(dict(view.facts))
    elif not view.is_question:
        yield "Facts:", facts.absent(view)
    action = view.action
    yield (
        f"Arguments of {inert.line(action.tool, 200)}{arguments.version_of(action)}:",
        json_text.readable(json_text.arguments_of(action)),
    )
    for label, text in _quoted_words(view, Names()):
        yield f"{label}:", text


def _call(call: Any) -> str:
    answer = _member(call, "answer")
    shown = f"{inert.line(_member(call, 'tool'), 200)}: {inert.line(_member(call, 'state'), 60)}"
    return f"{shown}\n    {_lines(answer)}" if answer else shown


def _lines(text: str) -> str:
    """Indent later lines: none can pass for the next speaker's."""
    return inert.paragraph(text, _NO_LIMIT, _NO_LIMIT).replace("\n", "\n    ")


def _role(message: Any) -> str:
    return inert.line(_member(message, "role"), 60) or "somebody"


def _member(value: Any, name: str) -> str:
    found = value.get(name) if isinstance(value, Mapping) else value
    return "" if found is None else _text(found)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json_text.compact(value)


def _sequence(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else []


def _file(view: RequestView, pages: int) -> list[Json]:
    if pages < PAGES_BEFORE_FILE or not view.place_nonce:
        return []
    return blocks.actions(
        blocks.button("Everything as a file", ACTION_FILE, button_value(view), buttons.subject(view))
    )
