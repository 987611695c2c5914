// The guide beside the channels, when the server offers one: scenes of steps, ticked once the sandbox has seen each.

import { byId, el, toast } from "./dom.js";
import { mrkdwn } from "./text.js";
import { act, get } from "./workspace.js";

let guide = { scenes: [] };
let drawn = "";
const opened = new Map(); // scenes that the reader has opened or closed, by number
const told = new Map(); // what a lever has answered, by step
const begun = new Set(); // steps that were done here and are not seen yet: a second click would do them twice
const PATIENCE_MS = 20_000;

// `visit({as, channel, ts, thread, home})` navigates; `write(text)` fills the composer.
export async function loadGuide(doors) {
  guide = await get("/sandbox/guide");
  const print = JSON.stringify(guide);
  if (print === drawn || !guide.scenes.length) return guide;
  drawn = print;
  draw(doors);
  return guide;
}

export function showGuide() {
  if (!guide.scenes.length) return;
  document.body.classList.add("has-guide");
  byId("guide").hidden = false;
  byId("guide-toggle").hidden = false;
  fold(localStorage.getItem("guide") === "closed");
  byId("guide-toggle").addEventListener("click", () => fold(!document.body.classList.contains("guide-closed"), true));
  byId("guide-close").addEventListener("click", () => {
    fold(true, true);
    byId("guide-toggle").focus();
  });
  byId("guide-more").addEventListener("click", () => expand(!byId("guide").classList.contains("expanded")));
}

export const isGuide = () => guide.scenes.length > 0;

function fold(closed, remember = false) {
  document.body.classList.toggle("guide-closed", closed);
  byId("guide-toggle").setAttribute("aria-expanded", String(!closed));
  if (remember) localStorage.setItem("guide", closed ? "closed" : "open");
}

// A narrow screen shows only the next step until all are requested.
function expand(open) {
  byId("guide").classList.toggle("expanded", open);
  byId("guide-more").setAttribute("aria-expanded", String(open));
  byId("guide-more").textContent = open ? "Less" : "All steps";
}

const isDone = (scene) => scene.steps.every((step) => step.done);
const next = (scene) => scene.steps.findIndex((step) => !step.done);

function draw(doors) {
  const { title, scenes } = guide;
  const current = scenes.findIndex((scene) => !isDone(scene));
  const done = scenes.filter(isDone).length;
  byId("guide-title").textContent = title;
  byId("guide-count").textContent = `${done} of ${scenes.length} done`;
  const focused = document.activeElement?.dataset?.step;
  byId("guide-scenes").replaceChildren(...scenes.map((scene, number) => drawScene(scene, number, current, doors)), ...(current < 0 ? [drawNext()] : []));
  drawNow(scenes[current], current, doors);
  // A finished step loses its button, so focus the next one.
  if (focused) (document.querySelector(`#guide [data-step="${focused}"]`) ?? document.querySelector("#guide .current .button"))?.focus({ preventScroll: true });
  if (!opened.has(current)) byId("guide-scenes").children[current]?.scrollIntoView({ block: "nearest" });
}

function drawScene(scene, number, current, doors) {
  const isCurrent = number === current;
  const finished = isDone(scene);
  const isLatest = finished && number === (current < 0 ? guide.scenes.length : current) - 1;
  const node = el(
    "details",
    { open: opened.get(number) ?? isCurrent },
    el("summary", { data: { step: `scene-${number}` } }, tick(finished, number + 1), el("span", {}, scene.title)),
    el("p", { class: "intro" }, mrkdwn(scene.intro)),
    el("ol", { class: "steps" }, scene.steps.map((step, place) => drawStep(scene, step, number, place, isCurrent, doors))),
    finished && !isLatest && drawAfter(scene, number, doors),
  );
  node.querySelector("summary").addEventListener("click", () => opened.set(number, !node.open));
  return el("li", { class: isCurrent ? "scene current" : "scene" }, node, isLatest && drawAfter(scene, number, doors));
}

