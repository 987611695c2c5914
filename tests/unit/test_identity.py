"""Who may act: every kind of account, every way in which a look-up can fail, and how fresh an answer is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from agent.domain.errors import NotFound, Refusal
from agent.domain.people import Standing
from signoff.values import Person
from signoff_demo.sandbox import SlackSandbox, demo_workspace
from slackbot.slack_api.client import RateLimited, SlackClient
from slackbot.slack_api.directory import Directory, ReviewerCount
from tests.patience import promised

TEAM = "T0SANDBOX"
GRACE = Person(TEAM, "U0GRACE")
LINUS = Person(TEAM, "U0LINUS")
ADA = Person(TEAM, "U0ADA")
FINANCE = ["S0FINANCE"]
REVIEW = "C0REVIEW"


class Clock:
    """A clock that the test advances."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def slack() -> AsyncIterator[SlackSandbox]:
    workspace = demo_workspace()
    workspace.add_member("U0APP", "appuser", is_app_user=True)
    workspace.add_member("U0ULTRA", "ultra", is_restricted=True, is_ultra_restricted=True)
    workspace.add_member("U0STRANGE", "strange", is_stranger=True)
    workspace.add_member("U0ROBOT", "robot", is_bot=True)
    workspace.add_member("USLACKBOT", "slackbot")
    workspace.add_usergroup("S0EMPTY", "empty", [])
    async with SlackSandbox(workspace, rate_limits=False) as sandbox:
        yield sandbox


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def directory(slack: SlackSandbox, clock: Clock) -> Directory:
    client = SlackClient(slack.bot_token, slack.api_url, clock=clock)
    return Directory(client, TEAM, "U0BOT", clock=clock)


async def test_names_are_told_as_far_as_they_are_known(directory: Directory) -> None:
    """People and groups by what Slack calls them; who is unknown, and the entry "channel", are left out."""
    names = await directory.names(["U0GRACE", "S0FINANCE", "channel", "U0NOBODY"])
    assert (names.of("U0GRACE"), names.of("S0FINANCE")) == ("@grace", "@finance")
    assert names.of("U0NOBODY") == "U0NOBODY"


def calls(slack: SlackSandbox, method: str) -> int:
    return sum(call.method == method for call in slack.web_api.calls)


@pytest.mark.parametrize(
    ("user", "team", "refusal"),
    [
        ("U0BOT", TEAM, Refusal.OUR_BOT),
        ("U0BOT", "T0ELSEWHERE", Refusal.OUR_BOT),
        ("U0ROBOT", TEAM, Refusal.BOT),
        ("U0APP", TEAM, Refusal.BOT),
        ("USLACKBOT", TEAM, Refusal.BOT),
        ("U0GONE", TEAM, Refusal.DEACTIVATED),
        ("U0MALLORY", TEAM, Refusal.GUEST),
        ("U0ULTRA", TEAM, Refusal.GUEST),
        ("U0STRANGE", TEAM, Refusal.STRANGER),
        ("U0EVE", TEAM, Refusal.EXTERNAL),
        ("U0EVE", "T0ELSEWHERE", Refusal.EXTERNAL),
        ("U0GRACE", "T0ELSEWHERE", Refusal.EXTERNAL),
        ("U0NOBODY", TEAM, Refusal.UNKNOWN_PERSON),
        ("U0GRACE", TEAM, None),
    ],
)
async def test_every_kind_of_account(
    directory: Directory, user: str, team: str, refusal: Refusal | None
) -> None:
    """Each kind of account that may not decide is refused with its own reason, even when it is listed."""
    standing = await directory.standing(Person(team, user), [user, "channel"], REVIEW)
    assert standing.refusal is refusal
    assert bool(standing.roles) is (refusal is None)
    assert (await directory.identify(Person(team, user))).refusal is refusal


