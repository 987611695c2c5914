"""Web API methods, one file per family. Importing this package registers them."""

from __future__ import annotations

from signoff_demo.sandbox.methods import apps, chat, conversations, files, people, views
from signoff_demo.sandbox.methods.registry import METHODS, Method, TokenKind

__all__ = ["METHODS", "Method", "TokenKind", "apps", "chat", "conversations", "files", "people", "views"]
