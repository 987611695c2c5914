"""Make characters visible that are invisible or change how others are drawn."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

MAX_MARKS = 3
"""Combining marks per letter: living scripts need up to three, "zalgo" text dozens."""


_HIDDEN_CATEGORIES = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
# Drawn as nothing or a blank, unlike their Unicode category.
_BLANKS = set("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0")
_KEYCAPS = "#*0123456789"
_EMOJI_STYLE = {"\ufe0e", "\ufe0f"}
# Begin our status lines, or look alike: ticks, crosses, traffic lights.
_SYMBOL = re.compile("([\u2190-\u2bff\U0001f000-\U0001fbff])[\ufe0e\ufe0f]?")
_STATUS_SIGN = re.compile(
    r"\bCHECK\b|CROSS MARK|CROSS PRODUCT|CROSSING|DIAGONAL CROSS|BALLOT|SALTIRE|\bTIMES\b"
    r"|(?<!INDICATOR SYMBOL LETTER )\bX\b(?!-)|SQUARE ROOT|RADICAL SYMBOL"
    r"|\b(?:RED|ORANGE|YELLOW|GREEN) (?:CIRCLE|SQUARE)|HEAVY LARGE CIRCLE|TRAFFIC LIGHT|NO ENTRY|OCTAGONAL SIGN"
    r"|HOURGLASS|WARNING SIGN|BLACK RIGHT-POINTING TRIANGLE|LEFTWARDS ARROW WITH HOOK|SQUARED OK"
)

_NOT_ASCII = re.compile(r"[^ -~]+")  # or not printable
_FOREIGN_SPACES = re.compile(r"[^\S\n ]")
SPACES = re.compile(r"[^\S\n]+")
_BREAKS = re.compile(r" *\n[ \n]*")
BLANK_LINES = re.compile(r" *\n(?: *\n)+")


def is_hidden(character: str, before: str = "") -> bool:
    """Whether this character is invisible or changes others. An emoji may have one variation selector."""
    if character in _EMOJI_STYLE:
        return not (before and (before in _KEYCAPS or unicodedata.category(before) in {"So", "Sm", "Po"}))
    return _is_never_shown(character)


def is_plain(text: str) -> bool:
    """Whether a text has only printable ASCII, so that nothing in it can be hidden."""
    return text.isascii() and text.isprintable()


def hidden_positions(text: str) -> set[int]:
    """Includes line breaks and tabs."""
    found: set[int] = set()
    kinds = {character: kind for character in set(text) if (kind := _kind(character))}
    if not any(kind.is_mark or kind.is_style for kind in kinds.values()):  # none depends on its neighbours
        return {at for character in kinds for at in _places(text, character)}
    for run in _NOT_ASCII.finditer(text):
        if kinds.keys().isdisjoint(run.group()):
            continue
        marks, before = 0, text[run.start() - 1 : run.start()]
        for position, character in enumerate(run.group(), run.start()):
            kind = kinds.get(character)
            if kind is None:
                marks, before = 0, character
                continue
            marks = marks + 1 if kind.is_mark else 0
            hidden = kind.is_never_shown if not kind.is_style else is_hidden(character, before)
            if hidden or marks > MAX_MARKS:
                found.add(position)
                before = ""  # a following style has nothing to change
            else:
                before = character
    return found


def _places(text: str, character: str) -> Iterator[int]:
    at = text.find(character)
    while at >= 0:
        yield at
        at = text.find(character, at + 1)


def says_nothing(text: str | None) -> bool:
    """Whether nothing of it can be read: blanks, invisible characters, marks without a letter."""
    return all(each.isspace() or is_mark(each) or _is_never_shown(each) for each in text or "")


def visible(text: str) -> str:
    """Replace each hidden character by a visible sign: `␇`, `⟦U+202E⟧`, `⟦U+200B ×40⟧`.

    Line breaks stay; tabs and exotic spaces become spaces.
    """
    if is_plain(text):
        return text
    text = text.replace("\r\n", "\n").replace("\t", " ")
    pieces, done = [], 0
    hidden = sorted(at for at in hidden_positions(text) if text[at] != "\n")
    # Position minus rank is constant within a run of equal marks.
    for (mark, _), run in groupby(enumerate(hidden), lambda at: (_mark(text[at[1]]), at[1] - at[0])):
        positions = [position for _, position in run]
        pieces += [text[done : positions[0]], _show_mark(mark, len(positions))]
        done = positions[-1] + 1
    return _FOREIGN_SPACES.sub(" ", "".join([*pieces, text[done:]]))


def one_line(text: str) -> str:
    """`visible` without line breaks, runs of spaces, or signs that begin our status lines."""
    if is_plain(text):
        return " ".join(text.split())
    text = _BREAKS.sub(" ⏎ ", SPACES.sub(" ", visible(text)).strip())
    return _SYMBOL.sub(lambda found: f"⟦{_mark(found[1])}⟧" if _is_status_sign(found[1]) else found[0], text)


def isolated(line: str) -> str:
    """Give each quoted right-to-left text its own direction, so that the words around it keep their places.

    Without that, two such values, and a number between them, are drawn in the wrong order. The quotation marks are
    outside: they belong to the sentence. For a line that is `visible`, and so has no isolates of its own.
    """
    if line.isascii() or not _has_right_to_left(line):
        return line
    return _QUOTED.sub(lambda found: _isolate(found[0]) if _has_right_to_left(found[0]) else found[0], line)


def closed(line: str) -> str:
    """A line that was cut within an isolate ends it."""
    return line + _END * (line.count(_BEGIN) - line.count(_END))


_BEGIN, _END = "\u2068", "\u2069"
_QUOTED = re.compile('“[^“”]*”?|«[^«»]*»?|"[^"]*"?')


def _isolate(quotation: str) -> str:
    end = len(quotation) - (len(quotation) > 1 and quotation[-1] in '”»"')
    return f"{quotation[0]}{_BEGIN}{quotation[1:end]}{_END}{quotation[end:]}"


def _has_right_to_left(text: str) -> bool:
    return any(unicodedata.bidirectional(each) in {"R", "AL"} for each in text)


class _Kind(NamedTuple):
    is_mark: bool
    is_style: bool
    is_never_shown: bool


@lru_cache(maxsize=4096)
def _kind(character: str) -> _Kind | None:
    kind = _Kind(is_mark(character), character in _EMOJI_STYLE, _is_never_shown(character))
    return kind if any(kind) else None


@lru_cache(maxsize=4096)
def _is_status_sign(character: str) -> bool:
    looks = unicodedata.category(character) in {"So", "Sm"}
    return looks and _STATUS_SIGN.search(unicodedata.name(character, "")) is not None


@lru_cache(maxsize=4096)
def is_mark(character: str) -> bool:
    """Whether a character is a combining mark, drawn onto the letter before it."""
    return unicodedata.category(character) in {"Mn", "Me", "Mc"}


@lru_cache(maxsize=4096)
def _is_never_shown(character: str) -> bool:
    selector = "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef"
    return selector or character in _BLANKS or unicodedata.category(character) in _HIDDEN_CATEGORIES


@lru_cache(maxsize=4096)
def _mark(character: str) -> str:
    """Equal signs in a row are counted."""
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    if 0xE0000 <= code <= 0xE007F:
        return "tag character"
    if is_mark(character) and not is_hidden(character):
        return "combining mark"
    return f"U+{code:04X}"


def _show_mark(mark: str, times: int) -> str:
    if len(mark) == 1 and times == 1:
        return mark
    return f"⟦{mark} ×{times:,}⟧" if times > 1 else f"⟦{mark}⟧"
