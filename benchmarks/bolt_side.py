"""The baseline of row 7: Bolt with one handler that only acknowledges, behind the service's HTTP server.

Run as `python -m benchmarks.bolt_side PORT API SECRET`.
"""

from __future__ import annotations

import logging
import sys

import uvloop
from slack_bolt.adapter.starlette.async_handler import AsyncSlackRequestHandler
from slack_bolt.async_app import AsyncAck, AsyncApp
from starlette.applications import Starlette
from starlette.routing import Route

from benchmarks.side import BOT_TOKEN, serve
from slackbot.cards import ACTION_APPROVE
from slackbot.slack_api.client import SlackClient
from slackbot.slack_api.manifest import EVENTS_PATH
from slackbot.web.http.server import HttpServer


async def main(port: str, api_url: str, secret: str) -> None:
    logging.basicConfig(level=logging.WARNING)
    bolt = AsyncApp(client=SlackClient(BOT_TOKEN, api_url), signing_secret=secret)

    @bolt.action(ACTION_APPROVE)
    async def approve(ack: AsyncAck) -> None:
        await ack()

    handler = AsyncSlackRequestHandler(bolt)
    server = HttpServer(
        Starlette(routes=[Route(EVENTS_PATH, handler.handle, methods=["POST"])]),
        host="127.0.0.1",
        port=int(port),
        drain_seconds=1,
    )
    await server.start()

    async def listening() -> int | None:
        return server.port

    await serve({"port": listening})
    await server.stop()


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:4]))
