"""A message that somebody wrote before, quoted to an agent, as it travels with the form that starts it."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from signoff.description import whole_words
from signoff.values import Person
from slackbot.cards import blocks, inert
from slackbot.cards.values import Json

MAX_CARRIED = 2900
"""Characters as JSON: a form carries 3,000."""

SHOWN_LINES = 40


@dataclass(frozen=True, slots=True)
class Quotation:
    """``author``: None for an app's message. ``omitted``: characters after ``text``."""

    text: str
    author: Person | None
    omitted: int = 0

    @property
    def heading(self) -> str:
        """For the agent, and for reviewers who read what it was told."""
        who = f"<@{self.author.user_id}>" if self.author else "an app"
        cut = f" ({self.omitted:,} more characters are left out)" if self.omitted else ""
        return f"A message in Slack, by {who}{cut}:"


@dataclass(frozen=True, slots=True)
class Carried:
    """What a form to start an agent keeps: where the run goes, and a quoted message."""

    channel_id: str
    quotation: Quotation | None = None

    def __str__(self) -> str:
        if self.quotation is None:
            return self.channel_id
        carried = self
        while len(written := carried._written) > MAX_CARRIED and carried.quotation is not None:
            carried = replace(carried, quotation=_shorter(carried.quotation, len(written) - MAX_CARRIED))
        return written

    @property
    def _written(self) -> str:
        quoted = self.quotation
        if quoted is None:
            return self.channel_id
        author = [quoted.author.team_id, quoted.author.user_id] if quoted.author else None
        return json.dumps([self.channel_id, quoted.text, author, quoted.omitted], ensure_ascii=False)

    @classmethod
    def read(cls, carried: str) -> Carried:
        """As `str` has written it; Slack signs what it brings back."""
        if not carried.startswith("["):
            return cls(carried)
        channel_id, text, author, omitted = json.loads(carried)
        return cls(channel_id, Quotation(text, Person(*author) if author else None, omitted))


NOWHERE = Carried("")


def _shorter(quoted: Quotation, by: int) -> Quotation:
    # Half of what is too much may be escapes, so this is repeated. Nobody recognises half a secret.
    kept = whole_words(quoted.text[: -max(1, (by + 1) // 2)])
    return replace(quoted, text=kept, omitted=quoted.omitted + len(quoted.text) - len(kept))


def quoted_message(quoted: Quotation) -> Json:
    """Return the message as the form shows it: whose words the agent will read, and how many are left out."""
    who = blocks.mention(quoted.author.user_id) if quoted.author else blocks.text("an app")
    cut = f", without its last {quoted.omitted:,} characters" if quoted.omitted else ""
    heading = blocks.section(blocks.text("The agent reads, as the words of "), who, blocks.text(f"{cut}:"))
    shown = inert.paragraph(quoted.text, MAX_CARRIED, SHOWN_LINES)
    return blocks.rich_text(heading, blocks.quote(*blocks.texts(shown)))