@pytest.mark.parametrize(
    ("home", "workspaces", "claimed", "refusal"),
    [
        ("T0SECOND", ("T0SECOND", TEAM), "T0SECOND", None),
        ("T0SECOND", ("T0SECOND", TEAM), TEAM, None),
        (TEAM, (TEAM, "T0SECOND"), "T0SECOND", None),
        (TEAM, (TEAM, "T0SECOND"), "E0SANDBOX", None),
        (TEAM, (TEAM, "T0SECOND"), "T0ELSEWHERE", Refusal.EXTERNAL),
        ("T0SECOND", ("T0SECOND",), "T0SECOND", Refusal.EXTERNAL),
        ("T0SECOND", ("T0SECOND",), TEAM, Refusal.EXTERNAL),
        (TEAM, ("T0SECOND",), TEAM, Refusal.EXTERNAL),
        ("T0SECOND", (), "T0SECOND", Refusal.EXTERNAL),
    ],
)
async def test_members_of_an_organisation(
    slack: SlackSandbox,
    directory: Directory,
    home: str,
    workspaces: tuple[str, ...],
    claimed: str,
    refusal: Refusal | None,
) -> None:
    """A member is known by our workspace's id, whichever workspace of the organisation is their home; who is not a
    member of ours stays an outsider, and nobody has rights under another workspace's id.
    """
    slack.workspace.add_member("U0HANA", "hana", team_id=home, workspaces=workspaces)
    member = await directory.member(Person(claimed, "U0HANA"))
    judged = await directory.standing(member.person, ["U0HANA"], REVIEW)
    assert judged.refusal is refusal
    assert (member.person == Person(TEAM, "U0HANA")) is (refusal is None or claimed == TEAM)
    if claimed != TEAM:
        assert not (await directory.standing(Person(claimed, "U0HANA"), ["U0HANA"], REVIEW)).roles


async def test_a_member_is_not_guessed_while_slack_is_silent(
    slack: SlackSandbox, directory: Directory
) -> None:
    """A home that Slack does not confirm is a doubt, not an outsider: the next attempt may count."""
    slack.workspace.add_member("U0HANA", "hana", team_id="T0SECOND", workspaces=("T0SECOND", TEAM))
    slack.faults.error("users.info", "internal_error")
    claimed = Person("T0SECOND", "U0HANA")
    assert await directory.member(claimed) == Standing(claimed, refusal=Refusal.LOOKUP_FAILED)
    assert await directory.member(claimed) == Standing(Person(TEAM, "U0HANA"))


@pytest.mark.parametrize(
    ("person", "approvers", "roles"),
    [
        (GRACE, ["U0GRACE"], {"U0GRACE"}),
        (GRACE, ["S0FINANCE", "S0REVIEWERS"], {"S0FINANCE", "S0REVIEWERS"}),
        (ADA, ["channel"], {"channel"}),
        (GRACE, ["U0GRACE", "S0FINANCE", "channel"], {"U0GRACE", "S0FINANCE", "channel"}),
        (ADA, ["U0GRACE", "S0FINANCE"], set()),
    ],
)
async def test_roles(directory: Directory, person: Person, approvers: list[str], roles: set[str]) -> None:
    """A person has exactly those roles among the approvers that Slack confirms now."""
    assert await directory.standing(person, approvers, REVIEW) == Standing(person, frozenset(roles))


@pytest.mark.parametrize("approvers", [[], ["S0EMPTY"], ["S0NOSUCH"]])
async def test_nobody_to_decide(directory: Directory, approvers: list[str]) -> None:
    """A list of reviewers that names nobody is reported as empty, to everybody."""
    assert (await directory.standing(GRACE, approvers, REVIEW)).refusal is Refusal.NO_REVIEWERS


