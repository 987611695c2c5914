"""Scenes of steps, each ticked once it has happened."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from signoff_demo.sandbox import SandboxWorkspace, SlackSandbox

Message = dict[str, Any]

AGENTS, REVIEWS = "C0AGENTS", "C0REVIEW"
ADA, GRACE, LINUS = "U0ADA", "U0GRACE", "U0LINUS"
CRASH = "crash"
REPLAY = "replay"

WELCOME = (
    ":wave: *Welcome to Signoff.* AI agents ask here before they do something risky. People approve or reject it.\n\n"
    "This page is a stand-in for Slack on your machine. You play three people: *Ada* asks, *Grace* and *Linus* decide. "
    "“Act as” says who you are.\n\n"
    "The *guide* has one button for each step. Start with its first one."
)


class Seen:
    def __init__(self, slack: SlackSandbox) -> None:
        self.slack = slack

    def cards(self, words: str = "") -> list[Message]:
        """With these words in the first line, oldest first."""
        return [each for each in self._about("request") if words in each["text"]]

    def card(self, words: str = "") -> Message | None:
        return next(reversed(self.cards(words)), None)

    def is_card(self, words: str, status: str) -> bool:
        return any(each["text"].startswith(status) for each in self.cards(words))

    def shows(self, words: str, detail: str) -> bool:
        return any(detail in str(each["blocks"]) for each in self.cards(words))

    def run(self, task: str = "") -> Message | None:
        return next((each for each in reversed(self._about("run")) if each["text"].endswith(task)), None)

    def said(self, task: str, words: str) -> bool:
        run = self.run(task)
        thread = self.slack.thread(run["channel"], run["ts"]) if run else []
        return any(words in each["text"] for each in thread)

    def received_ephemeral(self, user: str, words: str) -> bool:
        return any(words in each["text"] for each in self.slack.ephemeral(user))

    def is_in_channel(self, words: str) -> bool:
        return any(words in each["text"] for each in self.slack.messages(AGENTS))

    def starts(self) -> int:
        return len(self.slack.calls_of("apps.connections.open"))

    def _about(self, kind: str) -> list[Message]:
        """Messages that are a card (`request`) or begin a run's thread (`run`)."""
        return [
            each
            for channel in self.slack.workspace.channels
            for each in self.slack.messages(channel)
            if kind in each.get("metadata", {}).get("event_payload", {})
        ]


Look = Callable[[Seen], bool]
Find = Callable[[Seen], Message | None]


@dataclass(frozen=True)
class Step:
    """One person's action. Its button performs it, or leads to where it is done.

    `act`: what the page needs: `as`, `channel`, `command` (sent at once, or only written with `draft`), `reply` (in
    the thread of `at`), `home`, `inbox`, `lever`. `at` finds the message that the button leads to.
    """

    text: str
    seen: Look
    label: str = ""
    act: Mapping[str, Any] = field(default_factory=dict)
    at: Find | None = None


@dataclass(frozen=True)
class Scene:
    """Steps about one topic. `after` says what they have shown; it links to the run of `task`."""

    title: str
    intro: str
    steps: Sequence[Step]
    after: str
    task: str | None = None


class Guide:
    """A tick stays, even if its message is deleted.

    `cast`: the people to act as; the page hides others, unless it is empty.
    """

    def __init__(
        self, title: str, scenes: Sequence[Scene], cast: Sequence[str] = (ADA, GRACE, LINUS)
    ) -> None:
        self.title = title
        self.cast = tuple(cast)
        self.scenes = tuple(scenes)
        self._done: set[tuple[int, int]] = set()

    def __call__(self, slack: SlackSandbox) -> dict[str, Any]:
        seen = Seen(slack)
        return {
            "title": self.title,
            "start": {"user": ADA, "channel": AGENTS},
            "cast": self.cast,
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
    say(workspace, WELCOME)


def say(workspace: SandboxWorkspace, text: str) -> None:
    """Post without notifying the service."""
    guide: Message = {"type": "message", "team": workspace.team.id, "username": "Guide", "bot_id": "B0GUIDE"}
    said = workspace.messages.add(AGENTS, {**guide, "text": text})
    workspace.changes.publish({"type": "message", "channel": AGENTS, "ts": said["ts"], "thread_ts": None})
