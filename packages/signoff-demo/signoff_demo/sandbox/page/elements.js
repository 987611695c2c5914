// Interactive elements as native controls.
//
// A surface holds elements: {key, form, errors, press(block, element, extra)}. `form` keeps what was
// entered so far, by block and action id, in the format of Slack's `state.values`.

import { byId, el, openDialog } from "./dom.js";
import { textObject, unescape } from "./text.js";
import { people, workspace } from "./workspace.js";

export function element(block, part, surface, labels = {}) {
  const draw = ELEMENTS[part.type];
  if (!draw) return el("span", { class: "unknown" }, `[an element of type ${part.type}]`);
  const node = draw({ block, part, surface, labels });
  node.dataset.action = part.action_id ?? "";
  return node;
}

const ELEMENTS = {
  button: ({ block, part, surface }) =>
    el(
      "button",
      { type: "button", class: `button ${part.style ?? ""}`, title: part.url, "aria-label": part.accessibility_label, onclick: (event) => press(event.currentTarget, block, part, surface, { value: part.value }) },
      textObject(part.text),
    ),
  image: ({ part }) => el("span", { class: "image", role: "img", "aria-label": part.alt_text }, `▧ ${part.alt_text ?? ""}`),
  overflow: overflow,
  static_select: (c) => select(c, options(c.part), "selected_option"),
  multi_static_select: (c) => select(c, options(c.part), "selected_options"),
  users_select: (c) => select(c, members(), "selected_user"),
  multi_users_select: (c) => select(c, members(), "selected_users"),
  conversations_select: (c) => select(c, places(), "selected_conversation"),
  multi_conversations_select: (c) => select(c, places(), "selected_conversations"),
  channels_select: (c) => select(c, places(), "selected_channel"),
  multi_channels_select: (c) => select(c, places(), "selected_channels"),
  radio_buttons: (c) => choices(c, "radio"),
  checkboxes: (c) => choices(c, "checkbox"),
  plain_text_input: (c) => typed(c, c.part.multiline ? "textarea" : "text"),
  email_text_input: (c) => typed(c, "email"),
  url_text_input: (c) => typed(c, "url"),
  number_input: (c) => typed(c, "number"),
  datepicker: (c) => picked(c, "date", "selected_date"),
  timepicker: (c) => picked(c, "time", "selected_time"),
  datetimepicker: (c) => picked(c, "datetime-local", "selected_date_time"),
};

// ------------------------------------------------------------------ entered state

// Slack's name for an element's state; initial values are named alike: selected_user, initial_user.
const STATE = {
  static_select: "selected_option", users_select: "selected_user", conversations_select: "selected_conversation",
  channels_select: "selected_channel", multi_static_select: "selected_options", multi_users_select: "selected_users",
  multi_conversations_select: "selected_conversations", multi_channels_select: "selected_channels", checkboxes: "selected_options",
  radio_buttons: "selected_option", datepicker: "selected_date", timepicker: "selected_time", datetimepicker: "selected_date_time",
};

export function entered(surface, block, part) {
  const name = STATE[part.type] ?? "value";
  const initial = part[name.replace("selected", "initial")] ?? part.initial_value ?? (name.endsWith("s") ? [] : null);
  return ((surface.form[block.block_id] ??= {})[part.action_id] ??= { type: part.type, [name]: initial });
}

// Stores a choice; outside an input block (or with dispatch_action) it is also sent to the app at once.
async function enter(control, c, name, value) {
  const state = entered(c.surface, c.block, c.part);
  const before = state[name];
  state[name] = value;
  const told = c.block.type !== "input" || c.block.dispatch_action;
  if (!told) return;
  if (!(await press(control, c.block, c.part, c.surface, { [name]: value }))) state[name] = before;
}

async function press(control, block, part, surface, extra) {
  if (part.confirm && !(await confirmed(part.confirm))) return false;
  control.setAttribute("aria-busy", "true");
  control.disabled = true;
  try {
    await surface.press(block, part, extra);
  } finally {
    control.removeAttribute("aria-busy");
    control.disabled = false;
  }
  return true;
}

// Slack's confirmation dialog; resolves to whether the person confirmed.
export function confirmed(confirm) {
  const dialog = byId("confirm");
  return new Promise((resolve) => {
    dialog.replaceChildren(
      el(
        "form",
        { method: "dialog" },
        el("header", {}, el("h2", { id: "confirm-title" }, textObject(confirm.title))),
        el("div", { id: "confirm-text", class: "modal-body" }, textObject(confirm.text)),
        el(
          "footer",
          {},
          el("button", { class: "button", value: "deny" }, textObject(confirm.deny)),
          el("button", { class: `button ${confirm.style === "danger" ? "danger" : "primary"}`, value: "confirm", id: "confirm-yes" }, textObject(confirm.confirm)),
        ),
      ),
    );
    dialog.returnValue = "";
    dialog.onclose = () => resolve(dialog.returnValue === "confirm");
    openDialog(dialog);
  });
}

// ------------------------------------------------------------------ choices

function options(part) {
  const groups = part.option_groups ?? [{ options: part.options ?? [] }];
  return groups.flatMap((group) => group.options.map((option) => ({ key: option.value, label: unescape(option.text.text), value: option, group: group.label?.text })));
}

