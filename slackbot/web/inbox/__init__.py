"""Pages work without a script; with one, changed parts are fetched."""

from fastapi import APIRouter

from slackbot.web.inbox import (
    agents,
    assets,
    grants,
    lists,
    live_updates,
    not_found,
    reports,
    requests,
    runs,
    together,
)

router = APIRouter()
for _room in (assets, live_updates, lists, together, requests, runs, agents, grants, reports, not_found):
    router.include_router(_room.router)
