"""The crash matrix at its full size: a hundred deaths at every point."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.databases import Postgres
from tests.integration.crash.by_answers import BY_ANSWERS, die_by_answers
from tests.integration.crash.by_form import BY_FORM, die_by_form
from tests.integration.crash.by_program import BY_PROGRAM, die_by_a_program
from tests.integration.crash.deaths import EVERY, die_and_recover
from tests.integration.crash.street import street
from tests.integration.crash.under_grant import UNDER_GRANT, die_under_a_grant
from tests.integration.crash.within_limits import ASKED, BY_ITSELF, die_within_limits
from tests.stress.budget import full
from tests.stress.side_by_side import Play, side_by_side


@pytest.mark.stress
async def test_a_death_at_every_point(postgres: Postgres, tmp_path: Path) -> None:
    """No acknowledged decision is lost, no tool runs twice, no card appears twice, all is over within 30 s."""

    def beginning_with(number: int) -> Play:
        first = number % len(
            EVERY
        )  # each death comes last at times, and has to be recovered from within 30 s
        return partial(_die, (*EVERY[first:], *EVERY[:first]))

    plays = {f"round-{n}": beginning_with(n) for n in range(full(100))}
    await side_by_side(plays, postgres, tmp_path)


async def _die(deaths: tuple[str, ...], url: str, folder: Path) -> None:
    async with street(url, folder, lanes=len(deaths)) as here:
        await die_and_recover(here, deaths)


@pytest.mark.stress
async def test_a_death_within_a_limit(postgres: Postgres, tmp_path: Path) -> None:
    """Killed at each step between question, claim and effect: 0 overdrawn, nothing counted twice, nothing lost."""

    def shifted(number: int) -> Play:
        first = number % len(BY_ITSELF)
        turned = (*BY_ITSELF[first:], *BY_ITSELF[:first])
        return partial(die_within_limits, by_itself=turned, asked=ASKED)

    plays = {f"round-{n}": shifted(n) for n in range(full(30))}
    await side_by_side(plays, postgres, tmp_path)


@pytest.mark.stress
async def test_a_death_under_a_grant(postgres: Postgres, tmp_path: Path) -> None:
    """Killed between claim, effect and report of granted calls: no use is lost, counted twice, or one too many."""

    def shifted(number: int) -> Play:
        first = number % len(UNDER_GRANT)
        return partial(die_under_a_grant, deaths=(*UNDER_GRANT[first:], *UNDER_GRANT[:first]))

    plays = {f"round-{n}": shifted(n) for n in range(full(30))}
    await side_by_side(plays, postgres, tmp_path)


@pytest.mark.stress
async def test_a_death_while_a_program_executes(postgres: Postgres, tmp_path: Path) -> None:
    """Killed at each step between question, decision, claim and report: no effect is lost, and none happens twice."""

    def shifted(number: int) -> Play:
        first = number % len(BY_PROGRAM)
        return partial(die_by_a_program, deaths=(*BY_PROGRAM[first:], *BY_PROGRAM[:first]))

    plays = {f"round-{n}": shifted(n) for n in range(full(30))}
    await side_by_side(plays, postgres, tmp_path)


@pytest.mark.stress
async def test_a_death_while_people_answer(postgres: Postgres, tmp_path: Path) -> None:
    """Killed at each step between question and decision: each answer counts once, and its function has the value."""

    def shifted(number: int) -> Play:
        first = number % len(BY_ANSWERS)
        return partial(die_by_answers, deaths=(*BY_ANSWERS[first:], *BY_ANSWERS[:first]))

    plays = {f"round-{n}": shifted(n) for n in range(full(100))}
    await side_by_side(plays, postgres, tmp_path)


@pytest.mark.stress
async def test_a_death_while_a_form_decides(postgres: Postgres, tmp_path: Path) -> None:
    """Killed at each step between questions, message, votes and claims: each vote counts once, and each call runs."""

    def shifted(number: int) -> Play:
        first = number % len(BY_FORM)
        return partial(die_by_form, deaths=(*BY_FORM[first:], *BY_FORM[:first]))

    plays = {f"round-{n}": shifted(n) for n in range(full(100))}
    await side_by_side(plays, postgres, tmp_path)
