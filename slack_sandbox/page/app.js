// The page: where the person is, as whom, and what has to be drawn again after a change.

import { blocks } from "./blocks.js";
import { composer } from "./composer.js";
import { byId, el, toast } from "./dom.js";
import { avatar, drawMessages } from "./messages.js";
import { showViews } from "./modal.js";
import { showTour } from "./tour.js";
import { act, badges, channel, channelName, get, listen, load, nameOf, people, workspace } from "./workspace.js";

const at = { user: null, channel: null, thread: null, home: false };
const unread = new Set();
let homeShown = ""; // the Home on the screen, so that it is drawn again only when it changed

const main = composer(byId("composer"), { where: () => ({ user: at.user, channel: at.channel }), label: "Message" });
const reply = composer(byId("reply"), { where: () => ({ user: at.user, channel: at.channel, thread_ts: at.thread }), label: "Reply in thread" });

// ------------------------------------------------------------------ where one is: kept in the address, so that a reload stays

function readAddress() {
  const wanted = new URLSearchParams(location.hash.slice(1));
  const first = workspace.channels.find((each) => !each.is_im && each.is_member !== false) ?? workspace.channels[0];
  at.user = people().some((each) => each.id === wanted.get("user")) ? wanted.get("user") : (people()[0]?.id ?? null);
  at.channel = channel(wanted.get("channel")) ? wanted.get("channel") : (first?.id ?? null);
  at.thread = wanted.get("thread");
  at.home = wanted.get("home") === "1";
}

function go(change) {
  Object.assign(at, change);
  const parts = { user: at.user, channel: at.channel, ...(at.thread ? { thread: at.thread } : {}), ...(at.home ? { home: "1" } : {}) };
  history.replaceState(null, "", `#${new URLSearchParams(parts)}`);
  unread.delete(at.channel);
  document.body.classList.remove("side-open");
  byId("menu").setAttribute("aria-expanded", "false");
  drawAll();
}

const openChannel = (id) => go({ channel: id, thread: null, home: false });
const actAs = async (id) => {
  const stays = !channel(at.channel)?.is_im;
  go({ user: id, ...(stays ? {} : { channel: workspace.channels[0]?.id, thread: null }) });
  await openHome();
};

async function openHome() {
  if (!at.home) return;
  await act("home", { user: at.user });
  redraw("state", "home"); // the first look at the app also opens its direct messages
}

// ------------------------------------------------------------------ the side

// A private channel is shown to its members, a direct message to the person it belongs to.
function visible(place) {
  if (place.is_im) return place.members ? place.members.includes(at.user) : place.user === at.user;
  return !place.is_private || !place.members || place.members.includes(at.user);
}

const title = (place) => (place.is_im ? `${workspace.bot.name ?? "App"} · Messages` : channelName(place.id));

function drawSide() {
  byId("channels").replaceChildren(...workspace.channels.filter(visible).map((each) => {
    const here = !at.home && each.id === at.channel;
    const sign = each.is_im ? "•" : "#";
    return el("li", {}, el("button", { type: "button", class: unread.has(each.id) ? "unread" : "", "aria-current": here ? "page" : undefined, onclick: () => openChannel(each.id), data: { channel: each.id } },
      el("span", { class: "sign", "aria-hidden": "true" }, sign), title(each), each.is_private && el("span", { class: "badge" }, "private"), each.is_ext_shared && el("span", { class: "badge" }, "shared")));
  }));
  byId("apps").replaceChildren(el("li", {}, el("button", { type: "button", id: "open-home", "aria-current": at.home ? "page" : undefined, onclick: () => (go({ home: true, thread: null }), openHome()) },
    avatar(workspace.bot.user_id, workspace.bot.name, true), workspace.bot.name ?? "App", el("span", { class: "badge" }, "Home"))));
  byId("people").replaceChildren(...people().map((each) => el("li", {}, el("button", { type: "button", "aria-pressed": String(each.id === at.user), onclick: () => actAs(each.id), data: { person: each.id } },
    avatar(each.id, nameOf(each.id)),
    el("span", { class: "person" }, el("span", {}, nameOf(each.id)), el("span", { class: "badges" }, badges(each).map((badge) => el("span", { class: "badge" }, badge))))))));
}

// ------------------------------------------------------------------ the middle and the thread