Switch = Callable[[SlackSandbox, str], object]
FAILURES: dict[str, tuple[Switch, Refusal]] = {
    "error": (lambda slack, method: slack.faults.error(method, "internal_error"), Refusal.LOOKUP_FAILED),
    "500": (lambda slack, method: slack.faults.http_500(method), Refusal.LOOKUP_FAILED),
    "reset": (lambda slack, method: slack.faults.reset_before_accept(method), Refusal.LOOKUP_FAILED),
    "lost": (lambda slack, method: slack.faults.reset_after_accept(method), Refusal.LOOKUP_FAILED),
    "slow": (lambda slack, method: slack.faults.slow(method, 1.5), Refusal.LOOKUP_FAILED),
    "429": (lambda slack, method: slack.faults.ratelimited(method, 7), Refusal.RATE_LIMITED_LOOKUP),
}


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("method", ["users.info", "usergroups.users.list", "conversations.members"])
async def test_failed_look_up_refuses(
    slack: SlackSandbox, directory: Directory, method: str, failure: str
) -> None:
    """Whatever goes wrong in a look-up, within the budget and without a second try: refused, with no role."""
    switch, refusal = FAILURES[failure]
    switch(slack, method)
    approvers = ["channel"] if method == "conversations.members" else FINANCE
    began = time.monotonic()
    standing = await directory.standing(GRACE, approvers, REVIEW)
    assert time.monotonic() - began < promised(1.2)
    assert standing == Standing(GRACE, refusal=refusal)
    assert calls(slack, method) <= 1


async def test_failed_group_does_not_take_a_listed_persons_role(
    slack: SlackSandbox, directory: Directory
) -> None:
    """Who is listed by name stays a reviewer while a group cannot be looked up; others are refused."""
    slack.faults.error("usergroups.users.list", "internal_error", times=None)
    standings = await directory.standings([GRACE, LINUS], ["U0GRACE", "S0FINANCE"], REVIEW)
    assert standings[GRACE].roles == {"U0GRACE"}
    assert standings[LINUS].refusal is Refusal.LOOKUP_FAILED


async def test_many_audiences_are_judged_like_each_alone(slack: SlackSandbox, directory: Directory) -> None:
    """A list asks for each group and channel once, however many audiences share them, and judges each as a vote."""
    named: list[list[str]] = [
        ["U0GRACE"],
        ["S0FINANCE"],
        ["channel"],
        [*FINANCE, "channel"],
        ["S0NOSUCH"],
        [],
    ]
    audiences = [(each, channel) for each in named for channel in (REVIEW, "C0ELSEWHERE")] * 10
    for person in (LINUS, GRACE, Person(TEAM, "U0NOBODY"), Person("T0ELSEWHERE", "U0GRACE")):
        together = await directory.standing_in(person, audiences)
        assert together == [await directory.standing(person, *each) for each in audiences]
    assert await directory.standing_in(LINUS, []) == []
    assert calls(slack, "usergroups.users.list") == 2
    assert calls(slack, "conversations.members") == 2


async def test_known_standings_are_what_a_look_up_found(
    slack: SlackSandbox, directory: Directory, clock: Clock
) -> None:
    """Without a look-up, everybody is judged as with one, or nobody: as long as all answers are fresh and whole."""
    everybody = [
        GRACE,
        LINUS,
        Person(TEAM, "U0NOBODY"),
        Person("T0ELSEWHERE", "U0GRACE"),
        Person(TEAM, "U0BOT"),
    ]
    asked = everybody, [*FINANCE, "channel", "U0LINUS"], REVIEW
    assert directory.known_standings(*asked) is None
    found = await directory.standings(*asked)
    before = len(slack.web_api.calls)
    assert directory.known_standings(*asked) == found
    assert directory.known_standings([GRACE], [], REVIEW) == await directory.standings([GRACE], [], REVIEW)
    assert directory.known_standings(everybody, ["S0OTHER"], REVIEW) is None
    assert directory.known_standings(everybody, ["channel"], "C0OTHER") is None
    directory.forget("U0GRACE")
    assert directory.known_standings(*asked) is None
    assert directory.known_standings([LINUS], *asked[1:]) == {LINUS: found[LINUS]}
    clock.now += 60
    assert directory.known_standings([LINUS], *asked[1:]) is None
    assert len(slack.web_api.calls) == before


