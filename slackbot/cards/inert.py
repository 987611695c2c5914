"""Text from agents, tools and people made harmless: it can be read, and it can do nothing.

Slack reads mrkdwn for mentions, links and formatting, draws some characters invisibly, and lets others turn
the line around. Wherever possible cards use plain text and rich text, which are not parsed; this module
takes care of the characters, and of the few places where mrkdwn cannot be avoided (`Card.text`).

Sizes are counted the way Slack stores a text: `&`, `<`, `>` as entities, in UTF-16 units.
"""

from __future__ import annotations

import re
import unicodedata
from itertools import groupby

MAX_MARKS = 3
"""Combining marks on one letter: living scripts need up to three, "zalgo" text dozens."""

_WEIGHTS = {"&": 5, "<": 4, ">": 4}
_HIDDEN_CATEGORIES = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
# Letters and symbols that are drawn as nothing or as a blank, which their category does not tell.
_BLANKS = set("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0")
_EMOJI_STYLE = {"\ufe0e", "\ufe0f"}
# Signs that our own status lines begin with, and those that could be taken for them.
_STATUS_SIGNS = set("✅☑✔❎❌✖✗✘⛔🚫🛑⏳⌛⚠▶↩🟢🔴🟡🆗")

_SPACES = re.compile(r"[^\S\n]+")
_BREAKS = re.compile(r" *\n[ \n]*")
_BLANK_LINES = re.compile(r" *\n(?: *\n)+")
_FORMATTING = str.maketrans({"*": "∗", "~": "∼", "`": "ˋ", "@": "＠", "#": "＃"})
_UNDERSCORE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")
_SHORTCODE = re.compile(r":(?=[\w+'-]+:)")
_DOMAIN_DOT = re.compile(r"(?<=\w)\.(?=[^\W\d_]{2})")
_SCHEME = re.compile(r"(?<=\w):(?=//|[^\s\d:])")


def weight(text: str) -> int:
    """How long Slack takes this text to be: after escaping, in UTF-16 units."""
    return sum(map(_weigh, text))


def cut(text: str, limit: int) -> tuple[str, int]:
    """The longest beginning that weighs at most `limit`, and how many characters were left out."""
    total = 0
    for position, character in enumerate(text):
        total += _weigh(character)
        if total > limit:
            return text[:position], len(text) - position
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
        return not (
            before and (unicodedata.category(before) in {"So", "Sm", "Po"} or before in "#*0123456789")
        )
    if character in _BLANKS or "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef":
        return True
    return unicodedata.category(character) in _HIDDEN_CATEGORIES


def hidden_positions(text: str) -> set[int]:
    """Where `text` has characters that must not stand in it as they are; line breaks and tabs included."""
    found, marks, before = set(), 0, ""
    for position, character in enumerate(text):
        combining = unicodedata.category(character) in {"Mn", "Me", "Mc"}
        marks = marks + 1 if combining else 0
        if is_hidden(character, before) or marks > MAX_MARKS:
            found.add(position)
        before = character
    return found


def visible(text: str) -> str:
    """`text` with each hidden character replaced by a sign that can be seen: `␇`, `⟦U+202E⟧`, `⟦U+200B ×40⟧`.

    Line breaks stay; tabs and foreign kinds of spaces become spaces.
    """
    text = text.replace("\r\n", "\n").replace("\t", " ")
    hidden = hidden_positions(text)
    pieces = []
    for key, group in groupby(enumerate(text), lambda at: _mark(at[0] in hidden, at[1])):
        run = [character for _, character in group]
        pieces.append("".join(run) if key is None else _show_mark(key, len(run)))
    return "".join(" " if unicodedata.category(c) == "Zs" else c for c in "".join(pieces))


def line(text: str, limit: int) -> str:
    """One inert line for plain text and rich text: no line breaks, no runs of spaces, no signs of our own."""
    return shortened(_one_line(text), limit)


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


def escaped(text: str) -> str:
    """The three characters that mrkdwn reserves, as entities (Slack, "Formatting text for app surfaces")."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _one_line(text: str) -> str:
    text = _BREAKS.sub(" ⏎ ", _SPACES.sub(" ", visible(text)).strip())
    return "".join(f"⟦U+{ord(c):04X}⟧" if c in _STATUS_SIGNS else c for c in text)


def _weigh(character: str) -> int:
    return _WEIGHTS.get(character) or (2 if character > "\uffff" else 1)


def _mark(hidden: bool, character: str) -> str | None:
    """What this character is shown as, or None when as itself. Equal marks in a row are counted."""
    if not hidden or character == "\n":
        return None
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    if 0xE0000 <= code <= 0xE007F:
        return "tag character"
    if unicodedata.category(character) in {"Mn", "Me", "Mc"} and not is_hidden(character):
        return "combining mark"
    return f"U+{code:04X}"


def _show_mark(mark: str, times: int) -> str:
    if len(mark) == 1 and times == 1:
        return mark
    return f"⟦{mark} ×{times:,}⟧" if times > 1 else f"⟦{mark}⟧"
