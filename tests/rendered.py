"""A card as the lines that a phone shows: about sixty characters each, and seventy of small print."""

from __future__ import annotations

import re
import textwrap
from html import unescape
from typing import Any

from slackbot.cards.values import Json

WIDTH, SMALL_WIDTH = 60, 70
_DATE = re.compile(r"<!date\^\d+\^[^|]*\|[^>]*>")
_ID = re.compile(r"<(?:@|!subteam\^)([A-Z0-9]+)>")


def rendered(blocks: list[Json]) -> list[str]:
    return [line for block in blocks for line in _block(block)]


def above_the_buttons(blocks: list[Json]) -> list[str]:
    first = next(at for at, block in enumerate(blocks) if block["type"] == "actions")
    return rendered(blocks[:first])


def _block(block: Json) -> list[str]:
    match block["type"]:
        case "header":
            return _wrapped(block["text"]["text"])
        case "section":
            return _wrapped(block["text"]["text"]) + _labels(
                [block["accessory"]] if "accessory" in block else []
            )
        case "context":
            return textwrap.wrap(" ".join(_mrkdwn(each["text"]) for each in block["elements"]), SMALL_WIDTH)
        case "rich_text":
            return [line for part in block["elements"] for line in _part(part)]
        case "actions":
            return _labels(block["elements"])
        case "divider":
            return ["-" * 20]
        case "input":
            return _wrapped(f"{block['label']['text']}: ____")
    raise AssertionError(block["type"])


def _part(part: Json, mark: str = "") -> list[str]:
    match part["type"]:
        case "rich_text_list":
            indent = "    " * part.get("indent", 0)
            return [line for each in part["elements"] for line in _part(each, f"{indent}• ")]
        case "rich_text_quote":
            mark = "| "
        case "rich_text_preformatted":
            mark = "` "
    text = "".join(map(_element, part["elements"]))
    return _wrapped(text, mark)


def _element(element: Json) -> str:
    match element["type"]:
        case "user":
            return f"@{element['user_id']}"
        case "usergroup":
            return f"@{element['usergroup_id']}"
        case "channel":
            return f"#{element['channel_id']}"
        case "date":
            return "tomorrow at 8:47 PM"
    return unescape(str(element["text"]))


def _mrkdwn(text: str) -> str:
    return _ID.sub(r"@\1", _DATE.sub("tomorrow 8:47 PM", text))


def _labels(buttons: list[Any]) -> list[str]:
    return [" ".join(f"[{each['text']['text']}]" for each in buttons)] if buttons else []


def _wrapped(text: str, mark: str = "") -> list[str]:
    lines = [piece for line in text.split("\n") for piece in textwrap.wrap(line, WIDTH) or [""]]
    return [f"{mark}{line}" for line in lines]