async def test_who_is_in_doubt_is_not_known(slack: SlackSandbox, directory: Directory) -> None:
    """Slack's answer lacks what it must say of a member: the next vote asks again, as for an answer that failed."""
    slack.workspace.change_member("U0GRACE", is_restricted=None)
    assert (await directory.standing(GRACE, FINANCE, REVIEW)).refusal is Refusal.LOOKUP_FAILED
    assert directory.known_standings([GRACE], FINANCE, REVIEW) is None


async def test_slow_answer_serves_the_next_click(slack: SlackSandbox, directory: Directory) -> None:
    """A look-up that was too late for one click is not thrown away: the next click has its answer at once."""
    slack.faults.slow("users.info", 1.0)
    assert (await directory.identify(GRACE)).refusal is Refusal.LOOKUP_FAILED
    assert (await directory.identify(GRACE)).refusal is None
    assert calls(slack, "users.info") == 1


async def test_retry_after_is_honoured(slack: SlackSandbox, directory: Directory, clock: Clock) -> None:
    """After a 429 nothing is asked until Retry-After is over, and then again."""
    slack.faults.ratelimited("users.info", 7)
    assert (await directory.identify(GRACE)).refusal is Refusal.RATE_LIMITED_LOOKUP
    clock.now += 6.9
    assert (await directory.identify(GRACE)).refusal is Refusal.RATE_LIMITED_LOOKUP
    assert calls(slack, "users.info") == 1
    clock.now += 0.2
    assert (await directory.identify(GRACE)).refusal is None


async def test_single_flight(slack: SlackSandbox, directory: Directory) -> None:
    """Fifty clicks at once cost one look-up per person and one per group."""
    people = [GRACE, LINUS] * 25
    asked = [directory.standing(person, [*FINANCE, "channel"], REVIEW) for person in people]
    standings = await asyncio.gather(*asked)
    assert all(standing.roles == {"S0FINANCE", "channel"} for standing in standings)
    assert calls(slack, "usergroups.users.list") == 1
    assert calls(slack, "conversations.members") == 1
    assert calls(slack, "users.info") == 2


async def test_removed_reviewer_is_refused_within_a_minute(
    slack: SlackSandbox, directory: Directory, clock: Clock
) -> None:
    """Without any event, a removal from a group or a channel is seen after 60 s at the latest."""
    approvers = [*FINANCE, "channel"]
    assert (await directory.standing(GRACE, approvers, REVIEW)).roles == {"S0FINANCE", "channel"}
    slack.workspace.usergroups["S0FINANCE"].users.remove("U0GRACE")
    slack.workspace.channels[REVIEW].members.discard("U0GRACE")
    slack.workspace.change_member("U0LINUS", deleted=True)
    clock.now += 60.0
    standings = await directory.standings([GRACE, LINUS], approvers, REVIEW)
    assert standings[GRACE].roles == frozenset()
    assert standings[LINUS].refusal is Refusal.DEACTIVATED


@pytest.mark.parametrize(
    ("reviewers_at", "enough", "expected"),
    [
        ([], 1, ReviewerCount(0, uncounted=True)),
        ([399], 1, ReviewerCount(0, uncounted=True)),
        ([19], 1, ReviewerCount(1)),
        ([0], 2, ReviewerCount(1, uncounted=True)),
    ],
)
async def test_a_large_group_is_not_counted_to_its_end(
    slack: SlackSandbox, directory: Directory, reviewers_at: list[int], enough: int, expected: ReviewerCount
) -> None:
    """A group of 400 guests costs at most twenty look-ups, however often it is counted; what is left is said to be
    uncounted, and who is known already counts.
    """
    people = [f"U1{number:03d}" for number in range(400)]
    for number, user in enumerate(people):
        slack.workspace.add_member(user, user.lower(), is_restricted=number not in reviewers_at)
    slack.workspace.add_usergroup("S0CROWD", "crowd", people)
    for _ in range(3):
        count = await directory.count_reviewers(["S0CROWD"], REVIEW, but=[], enough=enough)
        assert count == expected
    assert calls(slack, "users.info") <= 20
    await directory.identify(Person(TEAM, people[-1]))
    known = await directory.count_reviewers(["S0CROWD"], REVIEW, but=[], enough=enough)
    assert known.found == expected.found + (399 in reviewers_at)


