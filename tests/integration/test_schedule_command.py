"""`signoff schedule`: add, list, pause, resume, remove, as an operator does it."""

from __future__ import annotations

import json

from tests.integration.command import Command

ADD = ("schedule", "add", "--agent", "reporter", "--task", "the week", "--for", "T0TEST/U0ADA")


def test_from_adding_to_removing(signoff: Command) -> None:
    """A schedule is added, seen, paused, resumed and removed; an agent that is not loaded here is mentioned."""
    assert "nothing is scheduled" in signoff("schedule").said
    when = ("--cron", "0 9 * * 1", "--timezone", "Europe/Berlin", "--label", "weekly", "--grace", "30m")
    added = signoff(*ADD, *when, SLACK_BOT_TOKEN=None)
    assert added.status == 0, added.said
    assert 'no agent named "reporter" is loaded here' in added.said
    listed = signoff("schedule", "list").said
    assert "reporter “weekly”" in listed
    [record] = [json.loads(line) for line in signoff("schedule", "list", "--json").said.splitlines()]
    assert (record["cron"], record["grace_seconds"]) == ("0 9 * * 1", 1800.0)
    assert record["requester"] == {"team_id": "T0TEST", "user_id": "U0ADA"}
    schedule_id = record["id"]
    assert "is paused" in signoff("schedule", "pause", schedule_id).said
    assert "was already paused" in signoff("schedule", "pause", schedule_id[:13]).said
    assert "is resumed" in signoff("schedule", "resume", schedule_id).said
    assert "is removed" in signoff("schedule", "remove", schedule_id).said
    assert "no schedule begins with" in signoff.is_wrong("schedule", "remove", schedule_id)[0]


def test_mistakes_are_named(signoff: Command) -> None:
    """A wrong expression, person or channel is refused with what it should look like."""
    for options, says in (
        (("--cron", "0 9 * *"), "five fields"),
        (("--cron", "0 9 * * 1", "--timezone", "Mars/Base"), "time zone"),
        (("--cron", "0 0 30 2 *"), "never comes"),
        (("--cron", "0 9 * * fri#2"), "day of the week"),
        (("--cron", "0 9 * * 1", "--channel", "general"), "channel's id"),
        (("--cron", "0 9 * * 1", "--for", "ada"), "Slack user id"),
    ):
        ended = signoff(*ADD, *options)
        assert ended.status != 0
        assert says in " ".join(ended.said.replace("│", " ").split()), ended.said
