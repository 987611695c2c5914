"""The `openai` library, loaded late: it is larger than the service."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import openai
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletion

from agent.runtime.model_errors import ModelError, unusable
from signoff.retry_after import retry_after

_PASSING = frozenset({408, 409, 425, 429})
_CODE = re.compile(r"[a-z0-9_]{1,64}\Z")


class Provider:
    """``timeout``: seconds for one answer, connection included."""

    def __init__(self, *, api_key: str, base_url: str | None, timeout: float) -> None:
        self._timeout = timeout
        self._client = AsyncOpenAI(api_key=api_key, base_url=base_url, timeout=timeout, max_retries=0)

    async def answer(self, request: Mapping[str, Any]) -> Any:
        """An unchecked completion. Raises ModelError."""
        try:
            async with asyncio.timeout(self._timeout):
                # `chat.completions.create` searches transcript and tools for fields to rename. A chat has none, and
                # the search takes longer than sending.
                return await self._client.post("/chat/completions", body=request, cast_to=ChatCompletion)
        except (openai.APITimeoutError, TimeoutError):
            raise ModelError(f"the model did not answer in {self._timeout:g} s", retryable=True) from None
        except openai.APIStatusError as error:
            raise _refused(error) from None
        except openai.APIConnectionError:
            raise ModelError("the model's provider cannot be reached", retryable=True) from None
        except (openai.OpenAIError, ValueError) as error:
            raise unusable(f"it could not be read ({type(error).__name__})") from None

    async def close(self) -> None:
        await self._client.close()


def _refused(error: openai.APIStatusError) -> ModelError:
    status = error.status_code
    code = error.code if isinstance(error.code, str) and _CODE.match(error.code) else None
    known = {401: "it rejected the API key", 404: "it does not know this model or address"}
    said = known.get(status) or code
    spent = code == "insufficient_quota"  # waiting does not help
    text = f"the model's provider answered {status}" + (f": {said}" if said else "")
    return ModelError(
        text,
        retryable=(status in _PASSING or status >= 500) and not spent,
        retry_after=_pause(error.response.headers),
    )


def _pause(headers: Mapping[str, str]) -> float | None:
    """Seconds that the provider asks for. OpenAI also sends milliseconds."""
    now = datetime.now(UTC)
    milliseconds = retry_after(headers.get("retry-after-ms"), now)
    return retry_after(headers.get("retry-after"), now) if milliseconds is None else milliseconds / 1000