const members = () => people().map((each) => ({ key: each.id, label: each.real_name || each.name, value: each.id }));
const places = () => workspace.channels.filter((each) => !each.is_im).map((each) => ({ key: each.id, label: `#${each.name}`, value: each.id }));

function select(c, offered, name) {
  const multiple = name.endsWith("s");
  const key = (value) => value?.value ?? value;
  const chosen = [entered(c.surface, c.block, c.part)[name] ?? []].flat().map(key);
  const node = el("select", { ...named(c), multiple });
  if (!multiple) node.append(el("option", { value: "", hidden: true }, c.part.placeholder?.text ?? "Choose…"));
  const groups = new Map();
  for (const each of offered) {
    const option = el("option", { value: each.key, selected: chosen.includes(each.key) }, each.label);
    if (!each.group) node.append(option);
    else {
      if (!groups.has(each.group)) node.append(groups.set(each.group, el("optgroup", { label: each.group })).get(each.group));
      groups.get(each.group).append(option);
    }
  }
  node.addEventListener("change", async () => {
    const values = offered.filter((each) => [...node.selectedOptions].some((option) => option.value === each.key)).map((each) => each.value);
    await enter(node, c, name, multiple ? values : values[0]);
    const now = [entered(c.surface, c.block, c.part)[name] ?? []].flat().map(key);
    for (const option of node.options) option.selected = now.includes(option.value) || (!now.length && option.value === "" && !multiple);
  });
  return node;
}

function choices(c, kind) {
  const one = kind === "radio";
  const name = one ? "selected_option" : "selected_options";
  const chosen = [entered(c.surface, c.block, c.part)[name] ?? []].flat().map((option) => option.value);
  const group = el("div", { class: "choices", role: one ? "radiogroup" : "group", "aria-labelledby": c.labels.labelledBy, "aria-describedby": c.labels.describedBy });
  for (const option of c.part.options ?? []) {
    const box = el("input", { type: kind, name: `${c.surface.key}-${c.block.block_id}-${c.part.action_id}`, value: option.value, checked: chosen.includes(option.value) });
    group.append(el("label", {}, box, el("span", {}, textObject(option.text), option.description && el("small", {}, textObject(option.description)))));
  }
  group.addEventListener("change", () => {
    const values = c.part.options.filter((option, index) => group.querySelectorAll("input")[index].checked);
    enter(group, c, name, one ? values[0] : values);
  });
  return group;
}

function overflow({ block, part, surface }) {
  const id = `menu-${surface.key}-${block.block_id}-${part.action_id}`;
  const menu = el("div", { id, popover: "auto", class: "popup", role: "menu" });
  const opener = el("button", { type: "button", class: "button more", "aria-label": "More actions", "aria-haspopup": "menu" }, "⋯");
  for (const option of part.options ?? []) {
    menu.append(el("button", {
      type: "button", role: "menuitem", class: "quiet",
      onclick: () => {
        menu.hidePopover();
        press(opener, block, part, surface, { selected_option: option, value: option.value });
      },
    }, textObject(option.text)));
  }
  opener.addEventListener("click", () => {
    menu.showPopover();
    const at = opener.getBoundingClientRect();
    menu.style.top = `${Math.min(at.bottom + 4, innerHeight - menu.offsetHeight - 8)}px`;
    menu.style.left = `${Math.max(8, Math.min(at.left, innerWidth - menu.offsetWidth - 8))}px`;
    menu.firstElementChild?.focus();
  });
  return el("span", { class: "overflow" }, opener, menu);
}

// ------------------------------------------------------------------ text, numbers, dates

function named(c) {
  return { id: c.labels.id, "aria-describedby": c.labels.describedBy, "aria-label": c.labels.id ? undefined : c.part.placeholder?.text ?? c.part.action_id };
}

function typed(c, kind) {
  const { part, surface, block } = c;
  const many = kind === "textarea";
  const node = el(many ? "textarea" : "input", {
    ...named(c),
    ...(many ? { rows: 4 } : { type: kind }),
    placeholder: part.placeholder?.text ?? "",
    value: entered(surface, block, part).value ?? "",
    min: part.min_value, max: part.max_value, step: kind === "number" ? (part.is_decimal_allowed ? "any" : "1") : undefined,
  });
  const remember = () => (entered(surface, block, part).value = node.value === "" ? null : node.value);
  node.addEventListener("input", remember);
  const triggers = part.dispatch_action_config?.trigger_actions_on ?? ["on_enter_pressed"];
  if (block.dispatch_action && triggers.includes("on_character_entered")) node.addEventListener("input", () => surface.press(block, part, { value: node.value }));
  if (block.dispatch_action && triggers.includes("on_enter_pressed")) {
    node.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || many) return;
      event.preventDefault();
      surface.press(block, part, { value: node.value });
    });
  }
  return node;
}

function picked(c, type, name) {
  const value = entered(c.surface, c.block, c.part)[name];
  const local = (seconds) => new Date(seconds * 1000 - new Date(seconds * 1000).getTimezoneOffset() * 60000).toISOString().slice(0, 16);
  const stamped = type === "datetime-local";
  const node = el("input", { ...named(c), type, value: value ? (stamped ? local(value) : value) : "" });
  node.addEventListener("change", () => {
    const now = node.value === "" ? null : stamped ? Math.floor(new Date(node.value).getTime() / 1000) : node.value;
    enter(node, c, name, now);
  });
  return node;
}
