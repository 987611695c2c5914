"""The demo's model: scripted, or a real one that was checked once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from signoff.errors import SignoffError
from signoff_demo.sandbox.model import MODEL_NAME, ScriptedModel

CREDENTIALS = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID")
PROXIES = ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")


@asynccontextmanager
async def scripted() -> AsyncIterator[dict[str, str]]:
    """Run the scripted model within the block, and yield the settings that lead the service to it."""
    async with ScriptedModel() as model:
        yield {
            "OPENAI_API_KEY": "sk-scripted",
            "OPENAI_BASE_URL": model.base_url,
            "SIGNOFF_MODEL": MODEL_NAME,
        }


async def real(name: str, caller: Mapping[str, str]) -> dict[str, str]:
    """The service's settings for a real model, after one check with its provider.

    Raises SignoffError, one line, if the model cannot be used.
    """
    if not caller.get("OPENAI_API_KEY"):
        raise SignoffError("--model needs OPENAI_API_KEY in the environment (any text for a local server)")
    from slackbot.service.doctor import find_model  # noqa: PLC0415 - imports OpenAI's library
    from slackbot.settings import Settings  # noqa: PLC0415

    given = {key: caller[key] for key in CREDENTIALS if caller.get(key)} | {"SIGNOFF_MODEL": name}
    found = await find_model(Settings(**given))  # type: ignore[arg-type]
    if not found.well:
        raise SignoffError(f"--model {name}: {found.detail}")
    proxy = next((caller[key] for key in PROXIES if caller.get(key)), None)
    # Slack's client would use any other variable as its proxy, also for the sandbox.
    return given | ({"ALL_PROXY": proxy, "NO_PROXY": "127.0.0.1,localhost"} if proxy else {})
