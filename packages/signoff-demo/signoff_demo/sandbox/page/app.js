// The page: the current user and place, and redrawing after changes.

import { blocks } from "./blocks.js";
import { composer } from "./composer.js";
import { byId, el, toast, update } from "./dom.js";
import { isGuide, loadGuide, showGuide } from "./guide.js";
import { avatar, drawMessages } from "./messages.js";
import { showViews } from "./modal.js";
import { act, badges, channel, channelName, get, listen, load, nameOf, people, workspace } from "./workspace.js";

const at = { user: null, channel: null, thread: null, home: false };
let start = {}; // where the guide begins, and whom it is about
let wanted = null; // the message to show once it is drawn
const unread = new Set();
let homeShown = ""; // the Home on the screen, so that it is drawn again only when it changed

const main = composer(byId("composer"), { where: () => ({ user: at.user, channel: at.channel }), label: "Message" });
const reply = composer(byId("reply"), { where: () => ({ user: at.user, channel: at.channel, thread_ts: at.thread }), label: "Reply in thread" });

// ------------------------------------------------------------------ current place: kept in the URL, so that a reload stays

function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  const first = workspace.channels.find((each) => !each.is_im && each.is_member !== false) ?? workspace.channels[0];
  const isPerson = (id) => people().some((each) => each.id === id);
  at.user = [given.get("user"), at.user, start.user, people()[0]?.id].find(isPerson) ?? null;
  at.channel = [given.get("channel"), start.channel, first?.id].find((id) => id && channel(id)) ?? null;
  at.thread = given.get("thread");
  at.home = given.get("home") === "1";
  wanted = given.get("message");
}

function address() {
  return `#${new URLSearchParams({ user: at.user, channel: at.channel, ...(at.thread ? { thread: at.thread } : {}), ...(at.home ? { home: "1" } : {}) })}`;
}

function go(change) {
  const before = address();
  Object.assign(at, change);
  if (before !== address()) {
    history.replaceState(null, "", before);
    history.pushState(null, "", address()); // Back leads to the place before
  }
  unread.delete(at.channel);
  document.body.classList.remove("side-open");
  byId("menu").setAttribute("aria-expanded", "false");
  drawAll();
}

