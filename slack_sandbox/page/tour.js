// The "what to try" panel, when the server offers a tour: {title, steps: [{text, as?, channel?, command?, lever?, label?}]}.

import { byId, el } from "./dom.js";
import { mrkdwn } from "./text.js";
import { nameOf, people } from "./workspace.js";

export async function showTour({ fill }) {
  const answer = await fetch("/sandbox/tour");
  if (!answer.ok) return;
  const { title, steps } = await answer.json();
  if (!steps?.length) return;
  byId("tour-title").textContent = title || "What to try";
  byId("tour-steps").replaceChildren(...steps.map((step) => draw(step, fill)));
  byId("try").hidden = false;
  const narrow = matchMedia("(max-width: 1100px)").matches;
  show(!narrow && localStorage.getItem("tour") !== "closed");
  byId("try").addEventListener("click", () => show(byId("tour").hidden, true));
  byId("tour-close").addEventListener("click", () => show(false, true));
}

function show(open, remember = false) {
  byId("tour").hidden = !open;
  byId("try").setAttribute("aria-expanded", String(open));
  if (remember) localStorage.setItem("tour", open ? "open" : "closed");
}

function draw(step, fill) {
  const as = people().find((each) => each.id === step.as || each.name === step.as)?.id;
  const use = () => {
    if (matchMedia("(max-width: 1100px)").matches) show(false);
    fill({ ...step, as });
  };
  if (step.lever) return drawLever(step);
  const words = step.command ? (as ? `Write it as ${nameOf(as)}` : "Write it") : `Act as ${nameOf(as)}`;
  return el("li", {}, el("div", {}, mrkdwn(step.text)), step.command && el("code", { class: "sample" }, step.command),
    (step.command || as) && el("button", { type: "button", class: "button", onclick: use }, words));
}

function drawLever(step) {
  const told = el("div", { class: "told", role: "status" });
  const pull = async () => {
    const answer = await fetch(`/sandbox/levers/${step.lever}`, { method: "POST", headers: { "X-Sandbox": "1" } });
    told.textContent = answer.ok ? (await answer.json()).told : "It could not be done.";
  };
  const button = el("button", { type: "button", class: "button", onclick: pull }, step.label || step.lever);
  return el("li", {}, el("div", {}, mrkdwn(step.text)), button, told);
}
