"""The command `signoff mcp` and its options."""

from __future__ import annotations

from typing import Annotated

import typer

from signoff.errors import SignoffError
from signoff.gate import options
from signoff.gate.facts_command import FactsCommand, facts_command


def mcp(
    timeout: Annotated[
        str | None,
        typer.Option(
            help="How long permission_prompt waits for people: 30m, 4h; by default, as long as policy says, or 10m. "
            "After that, the call is denied."
        ),
    ] = None,
    session: options.Session = None,
    facts: FactsCommand = None,
    url: options.Url = None,
    key_file: options.KeyFile = None,
) -> None:
    """Serve MCP over standard input and output, for coding agents.

    Its tools are request_approval, get_decision and permission_prompt.

    For Claude Code: `claude mcp add signoff -- signoff mcp`, then
    `claude -p … --permission-prompt-tool mcp__signoff__permission_prompt`.
    """
    limit = None if timeout is None else options.duration("--timeout", timeout)
    conversation = options.session_name(session)
    look_up = None if facts is None else facts_command(facts)
    where, key = options.address(url), options.secret(key_file)
    try:
        from signoff.integrations.mcp import serve  # noqa: PLC0415 - an extra, and slow to import

        serve(where, key, timeout=limit, facts=look_up, session=conversation)
    except (ImportError, ValueError) as error:
        raise SignoffError(str(error)) from None
