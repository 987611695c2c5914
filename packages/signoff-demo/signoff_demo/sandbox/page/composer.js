// The message composer: messages, slash commands with suggestions, @names and #channels.

import { el, toast } from "./dom.js";
import { act, people, workspace } from "./workspace.js";

// `where()` gives {user, channel, thread_ts}; commands are refused in threads, as in Slack.
export function composer(form, { where, label }) {
  const list = el("ul", { class: "suggestions", role: "listbox", id: `${form.id}-list`, hidden: true });
  const box = el("textarea", {
    rows: 1, placeholder: label, "aria-label": label, "aria-controls": list.id, "aria-autocomplete": "list", autocomplete: "off",
  });
  const send = el("button", { class: "button primary", type: "submit", "aria-label": "Send" }, "Send");
  form.replaceChildren(list, box, send);
  const suggestions = suggester(box, list, (callback_id) => act("shortcut", { user: where().user, callback_id }));
  const grow = () => {
    box.style.height = "auto";
    box.style.height = `${Math.min(box.scrollHeight + 2, 200)}px`;
  };
  box.addEventListener("input", () => {
    grow();
    suggestions.refresh();
  });
  box.addEventListener("keydown", (event) => {
    if (suggestions.key(event)) return;
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      form.requestSubmit();
    }
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const text = box.value.trim();
    if (!text) return;
    if (text.startsWith("/") && where().thread_ts) {
      toast("Slash commands cannot be used in threads.");
      return;
    }
    box.value = "";
    grow();
    suggestions.hide();
    const result = await say(text, where());
    if (!result.ok && !box.value) box.value = text;
  });
  const set = (text) => {
    box.value = text;
    box.focus();
    grow();
    suggestions.hide();
  };
  return { set, focus: () => box.focus(), rename: (words, as) => Object.assign(box, { placeholder: words, ariaLabel: words && `${words}${as}` }) };
}

// Sends the text as typed: the server completes @names and escapes, as Slack's client does.
function say(text, { user, channel, thread_ts }) {
  const command = /^(\/\S+)(?:\s+([\s\S]*))?$/.exec(text);
  if (!command) return act("say", { user, channel, text, ...(thread_ts ? { thread_ts } : {}) });
  const known = workspace.commands.find((each) => name(each) === command[1]);
  if (!known) {
    toast(`${command[1]} is not a command here.`);
    return { ok: false };
  }
  return act("command", { user, channel, command: command[1], text: command[2] ?? "" });
}

const name = (command) => (typeof command === "string" ? command : command.command);

function offers(text) {
  const slash = /^\/\S*$/.exec(text);
  if (slash) {
    const commands = workspace.commands.filter((each) => name(each).startsWith(slash[0])).map((each) => ({ insert: `${name(each)} `, title: name(each), note: [each.usage_hint, each.description].filter(Boolean).join(" · ") }));
    const typed = slash[0].slice(1).toLowerCase(); // shortcuts stand behind "/", too, and work in threads
    const shortcuts = workspace.shortcuts.filter((each) => each.type === "global" && each.name.toLowerCase().startsWith(typed)).map((each) => ({ shortcut: each.callback_id, insert: "", title: `⚡ ${each.name}`, note: each.description }));
    return [...commands, ...shortcuts];
  }
  const at = /(?:^|\s)@(\w*)$/.exec(text);
  if (!at) return [];
  const everybody = [{ name: workspace.bot.name, real_name: "app" }, ...people(), ...workspace.usergroups.map((each) => ({ name: each.handle, real_name: each.name }))];
  return everybody.filter((each) => each.name?.toLowerCase().startsWith(at[1].toLowerCase())).map((each) => ({ insert: `${text.slice(0, text.length - at[1].length)}${each.name} `, title: `@${each.name}`, note: each.real_name }));
}

function suggester(box, list, press) {
  let current = [];
  let at = 0;
  const hide = () => {
    current = [];
    list.hidden = true;
    box.removeAttribute("aria-activedescendant");
  };
  const take = (offer) => {
    box.value = offer.insert;
    hide();
    if (offer.shortcut) press(offer.shortcut);
    box.focus();
  };
  const draw = () => {
    list.hidden = !current.length;
    list.replaceChildren(...current.map((offer, index) => el("li", {
      role: "option", id: `${list.id}-${index}`, "aria-selected": String(index === at), onmousedown: (event) => {
        event.preventDefault();
        take(offer);
      },
    }, el("strong", {}, offer.title), " ", el("span", { class: "faint" }, offer.note))));
    if (current.length) box.setAttribute("aria-activedescendant", `${list.id}-${at}`);
  };
  box.addEventListener("blur", hide);
  return {
    hide,
    refresh() {
      current = offers(box.value.slice(0, box.selectionEnd)).slice(0, 8);
      at = 0;
      draw();
    },
    // True if the list handled the key.
    key(event) {
      if (!current.length) return false;
      const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (move) at = (at + move + current.length) % current.length;
      else if (event.key === "Tab" || (event.key === "Enter" && box.value.trim() !== current[at].insert.trim())) take(current[at]);
      else if (event.key === "Escape") hide();
      else return false;
      event.preventDefault();
      if (move) draw();
      return true;
    },
  };
}
