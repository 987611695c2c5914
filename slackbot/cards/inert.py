"""Text from agents, tools and people made harmless: it can be read, and it can do nothing.

Slack reads mrkdwn for mentions, links and formatting, draws some characters invisibly, and lets others turn
the line around. Wherever possible cards use plain text and rich text, which are not parsed; this module
takes care of the characters, and of the few places where mrkdwn cannot be avoided (`Card.text`).

Sizes are counted the way Slack stores a text: `&`, `<`, `>` as entities, in UTF-16 units.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

MAX_MARKS = 3
"""Combining marks on one letter: living scripts need up to three, "zalgo" text dozens."""

_WEIGHTS = {"&": 5, "<": 4, ">": 4}
_HIDDEN_CATEGORIES = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
# Letters and symbols that are drawn as nothing or as a blank, which their category does not tell.
_BLANKS = set("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0")
_KEYCAPS = "#*0123456789"
_EMOJI_STYLE = {"\ufe0e", "\ufe0f"}
# Signs that our own status lines begin with, and those that could be taken for them.
_STATUS_SIGN = re.compile("([✅☑✔❎❌✖✗✘⛔🚫🛑⏳⌛⚠▶↩🟢🔴🟡🆗])[\ufe0e\ufe0f]?")

_NOT_ASCII = re.compile(r"[^ -~]+")  # or not printable
_FOREIGN_SPACES = re.compile(r"[^\S\n ]")
_SPACES = re.compile(r"[^\S\n]+")
_BREAKS = re.compile(r" *\n[ \n]*")
_BLANK_LINES = re.compile(r" *\n(?: *\n)+")
# A variation selector belongs to the sign in front of it, which may be replaced here.
_LOOKALIKES = {"*": "∗", "~": "∼", "`": "ˋ", "@": "＠", "#": "＃", "\ufe0e": None, "\ufe0f": None}
_FORMATTING = str.maketrans(_LOOKALIKES)
_UNDERSCORE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")
_SHORTCODE = re.compile(r":(?=[\w+'-]+:)")
_DOMAIN_DOT = re.compile(r"(?<=\w)\.(?=[^\W\d_]{2})")
_SCHEME = re.compile(r"(?<=[^\W\d]):(?=\S)|(?<=\d):(?=[^\s\d])")  # not in times of day


def weight(text: str) -> int:
    """How long Slack takes this text to be: after escaping, in UTF-16 units."""
    escapes = 4 * text.count("&") + 3 * (text.count("<") + text.count(">"))
    return len(text.encode("utf-16-le", "surrogatepass")) // 2 + escapes


def cut(text: str, limit: int) -> tuple[str, int]:
    """The longest beginning that weighs at most `limit`, and how many characters were left out."""
    if weight(text) <= limit:
        return text, 0
    total = 0
    for position, character in enumerate(text):
        total += _weigh(character)
        if total > limit:
            end = position
            while end and _is_mark(text[end]):  # an accent or a style stays with its sign
                end -= 1
            return text[: end or position], len(text) - (end or position)
    return text, 0


def shortened(text: str, limit: int) -> str:
    """`cut`, with the number of left out characters at its end, all within `limit`."""
    if weight(text) <= limit:
        return text
    shown, _ = cut(text, max(0, limit - 32))
    return f"{shown.rstrip()}… {len(text) - len(shown.rstrip()):,} more characters"


def is_hidden(character: str, before: str = "") -> bool:
    """Whether this character is drawn as nothing, or changes how others are drawn.

    `before` is the character in front of it: an emoji may be followed by one variation selector.
    """
    if character in _EMOJI_STYLE:
        return not (before and (before in _KEYCAPS or unicodedata.category(before) in {"So", "Sm", "Po"}))
    return _is_never_shown(character)


def hidden_positions(text: str) -> set[int]:
    """Where `text` has characters that must not stand in it as they are; line breaks and tabs included."""
    found: set[int] = set()
    for run in _NOT_ASCII.finditer(text):
        marks, before = 0, text[run.start() - 1 : run.start()]
        for position, character in enumerate(run.group(), run.start()):
            kind = _kind(character)
            if kind is None:
                marks, before = 0, character
                continue
            marks = marks + 1 if kind.is_mark else 0
            hidden = kind.is_never_shown if not kind.is_style else is_hidden(character, before)
            if hidden or marks > MAX_MARKS:
                found.add(position)
                before = ""  # nothing can be styled by what follows
            else:
                before = character
    return found


def visible(text: str) -> str:
    """`text` with each hidden character replaced by a sign that can be seen: `␇`, `⟦U+202E⟧`, `⟦U+200B ×40⟧`.

    Line breaks stay; tabs and foreign kinds of spaces become spaces.
    """
    text = text.replace("\r\n", "\n").replace("\t", " ")
    pieces, done = [], 0
    hidden = sorted(at for at in hidden_positions(text) if text[at] != "\n")
    # Equal marks whose positions follow each other differ from their rank by the same number.
    for (mark, _), run in groupby(enumerate(hidden), lambda at: (_mark(text[at[1]]), at[1] - at[0])):
        positions = [position for _, position in run]
        pieces += [text[done : positions[0]], _show_mark(mark, len(positions))]
        done = positions[-1] + 1
    return _FOREIGN_SPACES.sub(" ", "".join([*pieces, text[done:]]))


def line(text: str, limit: int) -> str:
    """One inert line for plain text and rich text: no line breaks, no runs of spaces, no signs of our own."""
    return shortened(_one_line(text), limit)


def line_and_rest(text: str, limit: int) -> tuple[str, bool]:
    """`line`, and whether anything was left out."""
    whole = _one_line(text)
    return shortened(whole, limit), weight(whole) > limit


def paragraph(text: str, limit: int, max_lines: int) -> str:
    """Inert text of several lines, for quotations: at most one blank line in a row; cut with counts."""
    text = _SPACES.sub(" ", visible(text)).strip()
    text = _BLANK_LINES.sub("\n\n", text)
    shown = "\n".join(text.split("\n")[:max_lines]).rstrip()
    if shown == text and weight(text) <= limit:
        return text
    shown = cut(shown, max(0, limit - 32))[0].rstrip()
    return f"{shown}… {len(text) - len(shown):,} more characters"


def mrkdwn(text: str, limit: int) -> str:
    """One inert line for a place that Slack reads as mrkdwn: no mention, link, format or emoji comes alive.

    What Slack would act on is replaced by a sign that looks like it; entities are never cut in two.
    """
    text = _one_line(text).translate(_FORMATTING)
    for pattern, sign in ((_SCHEME, "꞉"), (_SHORTCODE, "꞉"), (_UNDERSCORE, "ˍ"), (_DOMAIN_DOT, "․")):
        text = pattern.sub(sign, text)
    return escaped(shortened(text, limit))


def without_links(text: str, limit: int) -> str:
    """One inert line for a place that makes links of what looks like an address: e-mail."""
    text = _DOMAIN_DOT.sub("․", _SCHEME.sub("꞉", _one_line(text)))
    return shortened(text, limit)


def escaped(text: str) -> str:
    """The three characters that mrkdwn reserves, as entities (Slack, "Formatting text for app surfaces")."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _one_line(text: str) -> str:
    text = _BREAKS.sub(" ⏎ ", _SPACES.sub(" ", visible(text)).strip())
    return _STATUS_SIGN.sub(lambda found: f"⟦{_mark(found[1])}⟧", text)


