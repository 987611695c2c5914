// The modal on top of a person's stack: title, blocks, Submit, Close, errors beside their fields.

import { blocks } from "./blocks.js";
import { byId, el, openDialog, toast } from "./dom.js";
import { plain } from "./text.js";
import { act, get } from "./workspace.js";

const forms = new Map(); // what was typed, by view id
let shown = null; // {view, user, errors}

export async function showViews(user) {
  const { stack } = await get(`/sandbox/people/${user}/views`);
  const view = stack.at(-1);
  const dialog = byId("modal");
  if (!view) {
    shown = null;
    forms.clear();
    if (dialog.open) dialog.close();
    return;
  }
  if (shown && shown.user === user && shown.view.id === view.id && shown.view.hash === view.hash && dialog.open) return;
  const errors = shown?.view.id === view.id ? shown.errors : {};
  shown = { view, user, errors };
  draw(stack.length);
  if (!dialog.open) openDialog(dialog);
}

function draw(depth) {
  const { view, user, errors } = shown;
  const dialog = byId("modal");
  const focused = dialog.contains(document.activeElement) ? document.activeElement.id : null;
  const surface = { key: view.id, form: formOf(view), errors, press: (block, part, extra) => press(block, part, extra) };
  const close = el("button", { type: "button", class: "button", onclick: leave }, plain(view.close?.text ?? "Cancel"));
  const form = el(
    "form",
    { onsubmit: submit, noValidate: true },
    el(
      "header",
      {},
      depth > 1 && el("button", { type: "button", class: "quiet", "aria-label": "Back", onclick: leave }, "←"),
      el("h2", { id: "modal-title" }, plain(view.title?.text ?? "")),
      el("button", { type: "button", class: "quiet", "aria-label": "Close", onclick: leave }, "✕"),
    ),
    el("div", { class: "modal-body" }, blocks(view.blocks ?? [], surface)),
    el("footer", {}, close, view.submit && el("button", { type: "submit", class: "button primary" }, plain(view.submit.text))),
  );
  dialog.dataset.view = view.id;
  dialog.dataset.callback = view.callback_id ?? "";
  dialog.dataset.user = user;
  dialog.replaceChildren(form);
  if (focused) byId(focused)?.focus();
  dialog.oncancel = (event) => {
    event.preventDefault();
    leave();
  };
}

// The server's state, overlaid with unsent input of this page.
function formOf(view) {
  const typed = forms.get(view.id) ?? {};
  const form = structuredClone(view.state?.values ?? {});
  for (const [block, actions] of Object.entries(typed)) {
    for (const [action, state] of Object.entries(actions)) {
      if (form[block]?.[action]?.type === state.type) form[block][action] = state;
    }
  }
  forms.set(view.id, form);
  return form;
}

async function press(block, part, extra) {
  if (!shown) return;
  const { view, user } = shown;
  await act("click", { user, view_id: view.id, block_id: block.block_id, action_id: part.action_id, ...extra, state: forms.get(view.id) });
  await showViews(user);
}

async function submit(event) {
  event.preventDefault();
  const { view, user } = shown;
  const button = event.currentTarget.querySelector("button[type=submit]");
  if (!button || button.getAttribute("aria-busy")) return;
  button.setAttribute("aria-busy", "true");
  const result = await act("submit", { user, view_id: view.id, hash: view.hash, values: forms.get(view.id) }, { quiet: true });
  button.removeAttribute("aria-busy");
  const errors = result.response?.errors ?? result.errors;
  if (shown?.view.id !== view.id) { // closed in the meantime, perhaps in another window
    if (!result.ok) toast(result.error || "We had some trouble connecting. Try again?");
    await showViews(user);
    return;
  }
  if (errors && Object.keys(errors).length) {
    shown.errors = errors;
    draw((await get(`/sandbox/people/${user}/views`)).stack.length);
    byId("modal").querySelector(".wrong input, .wrong textarea, .wrong select")?.focus();
    return;
  }
  if (!result.ok) {
    const body = byId("modal").querySelector(".modal-body");
    body.querySelector(".banner")?.remove();
    body.prepend(el("p", { class: "banner", role: "alert" }, result.error || "We had some trouble connecting. Try again?"));
    return;
  }
  shown.errors = {};
  await showViews(user);
}

async function leave() {
  if (!shown) return;
  const { view, user } = shown;
  await act("close", { user, view_id: view.id });
  await showViews(user);
}
