// Channel messages, thread replies and ephemeral messages.

import { blocks } from "./blocks.js";
import { el, reconcile } from "./dom.js";
import { clock, dayOf, mrkdwn } from "./text.js";
import { act, member, nameOf, workspace } from "./workspace.js";

const forms = new Map(); // state of the elements on a message, by ts

// Draws `messages` (raw, oldest first) into `parent`; stays at the bottom if scrolled there.
export function drawMessages(parent, messages, { user, channel, onThread, days = true, open }) {
  const atBottom = parent.scrollHeight - parent.scrollTop - parent.clientHeight < 80;
  const items = [];
  let day = null;
  for (const message of messages) {
    const today = dayOf(message.ts);
    if (days && today !== day) items.push({ key: `day-${today}`, content: today, day: today });
    day = today;
    const { replies, ...own } = message;
    const content = [own, user, nameOf(author(message)), Boolean(onThread), open === message.ts, message.thread_ts === message.ts ? message.latest_reply : null];
    items.push({ key: message.ts, content, message });
  }
  if (!items.length) items.push({ key: "empty", content: "empty", empty: true });
  reconcile(parent, items, (item) => {
    if (item.day) return el("div", { class: "day", role: "separator" }, el("span", {}, item.day));
    if (item.empty) return el("p", { class: "empty" }, "Nothing has been said here yet.");
    return draw(item.message, { user, channel, onThread, open });
  });
  if (atBottom) parent.scrollTop = parent.scrollHeight;
}

const author = (message) => message.user ?? message.bot_id ?? "";

function draw(message, { user, channel, onThread, open }) {
  const who = author(message);
  const name = message.username ?? (member(who) ? nameOf(who) : message.bot_profile?.name ?? nameOf(who));
  const isApp = Boolean(message.bot_id);
  const node = el(
    "article",
    { class: `message${message.is_ephemeral ? " private" : ""}${open === message.ts ? " open" : ""}`, data: { ts: message.ts }, "aria-label": `${name}, ${clock(message.ts)}` },
    avatar(who, name, isApp && !message.username),
    el(
      "div",
      { class: "message-body" },
      message.is_ephemeral && el("p", { class: "only-you" }, "Only visible to you"),
      el(
        "p",
        { class: "by" },
        el("strong", {}, name),
        isApp && el("span", { class: "badge" }, "APP"),
        el("time", { dateTime: new Date(message.ts * 1000).toISOString() }, clock(message.ts)),
        message.edited && el("span", { class: "faint" }, "(edited)"),
      ),
      body(message, user, channel),
      (message.files ?? []).map((file) => el("p", { class: "file" }, `File: ${file.title || file.name}`)),
      onThread && threadLine(message, onThread),
    ),
    !message.is_ephemeral && el("div", { class: "acts" },
      message.text && workspace.shortcuts.filter((each) => each.type === "message").map((each) =>
        el("button", { type: "button", class: "quiet", "aria-label": each.name, title: `${each.name}: ${each.description}`, onclick: () => act("shortcut", { user, channel, ts: message.ts, callback_id: each.callback_id }) }, "⚡")),
      onThread && el("button", { type: "button", class: "quiet", "aria-label": "Reply in thread", title: "Reply in thread", onclick: () => onThread(message.ts) }, "↩ Reply")),
  );
  return node;
}

function body(message, user, channel) {
  if (message.subtype === "tombstone") return el("p", { class: "faint" }, message.text);
  if (!message.blocks?.length) return el("div", { class: "text" }, mrkdwn(message.text));
  if (!forms.has(message.ts)) forms.set(message.ts, {});
  const form = forms.get(message.ts);
  const surface = {
    key: `m${message.ts}`,
    form,
    press: (block, part, extra) =>
      act("click", { user, channel, ts: message.ts, block_id: block.block_id, action_id: part.action_id, ...extra, ...(Object.keys(form).length ? { state: form } : {}) }),
  };
  return el("div", { class: "blocks" }, blocks(message.blocks, surface));
}

function threadLine(message, onThread) {
  if (!message.reply_count) return null;
  const words = message.reply_count === 1 ? "1 reply" : `${message.reply_count} replies`;
  const last = message.latest_reply ? `last ${dayOf(message.latest_reply)} at ${clock(message.latest_reply)}` : "";
  return el("button", { type: "button", class: "quiet thread-line", onclick: () => onThread(message.ts) }, el("strong", {}, words), " ", el("span", { class: "faint" }, last));
}

export function avatar(id, name, isApp = false) {
  const letters = (name || "?").split(/\s+/).map((word) => word[0]).slice(0, 2).join("").toUpperCase();
  const hue = [...String(id)].reduce((sum, letter) => (sum * 31 + letter.codePointAt(0)) % 360, 7);
  const node = el("span", { class: `avatar${isApp || id === workspace.bot.user_id ? " app" : ""}`, "aria-hidden": "true" }, letters);
  node.style.setProperty("--hue", hue);
  return node;
}