def _weigh(character: str) -> int:
    return _WEIGHTS.get(character) or (2 if character > "\uffff" else 1)


class _Kind(NamedTuple):
    is_mark: bool
    is_style: bool
    is_never_shown: bool


@lru_cache(maxsize=4096)
def _kind(character: str) -> _Kind | None:
    """What is out of the ordinary about a character; `None`: nothing."""
    kind = _Kind(_is_mark(character), character in _EMOJI_STYLE, _is_never_shown(character))
    return kind if any(kind) else None


@lru_cache(maxsize=4096)
def _is_mark(character: str) -> bool:
    return unicodedata.category(character) in {"Mn", "Me", "Mc"}


@lru_cache(maxsize=4096)
def _is_never_shown(character: str) -> bool:
    selector = "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef"
    return selector or character in _BLANKS or unicodedata.category(character) in _HIDDEN_CATEGORIES


@lru_cache(maxsize=4096)
def _mark(character: str) -> str:
    """What a hidden character is shown as. Equal marks in a row are counted."""
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    if 0xE0000 <= code <= 0xE007F:
        return "tag character"
    if _is_mark(character) and not is_hidden(character):
        return "combining mark"
    return f"U+{code:04X}"


def _show_mark(mark: str, times: int) -> str:
    if len(mark) == 1 and times == 1:
        return mark
    return f"⟦{mark} ×{times:,}⟧" if times > 1 else f"⟦{mark}⟧"