async def test_forgetting_is_immediate(slack: SlackSandbox, directory: Directory) -> None:
    """Changes that an event names are looked up again at once, even while an old look-up is in progress."""
    approvers = [*FINANCE, "channel"]
    await directory.standing(GRACE, approvers, REVIEW)
    slack.workspace.usergroups["S0FINANCE"].users.remove("U0GRACE")
    slack.workspace.channels[REVIEW].members.discard("U0GRACE")
    directory.forget("S0FINANCE")
    directory.forget(REVIEW)
    assert (await directory.standing(GRACE, approvers, REVIEW)).roles == frozenset()

    directory.forget("U0GRACE")
    slack.faults.slow("users.info", 0.3)
    early = asyncio.create_task(directory.identify(GRACE))
    await until(lambda: calls(slack, "users.info") == 2)
    slack.workspace.change_member("U0GRACE", deleted=True)
    directory.forget("U0GRACE")
    assert (await early).refusal is None
    assert (await directory.identify(GRACE)).refusal is Refusal.DEACTIVATED


async def test_whole_channel_is_paged(slack: SlackSandbox, directory: Directory) -> None:
    """A member on the third page of a large channel is one."""
    slack.workspace.channels[REVIEW].members.update(f"U{number:06d}" for number in range(2500))
    slack.workspace.add_member("UZZZ", "zoe")
    slack.workspace.channels[REVIEW].members.add("UZZZ")
    assert (await directory.standing(Person(TEAM, "UZZZ"), ["channel"], REVIEW)).roles == {"channel"}
    assert calls(slack, "conversations.members") == 3


@pytest.mark.parametrize(
    ("traits", "said"),
    [
        ({}, None),
        ({"is_ext_shared": True}, "shared with another organisation"),
        ({"is_pending_ext_shared": True}, "shared with another organisation"),
        ({"is_archived": True}, "archived"),
        ({"members": {"U0ADA"}}, "not a member"),
    ],
)
async def test_channel_problem(
    slack: SlackSandbox, directory: Directory, traits: dict[str, object], said: str | None
) -> None:
    """Cards stay out of channels that outsiders read, that are closed, or that the bot is not in."""
    for name, value in traits.items():
        setattr(slack.workspace.channels[REVIEW], name, value)
    problem = await directory.channel_problem(REVIEW)
    assert (problem is None) if said is None else (problem is not None and said in problem)


async def test_channel_problem_of_an_unknown_channel(slack: SlackSandbox, directory: Directory) -> None:
    """A channel that does not exist is a problem; one that Slack does not answer about is looked up again later."""
    assert "does not exist" in str(await directory.channel_problem("C0NOWHERE"))
    slack.faults.ratelimited("conversations.info")
    with pytest.raises(RateLimited):
        await directory.channel_problem(REVIEW)


@pytest.mark.parametrize("given", ["#refund-reviews", "refund-reviews", "C0REVIEW"])
async def test_resolve_channel(directory: Directory, given: str) -> None:
    """A channel may be named in the configuration by its name or by its id."""
    assert await directory.resolve_channel(given) == "C0REVIEW"


async def test_resolve_unknown_channel(directory: Directory) -> None:
    """A name that no visible channel has is an error that says the name."""
    with pytest.raises(NotFound, match="#nowhere"):
        await directory.resolve_channel("#nowhere")


async def until(condition: Callable[[], bool | Awaitable[bool]], seconds: float = 5.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        await asyncio.sleep(0.005)
