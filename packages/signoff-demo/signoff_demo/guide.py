"""Scenes of steps, each ticked once it has happened."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from signoff_demo.actors import ADA, AGENTS, GRACE, LINUS, Actors, Message, Seen
from signoff_demo.played import LOOK_SECONDS
from signoff_demo.sandbox import SandboxWorkspace, SlackSandbox

CRASH = "crash"
REPLAY = "replay"

WELCOME = (
    ":wave: *Welcome to Signoff.* AI agents ask here before they do something risky. People approve or reject it.\n\n"
    "This page is a stand-in for Slack on your machine. You play three people: *Ada* asks, *Grace* and *Linus* decide. "
    "“Act as” says who you are.\n\n"
    "The *guide* has one button for each step. Start with its first one."
)


Look = Callable[[Seen], bool]
Find = Callable[[Seen], Message | None]
Press = Callable[[Actors, Message], Awaitable[object]]
"""What a person does with the message that the button leads to."""


@dataclass(frozen=True)
class Step:
    """One person's action. Its button performs it, or leads to where it is done.

    `act`: what the page needs: `as`, `channel`, `command` (sent at once, or only written with `draft`), `reply` (in
    the thread of `at`), `home`, `inbox`, `lever`. `at` finds the message that the button leads to, `press` is what the
    person does there.
    """

    text: str
    seen: Look
    label: str = ""
    act: Mapping[str, Any] = field(default_factory=dict)
    at: Find | None = None
    press: Press | None = None


@dataclass(frozen=True)
class Proof:
    """What `signoff demo --auto` also checks once all steps of a scene are ticked."""

    what: str
    expected: Any
    look: Callable[[Actors], Any]
    within: float = LOOK_SECONDS


@dataclass(frozen=True)
class Scene:
    """Steps about one topic. `after` says what they have shown; it links to the run of `task`."""

    title: str
    intro: str
    steps: Sequence[Step]
    after: str
    task: str | None = None
    proofs: Sequence[Proof] = ()


class Guide:
    """A tick stays, even if its message is deleted.

    `cast`: the people to act as; the page hides others, unless it is empty. `following`: what to do after the last
    scene.
    """

    def __init__(
        self,
        title: str,
        scenes: Sequence[Scene],
        cast: Sequence[str] = (ADA, GRACE, LINUS),
        following: Sequence[str] = (),
    ) -> None:
        self.title = title
        self.cast = tuple(cast)
        self.scenes = tuple(scenes)
        self.following = tuple(following)
        self._done: set[tuple[int, int]] = set()

    def __call__(self, slack: SlackSandbox) -> dict[str, Any]:
        seen = Seen(slack)
        return {
            "title": self.title,
            "start": {"user": ADA, "channel": AGENTS},
            "cast": self.cast,
            "next": self.following,
            "scenes": [self._scene(seen, number, scene) for number, scene in enumerate(self.scenes)],
        }

    def finished(self, slack: SlackSandbox) -> list[str]:
        scenes = self(slack)["scenes"]
        return [each["title"] for each in scenes if all(step["done"] for step in each["steps"])]

    def _scene(self, seen: Seen, number: int, scene: Scene) -> dict[str, Any]:
        run = seen.run(scene.task) if scene.task else None
        steps = [self._step(seen, (number, place), step) for place, step in enumerate(scene.steps)]
        shown = {"title": scene.title, "intro": scene.intro, "after": scene.after, "steps": steps}
        place = {"run": {"as": ADA, "channel": run["channel"], "thread": run["ts"]}} if run else {}
        return shown | place

    def _step(self, seen: Seen, key: tuple[int, int], step: Step) -> dict[str, Any]:
        if key not in self._done and step.seen(seen):
            self._done.add(key)
        found = step.at(seen) if step.at else None
        place = {"channel": found["channel"], "ts": found["ts"]} if found else {}
        waits = step.at is not None and found is None
        shown = {"text": step.text, "label": step.label, "done": key in self._done, "waits": waits}
        return {**shown, **step.act, **place}


def welcome(workspace: SandboxWorkspace) -> None:
    """Post the guide's welcome, without notifying the service."""
    say(workspace, WELCOME)


def say(workspace: SandboxWorkspace, text: str) -> None:
    """Post without notifying the service."""
    guide: Message = {"type": "message", "team": workspace.team.id, "username": "Guide", "bot_id": "B0GUIDE"}
    said = workspace.messages.add(AGENTS, {**guide, "text": text})
    workspace.changes.publish({"type": "message", "channel": AGENTS, "ts": said["ts"], "thread_ts": None})
