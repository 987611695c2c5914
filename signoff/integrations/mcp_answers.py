"""People answer what an MCP server asks its client for (elicitation in form mode).

    callback = elicitation_callback(AsyncApprovalClient(url, key))
    async with Client(server, elicitation_callback=callback) as session: ...

A question lasts as long as its client's session: nothing resumes it after a restart. Whoever must not lose an answer
asks with `ApprovalClient.ask_for` and a key.
"""

from __future__ import annotations

from signoff.integrations.extras import missing_framework

try:
    from mcp.client import ClientRequestContext
    from mcp.client.session import ElicitationFnT
    from mcp_types import (
        INVALID_PARAMS,
        ElicitRequestFormParams,
        ElicitRequestParams,
        ElicitResult,
        ErrorData,
    )
except ImportError as error:
    raise missing_framework("the MCP SDK", "mcp") from error

from signoff.client import AsyncApprovalClient
from signoff.durations import Duration
from signoff.errors import ApiError, CollaborationError
from signoff.integrations.tool_calls import UNUSABLE
from signoff.sessions import session_named

TIMEOUT = "5m"
"""Servers rarely wait longer for an elicitation."""


def elicitation_callback(
    client: AsyncApprovalClient, *, timeout: Duration = TIMEOUT, session: str | None = None
) -> ElicitationFnT:
    """Return the callback for an MCP client; ``session`` names its conversation.

    An answer is `accept` with the values, a rejection `decline`; a question that expires, that is withdrawn, or that
    nobody answers within ``timeout`` is `cancel`. What people cannot be asked for is an error with a sentence, before
    anybody is asked, and so is the URL mode.
    """

    async def elicit(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult | ErrorData:
        del context
        if not isinstance(params, ElicitRequestFormParams):
            return ErrorData(code=INVALID_PARAMS, message="people are asked in form mode only")
        try:
            answer = await client.ask_for(
                params.message,
                form=dict(params.requested_schema),
                timeout=timeout,
                session=session_named(session),
            )
        except CollaborationError as refusal:
            return ElicitResult(action="decline" if refusal.cause == "rejected" else "cancel")
        except TimeoutError:
            return ElicitResult(action="cancel")
        except ApiError as refused:
            if refused.status != UNUSABLE:
                raise
            return ErrorData(code=INVALID_PARAMS, message=str(refused))
        return ElicitResult(action="accept", content=answer.value)

    return elicit
