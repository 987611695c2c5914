"""Text as Slack stores it.

Source: Slack, "Formatting text for app surfaces": `&`, `<` and `>` are the control characters.
"""

from __future__ import annotations

import re
from typing import Any

from signoff_demo.sandbox.refusal import Json

_BARE_AMPERSAND = re.compile(r"&(?!(?:amp|lt|gt);)")
_CONTROL_SEQUENCE = re.compile(r"<((?:@[UWB]|#[CG]|!|https?://|mailto:|tel:|slack://)[^<>\n]*)>")


def escaped_plain(text: str) -> str:
    """Existing entities are kept."""
    return _BARE_AMPERSAND.sub("&amp;", text).replace("<", "&lt;").replace(">", "&gt;")


def escaped_mrkdwn(text: str) -> str:
    """Mentions and links stay active; everything else is escaped."""
    pieces: list[str] = []
    position = 0
    for found in _CONTROL_SEQUENCE.finditer(text):
        pieces.append(_escaped_outside(text[position : found.start()]))
        pieces.append(f"<{_BARE_AMPERSAND.sub('&amp;', found[1])}>")
        position = found.end()
    pieces.append(_escaped_outside(text[position:]))
    return "".join(pieces)


def _escaped_outside(text: str) -> str:
    # Slack stores a leading ">" as an entity and still renders it as a quotation.
    return escaped_plain(text)


_VERBATIM = {
    "url",
    "image_url",
    "thumb_url",
    "video_url",
    "value",
    "block_id",
    "action_id",
    "type",
    "alt_text",
}


def escaped_blocks(value: Any) -> Any:
    """Return blocks with their texts escaped as Slack stores them; ids, URLs and Markdown are kept."""
    if isinstance(value, list):
        return [escaped_blocks(item) for item in value]
    if not isinstance(value, dict):
        return value
    kind = value.get("type")
    return {key: _escaped_member(kind, key, member) for key, member in value.items()}


def _escaped_member(kind: Any, key: str, member: Any) -> Any:
    if key == "text" and isinstance(member, str):
        if kind == "markdown":
            return member
        return escaped_mrkdwn(member) if kind == "mrkdwn" else escaped_plain(member)
    if key in _VERBATIM:
        return member
    return escaped_blocks(member)


def typed(text: str, names: Json) -> str:
    """`names` maps "@ada" or "#general" to the control sequence that the client's completion inserts. Literal ids
    (`<@U0ADA>`) count as completions too; all other angle brackets are escaped.
    """
    pattern = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    known = set(names.values())
    text = _CONTROL_SEQUENCE.sub(
        lambda found: found[0] if found[0] in known else escaped_plain(found[0]), text
    )
    out: list[str] = []
    for piece in re.split(r"(<(?:@|#|!)[^<>]*>)", text):
        if piece in known:
            out.append(piece)
            continue
        plain = escaped_plain(piece)
        if pattern:
            plain = re.sub(rf"(?<![\w@#])(?:{pattern})(?![\w-])", lambda found: str(names[found[0]]), plain)
        out.append(re.sub(r"(?<![<|])https?://[^\s<>|]+", lambda found: f"<{found[0]}>", plain))
    return "".join(out)