function drawPlace() {
  const here = channel(at.channel);
  byId("place").textContent = at.home ? `${workspace.bot.name ?? "App"} · Home` : here?.is_im ? title(here) : `# ${channelName(at.channel)}`;
  byId("place-note").textContent = `You act as ${nameOf(at.user)}`;
  byId("messages").hidden = at.home;
  byId("composer").hidden = at.home;
  byId("home").hidden = !at.home;
  main.rename(at.home ? "" : `Message ${here?.is_im ? workspace.bot.name : `#${channelName(at.channel)}`} as ${nameOf(at.user)}`);
}

async function drawMessagesHere() {
  const wanted = at.channel;
  if (!wanted) return;
  const { messages, ephemeral } = await get(`/sandbox/channels/${wanted}/messages`);
  if (wanted !== at.channel) return;
  const own = ephemeral?.[at.user] ?? [];
  const byTime = (list) => list.sort((a, b) => Number(a.ts) - Number(b.ts));
  const parent = byId("messages");
  if (parent.dataset.channel !== wanted) {
    parent.replaceChildren();
    parent.dataset.channel = wanted;
  }
  const context = { user: at.user, channel: wanted, open: at.thread };
  drawMessages(parent, byTime([...messages, ...own.filter((each) => !each.thread_ts)]), { ...context, onThread: (ts) => go({ thread: ts }) });
  drawThread(messages, own, context, byTime);
}

function drawThread(messages, own, context, byTime) {
  const root = messages.find((each) => each.ts === at.thread);
  const shown = Boolean(root) && !at.home;
  byId("thread").hidden = !shown;
  document.body.classList.toggle("thread-open", shown);
  if (!shown) return;
  const parent = byId("replies");
  if (parent.dataset.thread !== at.thread) {
    parent.replaceChildren();
    parent.dataset.thread = at.thread;
  }
  const whispers = own.filter((each) => each.thread_ts === at.thread);
  const replies = (root.replies ?? []).filter((each) => each.ts !== root.ts);
  drawMessages(parent, [root, ...byTime([...replies, ...whispers])], { ...context, open: null, days: false });
  reply.rename(`Reply as ${nameOf(at.user)}`);
}

async function drawHome() {
  if (!at.home) return;
  const user = at.user;
  const { view } = await get(`/sandbox/people/${user}/home`);
  const print = JSON.stringify([user, view]);
  if (user !== at.user || print === homeShown) return;
  homeShown = print;
  const form = structuredClone(view?.state?.values ?? {});
  const surface = {
    key: "home",
    form,
    press: (block, part, extra) => act("click", { user, home: true, view_id: view.id, block_id: block.block_id, action_id: part.action_id, ...extra, state: form }),
  };
  byId("home").replaceChildren(...(view ? blocks(view.blocks, surface) : [el("p", { class: "empty" }, "This app has not published a Home for this person.")]));
}

// ------------------------------------------------------------------ drawing again, once for many changes

const due = new Set();
function redraw(...what) {
  if (!due.size) setTimeout(settle, 20);
  for (const each of what) due.add(each);
}

async function settle() {
  const now = new Set(due);
  due.clear();
  const jobs = { messages: drawMessagesHere, views: () => showViews(at.user), home: drawHome };
  try {
    if (now.has("state")) await load();
    drawSide();
    drawPlace();
    await Promise.all(Object.keys(jobs).filter((each) => now.has(each)).map((each) => jobs[each]()));
  } catch (error) {
    toast(`The page could not be refreshed: ${error.message}`);
  }
}

const drawAll = () => redraw("messages", "views", "home");

function onChange(change) {
  if (["message", "update", "delete", "ephemeral"].includes(change.type)) {
    if (change.channel && !channel(change.channel)) redraw("state");
    if (change.channel === at.channel || !change.channel) redraw("messages");
    else if (change.type === "message") redraw(unread.add(change.channel) && "side");
  } else if (change.type === "view") {
    if (!change.user || change.user === at.user) redraw("views");
  } else if (change.type === "home") {
    if (!change.user || change.user === at.user) redraw("home");
  } else redraw("state", "messages", "views", "home");
}

// ------------------------------------------------------------------ start

byId("thread-close").addEventListener("click", () => go({ thread: null }));
byId("menu").addEventListener("click", () => {
  const open = document.body.classList.toggle("side-open");
  byId("menu").setAttribute("aria-expanded", String(open));
});
addEventListener("hashchange", () => {
  readAddress();
  drawAll();
});

try {
  await load();
  readAddress();
  await showTour({
    fill(step) {
      if (step.as) go({ user: step.as });
      if (step.channel) go({ channel: step.channel, thread: null, home: false });
      if (at.home) go({ home: false });
      main.set(step.command ?? "");
    },
  });
  drawAll();
  if (at.home) await openHome();
  listen(onChange);
} catch (error) {
  toast(`The sandbox did not answer: ${error.message}`);
}
