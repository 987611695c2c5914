"""Text from agents, tools and people made harmless: it can be read, and it can do nothing.

Slack reads mrkdwn for mentions and links, and draws some characters invisibly or turns the line around. Cards use
plain and rich text where they can; this module takes care of characters, and of the rest (`Card.text`).

Sizes are counted as Slack stores a text: `&`, `<`, `>` as entities, in UTF-16 units.
"""

from __future__ import annotations

import re

from signoff.visible_text import BLANK_LINES, SPACES, is_mark, one_line, visible

_WEIGHTS = {"&": 5, "<": 4, ">": 4}
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
    units = len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
    return units + escapes


def cut(text: str, limit: int) -> tuple[str, int]:
    """The longest beginning that weighs at most `limit`, and how many characters were left out."""
    if weight(text) <= limit:
        return text, 0
    total = start = limit if weight(text[:limit]) == limit else 0  # characters that weigh one need no look
    for position, character in enumerate(text[start:], start):
        total += _weigh(character)
        if total > limit:
            end = position
            while end and is_mark(text[end]):  # an accent or a style stays with its sign
                end -= 1
            return text[: end or position], len(text) - (end or position)
    return text, 0


def shortened(text: str, limit: int) -> str:
    """`cut`, with the number of left out characters at its end, all within `limit`."""
    if weight(text) <= limit:
        return text
    shown, _ = cut(text, max(0, limit - 32))
    return f"{shown.rstrip()}… {len(text) - len(shown.rstrip()):,} more characters"


def line(text: str, limit: int) -> str:
    """One inert line for plain text and rich text: no line breaks, no runs of spaces, no signs of our own."""
    return shortened(one_line(text), limit)


def line_and_rest(text: str, limit: int) -> tuple[str, bool]:
    """`line`, and whether anything was left out."""
    whole = one_line(text)
    return shortened(whole, limit), weight(whole) > limit


def paragraph(text: str, limit: int, max_lines: int) -> str:
    """Inert text of several lines, for quotations: at most one blank line in a row; cut with counts."""
    text = SPACES.sub(" ", visible(text)).strip()
    text = BLANK_LINES.sub("\n\n", text)
    shown = "\n".join(text.split("\n")[:max_lines]).rstrip()
    if shown == text and weight(text) <= limit:
        return text
    shown = cut(shown, max(0, limit - 32))[0].rstrip()
    return f"{shown}… {len(text) - len(shown):,} more characters"


def mrkdwn(text: str, limit: int) -> str:
    """One inert line for a place that Slack reads as mrkdwn: what Slack would act on becomes a sign that looks like
    it.
    """
    text = one_line(text).translate(_FORMATTING)
    for pattern, sign in ((_SCHEME, "꞉"), (_SHORTCODE, "꞉"), (_UNDERSCORE, "ˍ"), (_DOMAIN_DOT, "․")):
        text = pattern.sub(sign, text)
    # An underscore inside a word may stand at its end now.
    return escaped(_UNDERSCORE.sub("ˍ", shortened(text, limit)))


def without_links(text: str, limit: int) -> str:
    """One inert line for a place that makes links of what looks like an address: e-mail."""
    text = _DOMAIN_DOT.sub("․", _SCHEME.sub("꞉", one_line(text)))
    return shortened(text, limit)


def escaped(text: str) -> str:
    """The three characters that mrkdwn reserves, as entities (Slack, "Formatting text for app surfaces")."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _weigh(character: str) -> int:
    return _WEIGHTS.get(character) or (2 if character > "\uffff" else 1)
