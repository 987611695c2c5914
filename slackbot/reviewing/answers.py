"""A person's answer to a question, read the same from Slack, the page and the API."""

from __future__ import annotations

from typing import Any

from agent.domain.answer_fields import FieldKind
from agent.domain.answers import AnswerForm, AnswerValue, UnfitAnswer
from agent.domain.errors import DOUBTFUL, Refused
from signoff.values import Person
from slackbot.masking import clean_text
from slackbot.slack_api.directory import Directory

NO_MEMBER = "This must be a member of this workspace."


async def read_answer(directory: Directory, form: AnswerForm, value: Any) -> AnswerValue:
    """A person who is named must be a member. Raises UnfitAnswer, masked, and Refused while Slack does not tell."""
    try:
        read = form.read(value)
    except UnfitAnswer as unfit:  # its sentences quote the form
        problems = {name: await clean_text(each) for name, each in unfit.problems.items()}
        raise UnfitAnswer(problems) from None
    people = {each.name for each in form.fields if each.kind is FieldKind.PERSON and not form.is_choice}
    wrong: dict[str, str] = {}
    for name in people & set(read.value if isinstance(read.value, dict) else ()):
        known = await directory.identify(Person(directory.own_team_id, read.value[name]))
        if known.refusal in DOUBTFUL:
            raise Refused(known.refusal)
        if known.refusal is not None:
            wrong[name] = NO_MEMBER
    if wrong:
        raise UnfitAnswer(wrong)
    return read