function drawStep(scene, step, number, place, isCurrent, doors) {
  const isNext = place === next(scene);
  return el(
    "li",
    { class: step.done ? "done" : isNext ? "next" : "" },
    tick(step.done),
    el("div", {}, el("p", {}, mrkdwn(step.text)), isNext && !step.waits && drawButton(step, `${number}-${place}`, isCurrent, doors)),
  );
}

const tick = (done, words = "") => el("span", { class: done ? "tick done" : "tick", role: "img", "aria-label": done ? "done" : "to do" }, done ? "✓" : words);

// Steps of different scenes may have the same words, so what was begun is kept by the step's place.
function drawButton(step, key, isPrimary, doors, panel = "") {
  if (!step.label) return null;
  const answer = el("p", { class: "told", role: "status" }, told.get(key) ?? "");
  const button = el("button", { type: "button", class: isPrimary ? "button primary" : "button", data: { step: panel + key } }, step.label);
  const wait = (waits) => {
    button.setAttribute("aria-busy", String(waits));
    button.setAttribute("aria-disabled", String(waits));
  };
  wait(begun.has(key));
  button.addEventListener("click", async () => {
    if (begun.has(key)) return;
    expand(false);
    if (isDeed(step)) {
      begun.add(key);
      wait(true);
      setTimeout(() => begun.delete(key) && wait(false), PATIENCE_MS);
    }
    const words = await perform(step, doors);
    if (words) told.set(key, (answer.textContent = words));
  });
  return [button, step.lever && answer];
}

// Whether the button performs the step, rather than leading to where it is done.
const isDeed = (step) => Boolean(step.lever || step.reply || (step.command && !step.draft && !step.inbox));

function drawAfter(scene, number, doors) {
  const show = scene.run && el("button", { type: "button", class: "button", data: { step: `after-${number}` }, onclick: () => (expand(false), doors.visit(scene.run)) }, "Show the run");
  return el("div", { class: "after" }, el("p", {}, mrkdwn(scene.after)), show);
}

const drawNext = () =>
  guide.next?.length ? el("li", { class: "scene" }, el("h3", {}, "What next"), el("ul", {}, guide.next.map((line) => el("li", {}, mrkdwn(line))))) : "";

// Only the next step, for narrow screens.
function drawNow(scene, number, doors) {
  const place = scene ? next(scene) : 0;
  const step = scene?.steps[place];
  byId("guide-now").replaceChildren(
    ...(step
      ? [el("p", {}, el("strong", {}, `${number + 1}. ${scene.title}. `), mrkdwn(step.text)), !step.waits && drawButton(step, `${number}-${place}`, true, doors, "now-")]
      : [el("p", {}, "You have seen it all. “All steps” ends with what to do next.")]).flat().filter(Boolean),
  );
}

// Performs the step, or leads to where it is done. Returns a message about it.
async function perform(step, { visit, write }) {
  if (step.lever && step.channel) await visit(step);
  if (step.lever) return pull(step.lever);
  const tab = step.inbox ? window.open("", "_blank") : null; // now, while the browser knows that somebody clicked
  if (tab) tab.opener = null;
  await visit(step);
  if (step.reply) await act("say", { user: step.as, channel: step.channel, text: step.reply, thread_ts: step.ts });
  if (!step.command) return "";
  if (step.draft) return write(step.command);
  const [, command, text] = /^(\/\S+)\s*([\s\S]*)$/.exec(step.command);
  const result = await act("command", { user: step.as, channel: step.channel, command, text });
  if (!step.inbox) return "";
  const link = /https?:\/\/[^\s|>"]+\/sign-in\/link\/[^\s|>"]+/.exec(JSON.stringify(result.response ?? ""));
  if (link && tab) tab.location = link[0];
  else tab?.close();
  if (link && !tab) toast("The browser did not open a tab. Click the link in the channel.");
  return "";
}

async function pull(lever) {
  const answer = await fetch(`/sandbox/levers/${lever}`, { method: "POST", headers: { "X-Sandbox": "1" } });
  return answer.ok ? (await answer.json()).told : "It could not be done.";
}
