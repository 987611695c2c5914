"""The words by which a request is found, without what people may not see."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

from agent.domain.request_list import search_marks
from agent.domain.request_view import RequestView
from signoff.values import Person
from slackbot.masking.views import clean_view, work_for

MAX_WORDS = 2000
LONGEST_WORD = 60

_WORD = re.compile(r"[^\W_]+")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")


def search_words(text: str) -> list[str]:
    """The different words, folded, in order: `Refund 1,499.50` has refund, 1499 and 50."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    found = _WORD.findall(_THOUSANDS.sub("", folded))
    return list(dict.fromkeys(word[:LONGEST_WORD] for word in found))


async def words_of_request(view: RequestView) -> list[str]:
    """The most significant first; masked values are left out."""
    with work_for("search"):  # in its turn: nobody waits
        clean = await clean_view(view)
    words = dict.fromkeys(search_marks(view.checkpoint_id, view.channel_id, view.risk))
    for part in _texts(clean):
        words.update(dict.fromkeys(search_words(part)))
        if len(words) > MAX_WORDS:
            break
    return list(words)[:MAX_WORDS]


def _texts(view: RequestView) -> Iterator[str]:
    yield from (view.description, view.action.tool, view.chain, view.checkpoint_id)
    yield from (each.user_id for each in _people(view))
    yield from _leaves(view.action.arguments)
    yield from _leaves(view.facts)
    yield view.rationale or ""
    yield from (vote.reason or "" for vote in view.votes)
    yield from (text for vote in view.votes for text in _leaves(vote.answer))
    yield (view.decision.reason if view.decision else None) or ""
    yield from _leaves(view.context)


def _people(view: RequestView) -> Iterator[Person]:
    """Names change, and are known to Slack: a search by name looks for ids."""
    if requester := view.behalf.requester:
        yield requester
    yield from (vote.person for vote in view.votes)
    if view.decision and view.decision.person:
        yield view.decision.person


def _leaves(value: Any) -> Iterator[str]:
    match value:
        case Mapping():
            for key, member in value.items():
                yield str(key)
                yield from _leaves(member)
        case list() | tuple():
            for item in value:
                yield from _leaves(item)
        case None | bool():
            pass
        case _:
            yield str(value)
