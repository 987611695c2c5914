// Slack's mrkdwn, dates, emoji and mentions, as DOM nodes.

import { el } from "./dom.js";
import { channel, channelName, groupName, handleOf } from "./workspace.js";

const EMOJI = {
  white_check_mark: "✅", heavy_check_mark: "✔️", x: "❌", no_entry: "⛔", no_entry_sign: "🚫", warning: "⚠️", hourglass: "⌛",
  hourglass_flowing_sand: "⏳", alarm_clock: "⏰", lock: "🔒", unlock: "🔓", key: "🔑", eyes: "👀", bell: "🔔", tada: "🎉",
  question: "❓", grey_question: "❔", exclamation: "❗", information_source: "ℹ️", arrows_counterclockwise: "🔄", repeat: "🔁",
  gear: "⚙️", mag: "🔍", memo: "📝", clipboard: "📋", robot_face: "🤖", wave: "👋", thumbsup: "👍", "+1": "👍", thumbsdown: "👎",
  "-1": "👎", red_circle: "🔴", large_orange_circle: "🟠", large_yellow_circle: "🟡", large_green_circle: "🟢",
  large_blue_circle: "🔵", white_circle: "⚪", black_circle: "⚫", rotating_light: "🚨", octagonal_sign: "🛑", stopwatch: "⏱️",
  calendar: "📅", moneybag: "💰", package: "📦", inbox_tray: "📥", zap: "⚡", fire: "🔥", rocket: "🚀", smile: "😄", bulb: "💡",
  point_right: "👉", speech_balloon: "💬", shield: "🛡️", pencil2: "✏️", double_vertical_bar: "⏸️", arrow_forward: "▶️",
};

export const emoji = (name) => EMOJI[name] ?? `:${name}:`;

// Slack returns & < > as entities in every text, plain text and rich text included.
export const unescape = (text) => text.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");

// A text object of a block, or a plain string.
export function textObject(object) {
  if (!object) return [];
  if (typeof object === "string") return mrkdwn(object);
  return object.type === "mrkdwn" ? mrkdwn(object.text, object.verbatim) : plain(object.text, object.emoji !== false);
}

export function plain(text, withEmoji = true) {
  text = unescape(String(text ?? ""));
  return lines(withEmoji ? text.replace(/:([a-z0-9_+-]+):/g, (whole, name) => EMOJI[name] ?? whole) : text);
}

const lines = (text) => text.split("\n").flatMap((line, index) => (index ? [el("br"), line] : [line]));

export function mrkdwn(text, verbatim = false) {
  const parts = String(text ?? "").split(/```\n?([\s\S]+?)```/g);
  return parts.flatMap((part, index) => (index % 2 ? [el("pre", {}, unescape(part))] : quoted(part, verbatim)));
}

function quoted(text, verbatim) {
  const out = [];
  let quote = null;
  text.split("\n").forEach((line, index) => {
    const match = /^(?:&gt;|>)\s?(.*)$/.exec(line);
    if (match) {
      if (quote) quote.append(el("br"));
      else out.push((quote = el("blockquote")));
      quote.append(...inline(match[1], verbatim));
      return;
    }
    if (index && !quote) out.push(el("br"));
    quote = null;
    out.push(...inline(line, verbatim));
  });
  return out;
}

