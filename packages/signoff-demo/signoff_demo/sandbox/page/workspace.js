// Workspace data, and communication with the server.

import { byId, toast } from "./dom.js";

export const workspace = { team: {}, bot: {}, members: [], usergroups: [], channels: [], commands: [], shortcuts: [] };

export async function load() {
  Object.assign(workspace, await get("/sandbox/state"));
}

export async function get(path) {
  const answer = await fetch(path, { headers: { Accept: "application/json" } });
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer.json();
}

// Sends an action; returns the server's {ok, error, elapsed, response}. Never throws.
export async function act(what, body, { quiet = false } = {}) {
  let result;
  try {
    const answer = await fetch(`/sandbox/act/${what}`, {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-Sandbox": "1" },
      body: JSON.stringify(body),
    });
    result = await answer.json();
  } catch (error) {
    console.warn(error);
    result = { ok: false, error: "The sandbox did not answer. Is it still running?" };
  }
  if (typeof result.elapsed === "number" && ["click", "submit", "command"].includes(what)) {
    const said = result.ok ? "acknowledged" : result.errors ? "the form was not accepted" : "not acknowledged";
    byId("ack").textContent = `${said}, ${seconds(result.elapsed)}`;
  }
  if (!result.ok && !quiet) toast(result.error || "That did not work.");
  return result;
}

const seconds = (elapsed) => (elapsed < 1 ? `${Math.round(elapsed * 1000)} ms` : `${elapsed.toFixed(1)} s`);

// Calls back with every change; with {type: "resync"} after each (re)connection, since changes may have been missed.
export function listen(onChange) {
  const source = new EventSource("/sandbox/events");
  source.onopen = () => {
    document.body.classList.remove("offline");
    onChange({ type: "resync" });
  };
  source.onmessage = (event) => onChange(JSON.parse(event.data));
  source.onerror = () => document.body.classList.add("offline");
}

export const member = (id) => workspace.members.find((each) => each.id === id);
export const channel = (id) => workspace.channels.find((each) => each.id === id);
const isApp = (id) => id && [workspace.bot.user_id, workspace.bot.id, workspace.bot.bot_id].includes(id);

export function nameOf(id) {
  const found = member(id);
  if (found) return found.real_name || found.profile?.real_name || found.name;
  return isApp(id) ? workspace.bot.name || "app" : id;
}

export function handleOf(id) {
  return member(id)?.name ?? nameOf(id);
}

export function channelName(id) {
  const found = channel(id);
  if (!found) return id;
  return found.is_im ? nameOf(found.user) : found.name;
}

export function groupName(id) {
  return workspace.usergroups.find((each) => each.id === id)?.handle ?? id;
}

// The members to act as: everybody except apps.
export function people() {
  return workspace.members.filter((each) => !each.is_bot && !isApp(each.id) && each.id !== "USLACKBOT");
}

export function badges(person) {
  const found = [];
  if (person.deleted) found.push("deactivated");
  if (person.is_stranger || (person.team_id && workspace.team.id && person.team_id !== workspace.team.id)) found.push("external");
  if (person.is_ultra_restricted) found.push("single-channel guest");
  else if (person.is_restricted) found.push("guest");
  if (person.is_admin) found.push("admin");
  for (const group of workspace.usergroups) {
    if ((group.users ?? []).includes(person.id)) found.push(`@${group.handle}`);
  }
  return found;
}
