"""Who may act, and which of a request's reviewers they are.

Slack shows buttons to everybody in the channel and says nothing of a clicker's rights, so they are looked up. Every
doubt is a refusal of its own kind.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from agent.domain.errors import DOUBTFUL, NotFound, Refusal
from agent.domain.people import CHANNEL, Standing
from signoff.values import Person
from slackbot.cards import Names
from slackbot.slack_api.client import RateLimited, SlackClient
from slackbot.slack_api.lookups import PAGE_LIMIT, CachedAnswer, SlackLookups

log = logging.getLogger(__name__)

V = TypeVar("V")

COUNT_BUDGET = 10.0
"""Seconds for counting a request's reviewers, which nobody waits for."""
MOST_COUNTED = 20
"""Accounts that are looked up for one count."""
MOST_DOUBTFUL = 3
"""Accounts without an answer that end a count: Slack is away, and the next ones would have none either."""

DIRECTORY = "_directory"
"""The topic of announcements that name what has changed in Slack."""

_ACCOUNT_FLAGS = (
    ("deleted", Refusal.DEACTIVATED),
    ("is_bot", Refusal.BOT),
    ("is_app_user", Refusal.BOT),
    ("is_workflow_bot", Refusal.BOT),
    ("is_connector_bot", Refusal.BOT),
    ("is_stranger", Refusal.STRANGER),
    ("is_ultra_restricted", Refusal.GUEST),
    ("is_restricted", Refusal.GUEST),
)
_REQUIRED_FLAGS = (
    "deleted",
    "is_bot",
    "is_restricted",
    "is_ultra_restricted",
)  # of every member of ours
_ADMIN_FLAGS = ("is_admin", "is_owner", "is_primary_owner")
_SLACKBOT = "USLACKBOT"  # users.info says is_bot = false


@dataclass(frozen=True, slots=True)
class ReviewerCount:
    """At least ``found``. ``unknown``: Slack did not answer. ``uncounted``: there are more than are looked up."""

    found: int
    unknown: bool = False
    uncounted: bool = False


@dataclass(frozen=True, slots=True)
class _Asked:
    """``sources``: of the accounts of ``members``, who are all but known bots, then of the ``circles``."""

    people: Sequence[Person]
    places: Sequence[tuple[str, str]]
    """Each an entry of `approvers` and a channel id."""
    members: Sequence[Person]
    circles: Sequence[tuple[str, str]]
    """The places that are no user ids."""
    sources: Sequence[tuple[CachedAnswer[str, Any], str]]


