"""A refusal of the Web API, with Slack's error code."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


class SandboxRefusal(Exception):
    """The response `{"ok": false, "error": code}`; `messages` becomes `response_metadata.messages`."""

    def __init__(self, code: str, *messages: str, **extra: Any) -> None:
        super().__init__(code, *messages)
        self.code = code
        self.messages = messages
        self.extra = extra

    def body(self) -> Json:
        """Sent with HTTP status 200."""
        body: Json = {"ok": False, "error": self.code, **self.extra}
        if self.messages:
            body["response_metadata"] = {"messages": [f"[ERROR] {message}" for message in self.messages]}
            if self.code == "invalid_blocks":
                body["errors"] = list(self.messages)
        return body
