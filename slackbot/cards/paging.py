"""Long content as pages of a modal. Slack documents no limit on a view's text; pages stay well below 250 KB."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from slackbot.cards import blocks, inert
from slackbot.cards.values import Json, Pages, page_value

MAX_PAGE = 9_000
"""Weight of a page's blocks, without its frame."""
MAX_PAGE_BLOCKS = 60
MAX_BOX = 2_900


def pieces(text: str) -> Iterator[str]:
    """Pieces end at a line end where one is near."""
    rest = text
    while rest:
        piece, more = inert.cut(rest, MAX_BOX)
        if more and (end := piece.rfind("\n") + 1) > len(piece) // 2:
            piece = piece[:end]
        rest = rest[len(piece) :]
        yield piece


def in_pages(content: Sequence[Json]) -> list[list[Json]]:
    """Returns at least one page, which may be empty."""
    pages: list[list[Json]] = [[]]
    used = 0
    for block in content:
        size = blocks.size(block)
        if pages[-1] and (used + size > MAX_PAGE or len(pages[-1]) == MAX_PAGE_BLOCKS):
            pages.append([])
            used = 0
        pages[-1].append(block)
        used += size
    return pages


def turns(what: str, page: int, pages: int, **query: object) -> Pages:
    """Return the page values before and after this page of `pages`, counted from 1; None at either end."""

    def to(number: int) -> str | None:
        return page_value(what, **query, page=number) if 1 <= number <= pages else None

    return Pages(back=to(page - 1), forward=to(page + 1))
