"""The inbox page: what waits, what was decided, each request and each run, for people who are signed in.

Rendered here and complete without a script; with one, parts of it are fetched anew when something has changed.
"""

from fastapi import APIRouter

from slackbot.web.inbox import agents, assets, lists, live_updates, not_found, reports, requests, runs

router = APIRouter()
for _room in (assets, live_updates, lists, requests, runs, agents, reports, not_found):
    router.include_router(_room.router)
