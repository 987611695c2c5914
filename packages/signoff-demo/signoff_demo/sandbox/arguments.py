"""The arguments of a Web API call, read by type."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from signoff_demo.sandbox.refusal import Json, SandboxRefusal


class Arguments:
    """Every getter raises SandboxRefusal `invalid_arguments` for a wrong type."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = dict(values)

    def has(self, name: str) -> bool:
        return self.values.get(name) is not None

    def text(self, name: str) -> str:
        value = self.optional_text(name)
        if not value:
            raise SandboxRefusal("invalid_arguments", f"missing required field: {name}")
        return value

    def optional_text(self, name: str) -> str | None:
        value = self.values.get(name)
        if value is None or isinstance(value, str):
            return value
        if isinstance(value, int | float) and not isinstance(value, bool):
            return str(value)
        raise SandboxRefusal("invalid_arguments", f"must be a string [json-pointer:/{name}]")

    def flag(self, name: str, default: bool = False) -> bool:
        """Accepts text, as in a form."""
        value = self.values.get(name)
        if value is None or value == "":
            return default
        if isinstance(value, bool):
            return value
        if str(value).lower() in ("true", "1"):
            return True
        if str(value).lower() in ("false", "0"):
            return False
        raise SandboxRefusal("invalid_arguments", f"must be a boolean [json-pointer:/{name}]")

    def number(self, name: str, default: int) -> int:
        value = self.values.get(name)
        if value is None or value == "":
            return default
        try:
            return int(str(value))
        except ValueError:
            raise SandboxRefusal("invalid_arguments", f"must be an integer [json-pointer:/{name}]") from None

    def decoded(self, name: str, kind: type, error: str = "invalid_arguments") -> Any:
        """A JSON array or object, or a string containing one; None if missing."""
        value = self.values.get(name)
        if value is None or value == "":
            return None
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except ValueError:
                raise SandboxRefusal(error, f"failed to parse JSON [json-pointer:/{name}]") from None
        if not isinstance(value, kind):
            expected = "an array" if kind is list else "an object"
            raise SandboxRefusal(error, f"must provide {expected} [json-pointer:/{name}]")
        return value

    def names(self, name: str) -> list[str]:
        """A comma-separated list."""
        value = self.values.get(name)
        if isinstance(value, list):
            return [str(each) for each in value]
        return [each.strip() for each in str(value).split(",") if each.strip()] if value else []

    def page(self, items: list[Any], default: int = 100, largest: int = 1000) -> tuple[list[Any], Json]:
        """Return one page of `items`, and the `response_metadata` with the next cursor. Raises SandboxRefusal
        `invalid_cursor` or `invalid_limit`.
        """
        limit = self.number("limit", default) or default
        if not 1 <= limit <= largest:
            raise SandboxRefusal("invalid_limit")
        cursor = self.optional_text("cursor") or "next:0"
        prefix, _, number = cursor.partition(":")
        if prefix != "next" or not number.isdigit():
            raise SandboxRefusal("invalid_cursor")
        start = int(number)
        following = start + limit
        return items[start:following], {"next_cursor": f"next:{following}" if following < len(items) else ""}