const TOKEN = /<([^<>\n]+)>|`([^`\n]+)`|(?<![\w*])\*(?!\s)([^*\n]+?)(?<!\s)\*(?![\w*])|(?<![\w_])_(?!\s)([^_\n]+?)(?<!\s)_(?![\w_])|(?<![\w~])~(?!\s)([^~\n]+?)(?<!\s)~(?![\w~])|:([a-z0-9_+-]+):|(https?:\/\/[^\s<>|]+)/g;

function inline(text, verbatim) {
  const out = [];
  let last = 0;
  for (const match of text.matchAll(TOKEN)) {
    out.push(unescape(text.slice(last, match.index)));
    last = match.index + match[0].length;
    const [whole, angled, code, bold, italic, strike, short, url] = match;
    if (angled) out.push(special(angled));
    else if (code) out.push(el("code", {}, unescape(code)));
    else if (bold) out.push(el("strong", {}, inline(bold, verbatim)));
    else if (italic) out.push(el("em", {}, inline(italic, verbatim)));
    else if (strike) out.push(el("s", {}, inline(strike, verbatim)));
    else if (short) out.push(EMOJI[short] ?? whole);
    else out.push(verbatim ? unescape(url) : link(unescape(url)));
  }
  out.push(unescape(text.slice(last)));
  return out;
}

function special(inside) {
  const [target, label] = inside.split(/\|(.*)/s);
  if (target.startsWith("@")) return mention("@" + handleOf(target.slice(1)), target.slice(1));
  if (target.startsWith("#")) return place(target.slice(1));
  if (target.startsWith("!subteam^")) return mention("@" + groupName(target.slice(9)));
  if (target.startsWith("!date^")) {
    const [, seconds, format, href] = target.split("^");
    return date(Number(seconds), format, label ? unescape(label) : undefined, href);
  }
  if (target.startsWith("!")) return mention("@" + unescape(label ?? target.slice(1)), "!");
  return link(unescape(target), label === undefined ? undefined : unescape(label));
}

// A message of this workspace opens in this tab, as in Slack.
function follow(event) {
  if (event.metaKey || event.ctrlKey || event.shiftKey) return;
  event.preventDefault();
  const url = new URL(event.currentTarget.href);
  const [, , id, number] = url.pathname.split("/");
  const thread = url.searchParams.get("thread_ts");
  const digits = number.slice(1);
  location.hash = new URLSearchParams({ channel: id, message: `${digits.slice(0, -6)}.${digits.slice(-6)}`, ...(thread ? { thread } : {}) });
}

export const mention = (text, id) => el("span", { class: id === "!" ? "mention loud" : "mention", title: id }, text);

// A channel link, as in Slack.
export const place = (id) => (channel(id) ? el("a", { class: "mention", href: `#${new URLSearchParams({ channel: id })}` }, "#" + channelName(id)) : mention("#" + channelName(id), id));

export function link(url, label) {
  const message = /^https:\/\/[a-z0-9-]+\.slack\.com(\/archives\/.+)$/.exec(url); // of this workspace: there is no other one
  if (message) return el("a", { href: message[1], title: url, onclick: follow }, label ?? url);
  if (!/^(https?:|mailto:)/i.test(url)) return el("span", {}, label ?? url);
  return el("a", { href: url, target: "_blank", rel: "noopener noreferrer", title: url }, label ?? url);
}

// Slack's date tokens, in the browser's own time zone.
export function date(seconds, format, fallback, href) {
  const when = new Date(seconds * 1000);
  if (Number.isNaN(when.getTime())) return el("span", {}, fallback ?? "");
  const words = format.replace(/\{(\w+)\}/g, (whole, token) => DATE[token]?.(when) ?? whole);
  const node = el("time", { dateTime: when.toISOString(), title: when.toLocaleString() }, words);
  return href ? el("a", { href, target: "_blank", rel: "noopener noreferrer" }, node) : node;
}

const day = (when, options) => when.toLocaleDateString(undefined, { year: "numeric", ...options });
const DATE = {
  date_num: (when) => `${when.getFullYear()}-${String(when.getMonth() + 1).padStart(2, "0")}-${String(when.getDate()).padStart(2, "0")}`,
  date: (when) => day(when, { month: "long", day: "numeric" }),
  date_short: (when) => day(when, { month: "short", day: "numeric" }),
  date_long: (when) => day(when, { weekday: "long", month: "long", day: "numeric" }),
  date_pretty: (when) => near(when) ?? DATE.date(when),
  date_short_pretty: (when) => near(when) ?? DATE.date_short(when),
  date_long_pretty: (when) => near(when) ?? DATE.date_long(when),
  time: (when) => when.toLocaleTimeString(undefined, { hour: "numeric", minute: "2-digit" }),
  time_secs: (when) => when.toLocaleTimeString(),
  ago,
};

export const clock = (ts) => DATE.time(new Date(Number(ts) * 1000));
export const dayOf = (ts) => near(new Date(Number(ts) * 1000)) ?? DATE.date_long(new Date(Number(ts) * 1000));

function near(when) {
  const days = Math.round((new Date(when).setHours(12, 0, 0, 0) - new Date().setHours(12, 0, 0, 0)) / 86400000);
  return { "-1": "yesterday", 0: "today", 1: "tomorrow" }[days];
}

function ago(when) {
  const minutes = Math.round((when - Date.now()) / 60000);
  const words = new Intl.RelativeTimeFormat(undefined, { numeric: "auto" });
  if (Math.abs(minutes) < 60) return words.format(minutes, "minute");
  return Math.abs(minutes) < 1440 ? words.format(Math.round(minutes / 60), "hour") : words.format(Math.round(minutes / 1440), "day");
}
