"""Make text from agents, tools and people inert: readable, without effect.

Slack parses mentions and links in mrkdwn, and some characters are invisible or reverse the line. Cards use plain and
rich text where possible; this handles characters and the remaining mrkdwn (`Card.text`).

Sizes are counted as Slack stores a text: `&`, `<`, `>` as entities, in UTF-16 units.
"""

from __future__ import annotations

import re

from signoff.visible_text import BLANK_LINES, SPACES, closed, is_mark, isolated, one_line, visible

_WEIGHTS = {"&": 5, "<": 4, ">": 4}
# A variation selector belongs to the preceding character, which may be replaced here.
_LOOKALIKES = {"*": "∗", "~": "∼", "`": "ˋ", "@": "＠", "#": "＃", "\ufe0e": None, "\ufe0f": None}
_FORMATTING = str.maketrans(_LOOKALIKES)
_UNDERSCORE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")
_SHORTCODE = re.compile(r":(?=[\w+'-]+:)")
_DOMAIN_DOT = re.compile(r"(?<=\w)\.(?=[^\W\d_]{2})")
_SCHEME = re.compile(r"(?<=[^\W\d]):(?=\S)|(?<=\d):(?=[^\s\d])")  # not in times of day


def weight(text: str) -> int:
    """The length that Slack counts."""
    escapes = 4 * text.count("&") + 3 * (text.count("<") + text.count(">"))
    units = len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
    return units + escapes


def cut(text: str, limit: int) -> tuple[str, int]:
    """The longest prefix of at most weight `limit`, and the number of omitted characters."""
    if weight(text) <= limit:
        return text, 0
    total = start = limit if weight(text[:limit]) == limit else 0  # characters of weight one
    for position, character in enumerate(text[start:], start):
        total += _weigh(character)
        if total > limit:
            end = position
            while end and is_mark(text[end]):  # combining marks stay with their character
                end -= 1
            return text[: end or position], len(text) - (end or position)
    return text, 0


def shortened(text: str, limit: int) -> str:
    """`cut`, with the number of omitted characters, within `limit`."""
    if weight(text) <= limit:
        return text
    shown, _ = cut(text, max(0, limit - 33))
    shown = shown.rstrip()
    return f"{closed(shown)}… {len(text) - len(shown):,} more characters"


def line(text: str, limit: int) -> str:
    """One line for plain and rich text: no line breaks, runs of spaces, or status signs."""
    return shortened(isolated(one_line(text)), limit)


def line_and_rest(text: str, limit: int) -> tuple[str, bool]:
    """`line`, and whether anything was left out."""
    whole = isolated(one_line(text))
    return shortened(whole, limit), weight(whole) > limit


def paragraph(text: str, limit: int, max_lines: int) -> str:
    """Several lines for quotations: no two blank lines in a row; cut with counts."""
    text = SPACES.sub(" ", visible(text)).strip()
    text = BLANK_LINES.sub("\n\n", text)
    shown = "\n".join(text.split("\n")[:max_lines]).rstrip()
    if shown == text and weight(text) <= limit:
        return text
    shown = cut(shown, max(0, limit - 32))[0].rstrip()
    return f"{shown}… {len(text) - len(shown):,} more characters"


def mrkdwn(text: str, limit: int) -> str:
    """One line for mrkdwn: active characters become look-alikes."""
    text = isolated(one_line(text)).translate(_FORMATTING)
    for pattern, sign in ((_SCHEME, "꞉"), (_SHORTCODE, "꞉"), (_UNDERSCORE, "ˍ"), (_DOMAIN_DOT, "․")):
        text = pattern.sub(sign, text)
    # An underscore inside a word may now be at its end.
    return escaped(_UNDERSCORE.sub("ˍ", shortened(text, limit)))


def without_links(text: str, limit: int) -> str:
    """One line for e-mail, where clients turn addresses into links."""
    text = _DOMAIN_DOT.sub("․", _SCHEME.sub("꞉", isolated(one_line(text))))
    return shortened(text, limit)


def escaped(text: str) -> str:
    """Mrkdwn's three reserved characters as entities (Slack, "Formatting text for app surfaces")."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _weigh(character: str) -> int:
    return _WEIGHTS.get(character) or (2 if character > "\uffff" else 1)


# What spreadsheets evaluate as a formula (OWASP): at a cell's start, after blanks and invisible characters,
# and after what some take for a cell's end.
_FORMULA = re.compile(r"(\A|[;\t\r\n\v])(?=[\s\u200b-\u200f\u2060\ufeff]*[=+\-@＝＋－＠]|\A[\t\r])")


def cell(text: str) -> str:
    """Text for a spreadsheet: what would be a formula, within the cell, too, gets an apostrophe."""
    return _FORMULA.sub(r"\1'", text)
