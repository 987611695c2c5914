"""A flow of Airflow's human-in-the-loop operators as a function agent.

It asks for an entry, one of three options, several of them, and an approval. Start it with
`/agent run release notes for 2.4`.
"""

# --8<-- [start:begin]
from typing import Literal

from pydantic import BaseModel, Field

from signoff import ask, function_agent

Channel = Literal["e-mail", "blog", "chat"]


class Entry(BaseModel):
    information: str


class Channels(BaseModel):
    channels: list[Channel] = Field(min_length=1)


@function_agent
async def release(task: str) -> str:
    entry = (await ask("What should people know?", form=Entry)).require()
    tone = (await ask("In which tone?", options=["plain", "warm", "formal"], other=False)).require()
    told = (await ask("Where is it published?", form=Channels)).require()
    (await ask(f"Publish “{entry.information}” by {', '.join(told.channels)}?", timeout="5m")).require()
    return f"{task}: {entry.information} ({tone}), {', '.join(told.channels)}"


# --8<-- [end:begin]