class Directory:
    """Slack's people, groups and channels, as fresh as a decision needs them.

    `budget`: seconds for one question with all its look-ups, without a retry; a failed or late one refuses.
    `max_age`: of an answer, in seconds.
    """

    def __init__(
        self,
        client: SlackClient,
        own_team_id: str,
        own_bot_user_id: str,
        *,
        budget: float = 0.8,
        max_age: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        questions = SlackLookups(client)
        self.own_team_id = own_team_id
        self.own_bot_user_id = own_bot_user_id
        self._client = client
        self._budget = budget
        self._accounts = CachedAnswer(questions.account, max_age, clock)
        self._groups = CachedAnswer(questions.group, max_age, clock)
        self._handles = CachedAnswer(questions.handles, max(max_age, 600.0), clock)
        self._members = CachedAnswer(questions.members, max_age, clock)
        self._channels = CachedAnswer(questions.channel, max_age, clock)

    async def member(self, claimed: Person) -> Standing:
        """The person under our workspace's id, if their home is another one of our organisation (Enterprise Grid).

        Anybody else is as claimed, and refused everywhere. Whether a member may act is not asked. Never raises.
        """
        own = Person(self.own_team_id, claimed.user_id)
        if claimed == own:
            return Standing(own)
        account = await _answer(self._accounts.get(claimed.user_id), self._deadline())
        if isinstance(account, Mapping) and self._is_home(claimed.team_id, account):
            return Standing(own)
        refusal = account if isinstance(account, Refusal) else Refusal.EXTERNAL
        return Standing(claimed, refusal=refusal)

    async def identify(self, person: Person) -> Standing:
        """Whether this person may act at all; roles are not looked up. Never raises."""
        return Standing(person, refusal=await self._refusal(person, self._deadline()))

    async def is_admin(self, person: Person) -> bool:
        """False in doubt; never raises."""
        deadline = self._deadline()
        if await self._refusal(person, deadline) is not None:
            return False
        account = await _answer(self._accounts.get(person.user_id), deadline)
        if account is None or isinstance(account, Refusal):
            return False
        return any(account.get(flag) is True for flag in _ADMIN_FLAGS)

    async def standing(self, person: Person, approvers: Sequence[str], channel_id: str) -> Standing:
        """Never raises."""
        return (await self.standings([person], approvers, channel_id))[person]

    async def standing_in(
        self, person: Person, audiences: Sequence[tuple[Sequence[str], str]]
    ) -> list[Standing]:
        """`standing` for each (approvers, channel id), asking once for each group and channel."""
        asked = [
            {entry: (entry, channel_id if entry == CHANNEL else "") for entry in entries}
            for entries, channel_id in audiences
        ]
        different = dict.fromkeys(place for places in asked for place in places.values())
        (refusal,), known = await self._look_up([person], different, self._deadline())
        if refusal:
            return [Standing(person, refusal=refusal)] * len(asked)
        return [
            self._with_roles(person, {entry: known[place] for entry, place in places.items()})
            for places in asked
        ]

    async def standings(
        self, people: Collection[Person], approvers: Sequence[str], channel_id: str
    ) -> dict[Person, Standing]:
        """`standing` of several people in one budget."""
        asked = self._asked_of_request(people, approvers, channel_id)
        return self._standings(asked, await _answers(asked.sources, self._deadline()))

    def known_standings(
        self, people: Collection[Person], approvers: Sequence[str], channel_id: str
    ) -> dict[Person, Standing] | None:
        """`standings` without a look-up; None: an answer is missing or too old, or somebody is in doubt."""
        asked = self._asked_of_request(people, approvers, channel_id)
        kept = [answer for source, key in asked.sources if (answer := source.kept(key)) is not None]
        if len(kept) < len(asked.sources):
            return None
        standings = self._standings(asked, [answer for (answer,) in kept])
        return None if any(each.refusal in DOUBTFUL for each in standings.values()) else standings

    async def count_reviewers(
        self, approvers: Sequence[str], channel_id: str, *, but: Collection[Person], enough: int
    ) -> ReviewerCount:
        """Others who may review it, up to ``enough``. Looks up few accounts; not for a decision."""
        deadline = asyncio.get_running_loop().time() + COUNT_BUDGET
        _, circles = await self._look_up(
            [], dict.fromkeys((each, channel_id) for each in approvers), deadline
        )
        known = [circle for circle in circles.values() if not isinstance(circle, Refusal)]
        unknown, uncounted, found, doubtful = len(known) < len(circles), False, 0, 0
        others = sorted(frozenset().union(*known) - {person.user_id for person in but})
        for number, user_id in enumerate(others):
            if found >= enough or doubtful >= MOST_DOUBTFUL:
                break
            if number >= MOST_COUNTED and self._accounts.kept(user_id) is None:
                uncounted = True
                continue
            refusal = await self._refusal(Person(self.own_team_id, user_id), deadline)
            found += refusal is None
            doubtful += refusal in DOUBTFUL
        return ReviewerCount(found, unknown or doubtful > 0, uncounted)

    async def names(self, slack_ids: Iterable[str]) -> Names:
        """For display only; late names are left out. Never raises."""
        deadline = self._deadline()
        ids = set(slack_ids) - {CHANNEL}
        people = sorted(each for each in ids if not each.startswith("S"))
        groups = await _answer(self._handles.get(""), deadline) if len(people) < len(ids) else {}
        accounts = await _answers([(self._accounts, each) for each in people], deadline)
        found = {
            each: account
            for each, account in zip(people, accounts, strict=True)
            if isinstance(account, Mapping)
        }
        known = {each: str(account["name"]) for each, account in found.items() if account.get("name")}
        real = {
            each: str(account["real_name"]) for each, account in found.items() if account.get("real_name")
        }
        return Names(people=known, groups=groups if isinstance(groups, Mapping) else {}, real=real)

    async def channel_names(self, channel_ids: Iterable[str]) -> dict[str, str]:
        """`#reviews`, for display only. Never raises."""
        deadline = self._deadline()
        ids = sorted(set(channel_ids))
        found = await _answers([(self._channels, each) for each in ids], deadline)
        return {
            each: f"#{channel['name']}"
            for each, channel in zip(ids, found, strict=True)
            if isinstance(channel, Mapping) and channel.get("name")
        }

    async def channel_problem(self, channel_id: str) -> str | None:
        """Why no card may be posted here, for an operator. SlackError or TimeoutError: try again later."""
        async with asyncio.timeout_at(self._deadline()):
            channel = await self._channels.get(channel_id)
        if channel is None:
            return f"The channel {channel_id} does not exist, or it is private and the bot is not in it."
        name = f"#{channel['name']}" if channel.get("name") else channel_id
        if channel.get("is_ext_shared") or channel.get("is_pending_ext_shared"):
            return f"{name} is shared with another organisation; requests are not shown to outsiders."
        if channel.get("is_archived"):
            return f"{name} is archived."
        if not (channel.get("is_im") or channel.get("is_member")):
            return f"The bot is not a member of {name}; invite it there."
        return None

    async def resolve_channel(self, name_or_id: str) -> str:
        """The id of `C0REVIEW`, `#reviews` or `reviews`. No budget. Raises NotFound and SlackError."""
        name = name_or_id.removeprefix("#")
        if name == name_or_id and name.isupper():  # Slack's rule: channel names are lower case
            return name_or_id
        cursor = ""
        for _ in range(PAGE_LIMIT):
            page = await self._client.conversations_list(
                types="public_channel,private_channel",
                exclude_archived=True,
                limit=1000,
                cursor=cursor or None,
            )
            for channel in page.get("channels") or []:
                if channel.get("name") == name:
                    return str(channel["id"])
            cursor = (page.get("response_metadata") or {}).get("next_cursor") or ""
            if not cursor:
                break
        raise NotFound(f"There is no channel #{name} that the bot can see.")

    def forget(self, slack_id: str) -> None:
        """What is known of a person, a group or a channel, which has changed."""
        if slack_id.startswith("S"):
            self._groups.forget(slack_id)
        elif slack_id.startswith(("U", "W")):
            self._accounts.forget(slack_id)
        else:
            self._members.forget(slack_id)
            self._channels.forget(slack_id)

    def forget_everything(self) -> None:
        """After changes may have been missed."""
        for answers in (self._accounts, self._groups, self._handles, self._members, self._channels):
            answers.forget_everything()

    def _deadline(self) -> float:
        return asyncio.get_running_loop().time() + self._budget

    async def _refusal(self, person: Person, deadline: float) -> Refusal | None:
        return (await self._look_up([person], (), deadline))[0][0]

    async def _look_up(
        self, people: Sequence[Person], places: Collection[tuple[str, str]], deadline: float
    ) -> tuple[list[Refusal | None], dict[tuple[str, str], frozenset[str] | Refusal]]:
        """The second result has the people of each (entry of `approvers`, channel id)."""
        asked = self._asked(people, places)
        return self._found(asked, await _answers(asked.sources, deadline))

    def _asked(self, people: Iterable[Person], places: Iterable[tuple[str, str]]) -> _Asked:
        people, places = tuple(people), tuple(places)
        members = tuple(person for person in people if self._known_bot(person) is None)
        circles = {place: source for place in places if (source := self._source(*place)) is not None}
        return _Asked(
            people,
            places,
            members,
            tuple(circles),
            [*((self._accounts, person.user_id) for person in members), *circles.values()],
        )

    def _asked_of_request(
        self, people: Collection[Person], approvers: Sequence[str], channel_id: str
    ) -> _Asked:
        return self._asked(dict.fromkeys(people), dict.fromkeys((entry, channel_id) for entry in approvers))

    def _found(
        self, asked: _Asked, answers: Sequence[Any]
    ) -> tuple[list[Refusal | None], dict[tuple[str, str], frozenset[str] | Refusal]]:
        members = asked.members
        judged = dict(zip(members, map(self._judge, members, answers), strict=False))
        named = {place: frozenset({place[0]}) for place in asked.places if place not in asked.circles}
        refusals = [self._known_bot(person) or judged[person] for person in asked.people]
        return refusals, named | dict(zip(asked.circles, answers[len(members) :], strict=True))

    def _standings(self, asked: _Asked, answers: Sequence[Any]) -> dict[Person, Standing]:
        refusals, found = self._found(asked, answers)
        known = {entry: circle for (entry, _), circle in found.items()}
        return {
            person: Standing(person, refusal=refusal) if refusal else self._with_roles(person, known)
            for person, refusal in zip(asked.people, refusals, strict=True)
        }

    def _known_bot(self, person: Person) -> Refusal | None:
        """Needs no look-up."""
        if person.user_id == self.own_bot_user_id:
            return Refusal.OUR_BOT
        return Refusal.BOT if person.user_id == _SLACKBOT else None

    def _source(self, entry: str, channel_id: str) -> tuple[CachedAnswer[str, frozenset[str]], str] | None:
        """None: the entry is a user id."""
        if entry == CHANNEL:
            return self._members, channel_id
        return (self._groups, entry) if entry.startswith("S") else None

    def _judge(self, person: Person, account: Mapping[str, Any] | Refusal | None) -> Refusal | None:
        if account is None or isinstance(account, Refusal):
            return account or Refusal.UNKNOWN_PERSON
        if not self._is_home(person.team_id, account):
            return Refusal.EXTERNAL
        for flag, refusal in _ACCOUNT_FLAGS:
            if account.get(flag):
                return refusal
        if any(account.get(flag) is not False for flag in _REQUIRED_FLAGS):
            return Refusal.LOOKUP_FAILED
        # A member whom `member` could not confirm counts under our workspace's id only, with the next attempt.
        return None if person.team_id == self.own_team_id else Refusal.LOOKUP_FAILED

    def _is_home(self, team_id: str, account: Mapping[str, Any]) -> bool:
        """Whether a member of our workspace may call this one home: ours, or one of our organisation."""
        home, organisation = account.get("team_id"), account.get("enterprise_user")
        if not isinstance(organisation, Mapping) or not organisation:
            return team_id == home == self.own_team_id
        listed = organisation.get("teams")
        workspaces = listed if isinstance(listed, list) else []
        return self.own_team_id in workspaces and team_id in (
            *workspaces,
            home,
            organisation.get("enterprise_id"),
        )

    def _with_roles(self, person: Person, circles: Mapping[str, frozenset[str] | Refusal]) -> Standing:
        """Roles come from known circles. If none fits, an unknown one refuses."""
        known = {entry: circle for entry, circle in circles.items() if not isinstance(circle, Refusal)}
        roles = frozenset(entry for entry, circle in known.items() if person.user_id in circle)
        if roles:
            return Standing(person, roles)
        unknown = [circle for circle in circles.values() if isinstance(circle, Refusal)]
        if unknown:
            limited = Refusal.RATE_LIMITED_LOOKUP in unknown
            return Standing(person, refusal=Refusal.RATE_LIMITED_LOOKUP if limited else Refusal.LOOKUP_FAILED)
        anybody = frozenset().union(*known.values()) - {self.own_bot_user_id}
        return Standing(person, refusal=None if anybody else Refusal.NO_REVIEWERS)


async def _answers(asked: Sequence[tuple[CachedAnswer[str, V], str]], deadline: float) -> list[V | Refusal]:
    """Look up concurrently what is not cached: mostly all is, and nothing waits for a task."""
    kept = [source.kept(key) for source, key in asked]
    pairs = zip(asked, kept, strict=True)
    others = [_answer(source.get(key), deadline) for (source, key), answer in pairs if answer is None]
    found = iter(await asyncio.gather(*others))
    return [next(found) if answer is None else answer[0] for answer in kept]


async def _answer(look_up: Awaitable[V], deadline: float) -> V | Refusal:
    """The answer, or the refusal that its absence means. No failure here is ever consent."""
    try:
        async with asyncio.timeout_at(deadline):
            return await look_up
    except RateLimited:
        return Refusal.RATE_LIMITED_LOOKUP
    except Exception as error:
        log.warning("user lookup failed: %s", type(error).__name__, extra={"action": "lookup_failed"})
        return Refusal.LOOKUP_FAILED
