"""The Web API's methods about modals and App Homes."""

from __future__ import annotations

from signoff_demo.sandbox.arguments import Arguments
from signoff_demo.sandbox.elements import with_ids
from signoff_demo.sandbox.limits import check_view
from signoff_demo.sandbox.methods.registry import method
from signoff_demo.sandbox.mrkdwn import escaped_blocks
from signoff_demo.sandbox.refusal import Json, SandboxRefusal
from signoff_demo.sandbox.workspace import SandboxWorkspace


def readable_view(view: Json, kind: str) -> Json:
    """Raises SandboxRefusal if the view exceeds a documented limit."""
    check_view(view, kind)
    shown: Json = escaped_blocks(view)
    for verbatim in ("private_metadata", "callback_id", "external_id"):
        if verbatim in view:
            shown[verbatim] = view[verbatim]
    shown["blocks"] = with_ids(shown["blocks"])
    return shown


def _view(args: Arguments, kind: str) -> Json:
    view = args.decoded("view", dict)
    if view is None:
        raise SandboxRefusal("invalid_arguments", "missing required field: view")
    return readable_view(view, kind)


def _trigger_id(args: Arguments) -> str:
    # An interactivity_pointer is the newer name of a trigger id.
    return args.optional_text("interactivity_pointer") or args.text("trigger_id")


@method("views.open", tier=4)
def views_open(workspace: SandboxWorkspace, args: Arguments) -> Json:
    """Answer `views.open`: use up the trigger, and open a modal in place of the person's earlier ones."""
    view = _view(args, "modal")
    user = workspace.modals.exchange(_trigger_id(args)).user
    return _shown(workspace, user, workspace.modals.open(user, view))


@method("views.push", tier=4)
def views_push(workspace: SandboxWorkspace, args: Arguments) -> Json:
    """Answer `views.push`: use up the trigger, and open a modal on top of the person's others."""
    view = _view(args, "modal")
    user = workspace.modals.exchange(_trigger_id(args)).user
    return _shown(workspace, user, workspace.modals.push(user, view))


@method("views.update", tier=4)
def views_update(workspace: SandboxWorkspace, args: Arguments) -> Json:
    """Answer `views.update`: replace a view, found by either of its ids, unless its `hash` is outdated."""
    view = _view(args, "modal")
    view_id, external_id = args.optional_text("view_id"), args.optional_text("external_id")
    if not view_id and not external_id:
        raise SandboxRefusal("invalid_arguments", "missing required field: view_id or external_id")
    user, shown = workspace.modals.update(view_id, external_id, view, args.optional_text("hash"))
    return _shown(workspace, user, shown)


@method("views.publish", tier=4)
def views_publish(workspace: SandboxWorkspace, args: Arguments) -> Json:
    """Answer `views.publish`: replace a person's App Home, unless its `hash` is outdated."""
    view = _view(args, "home")
    user = args.text("user_id")
    workspace.member(user)
    shown = workspace.modals.publish(user, view, args.optional_text("hash"))
    workspace.changes.publish({"type": "home", "user": user, "view_id": shown["id"]})
    return {"view": shown}


def _shown(workspace: SandboxWorkspace, user: str, view: Json) -> Json:
    workspace.changes.publish({"type": "view", "user": user, "view_id": view["id"]})
    return {"view": view}