// Navigates to the target of a guide step or link.
async function visit({ as = at.user, channel: id = at.channel, ts = null, thread = null, reply = null, home = false }) {
  wanted = ts;
  go({ user: as, channel: id, thread: reply ? ts : thread, home });
  await openHome();
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

// ------------------------------------------------------------------ sidebar

// Private channels are shown to members, direct messages to their owner.
function visible(place) {
  if (place.is_im) return place.members ? place.members.includes(at.user) : place.user === at.user;
  return !place.is_private || !place.members || place.members.includes(at.user);
}

const title = (place) => (place.is_im ? `${workspace.bot.name ?? "App"} · Messages` : channelName(place.id));

function drawSide() {
  update(byId("channels"), workspace.channels.filter(visible).map((each) => {
    const here = !at.home && each.id === at.channel;
    const sign = each.is_im ? "•" : "#";
    return el("li", {}, el("button", { type: "button", class: unread.has(each.id) ? "unread" : "", "aria-current": here ? "page" : undefined, data: { channel: each.id } },
      el("span", { class: "sign", "aria-hidden": "true" }, sign), title(each), each.is_private && el("span", { class: "badge" }, "private"), each.is_ext_shared && el("span", { class: "badge" }, "shared")));
  }));
  update(byId("apps"), [el("li", {}, el("button", { type: "button", id: "open-home", "aria-current": at.home ? "page" : undefined },
    avatar(workspace.bot.user_id, workspace.bot.name, true), workspace.bot.name ?? "App", el("span", { class: "badge" }, "Home")))]);
  const cast = people().filter((each) => !start.cast?.length || start.cast.includes(each.id) || each.id === at.user);
  const others = people().filter((each) => !cast.includes(each));
  const isOpen = byId("others")?.open ?? false;
  update(byId("people"), [
    ...cast.map(drawPerson),
    ...(others.length ? [el("li", {}, el("details", { id: "others", open: isOpen }, el("summary", {}, `${others.length} others`), el("ul", {}, others.map(drawPerson))))] : []),
  ]);
}

function onPress(list, selector, press) {
  byId(list).addEventListener("click", (event) => {
    const button = event.target.closest(selector);
    if (button) press(button.dataset);
  });
}

onPress("channels", "button", ({ channel: id }) => openChannel(id));
onPress("apps", "button", () => (go({ home: true, thread: null }), openHome()));
onPress("people", "button", ({ person }) => actAs(person));

const drawPerson = (each) => el("li", {}, el("button", { type: "button", "aria-pressed": String(each.id === at.user), data: { person: each.id } },
    avatar(each.id, nameOf(each.id)),
    el("span", { class: "person" }, el("span", {}, nameOf(each.id)), el("span", { class: "badges" }, badges(each).map((badge) => el("span", { class: "badge" }, badge))))));

// ------------------------------------------------------------------ channel and thread

function drawPlace() {
  const here = channel(at.channel);
  byId("place").textContent = at.home ? `${workspace.bot.name ?? "App"} · Home` : here?.is_im ? title(here) : `# ${channelName(at.channel)}`;
  byId("place-note").textContent = `You act as ${nameOf(at.user)}`;
  byId("messages").hidden = at.home;
  byId("composer").hidden = at.home;
  byId("home").hidden = !at.home;
  main.rename(at.home ? "" : `Message ${here?.is_im ? workspace.bot.name : `#${channelName(at.channel)}`}`, ` as ${nameOf(at.user)}`);
}

async function drawMessagesHere() {
  const here = at.channel;
  if (!here) return;
  const { messages, ephemeral } = await get(`/sandbox/channels/${here}/messages`);
  if (here !== at.channel) return;
  const own = ephemeral?.[at.user] ?? [];
  const byTime = (list) => list.sort((a, b) => Number(a.ts) - Number(b.ts));
  const parent = byId("messages");
  if (parent.dataset.channel !== here) {
    parent.replaceChildren();
    parent.dataset.channel = here;
  }
  const context = { user: at.user, channel: here, open: at.thread };
  drawMessages(parent, byTime([...messages, ...own.filter((each) => !each.thread_ts)]), { ...context, onThread: (ts) => go({ thread: ts }) });
  drawThread(messages, own, context, byTime);
  point();
}

// Scrolls to the target message and highlights it briefly.
function point() {
  const node = wanted && [...document.querySelectorAll("article.message")].find((each) => each.dataset.ts === wanted);
  if (!node) return;
  wanted = null;
  node.scrollIntoView({ block: "nearest" });
  node.classList.add("pointed");
  node.addEventListener("animationend", () => node.classList.remove("pointed"), { once: true });
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
  reply.rename("Reply", ` as ${nameOf(at.user)}`);
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

// ------------------------------------------------------------------ redrawing, batched

const due = new Set();
function redraw(...what) {
  if (!due.size) setTimeout(settle, 20);
  for (const each of what) due.add(each);
}

async function settle() {
  const now = new Set(due);
  due.clear();
  const jobs = { messages: drawMessagesHere, views: () => showViews(at.user), home: drawHome, guide: () => loadGuide(doors) };
  try {
    if (now.has("state")) await load();
    drawSide();
    drawPlace();
    await Promise.all(Object.keys(jobs).filter((each) => now.has(each)).map((each) => jobs[each]()));
  } catch (error) {
    console.warn(error);
    toast("The page could not be refreshed. Is the sandbox still running?");
  }
}

const drawAll = () => redraw("messages", "views", "home");

const doors = {
  visit,
  write(text) {
    main.set(text);
  },
};

function onChange(change) {
  if (isGuide()) redraw("guide");
  if (["message", "update", "delete", "ephemeral"].includes(change.type)) {
    if (change.channel && !channel(change.channel)) redraw("state");
    if (change.channel === at.channel || !change.channel) redraw("messages");
    else if (change.type === "message") redraw(unread.add(change.channel) && "side");
  } else if (change.type === "view") {
    if (!change.user || change.user === at.user) redraw("views");
  } else if (change.type === "home") {
    if (!change.user || change.user === at.user) redraw("home");
  } else if (change.type !== "connection") redraw("state", "messages", "views", "home");
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
  const guide = await loadGuide(doors);
  start = { ...guide.start, cast: guide.cast };
  showGuide();
  readAddress();
  drawAll();
  if (at.home) await openHome();
  listen(onChange);
} catch (error) {
  console.warn(error);
  toast("The sandbox did not answer. Is it still running?");
}
