"""Find waiting cards that were deleted although Slack's event about it never came."""

from __future__ import annotations

import structlog

from agent.database.pools import Database
from agent.usecases import requests
from slackbot.slack_api.client import SlackClient, SlackError, SlackRefused
from slackbot.slack_api.messenger import Messenger

log = structlog.get_logger(__name__)

SOON = 60.0
"""Seconds, while Slack wants silence or does not answer."""

LOOKS = 5
"""At a time, once a minute: a tenth of what Slack allows the method."""


async def find_deleted_cards(db: Database, client: SlackClient, team_id: str, own_bot_user_id: str) -> int:
    """Post them again. Only Slack's plain word counts; after an error the card is looked at later."""
    messenger, deleted = Messenger(client, own_bot_user_id), 0
    for _ in range(LOOKS):
        taken = await requests.take_card_to_look_at(db, team_id)
        if taken is None:
            break
        there, ts = taken
        try:
            stands = await messenger.stands(there.channel_id, ts)
        except SlackRefused as error:  # in an hour: it is about this channel
            log.info("card not looked up", action="card.unknown", channel=there.channel_id, error=str(error))
            continue
        except SlackError as error:
            await requests.look_at_card_again(db, there, ts, max(error.seconds, SOON))
            break
        if not stands:
            deleted += 1
            log.warning("a waiting card was deleted", action="card.deleted", channel=there.channel_id)
            await requests.replace_deleted_card(db, team_id, there.channel_id, ts)
    return deleted
