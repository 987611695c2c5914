// Comforts of the inbox; without this file everything still works. No text of a page is ever taken for HTML here.
"use strict";

(() => {
  const each = (selector, act) => document.querySelectorAll(selector).forEach(act);

  // ------------------------------------------------------------ times, kept true
  const rough = (seconds) => {
    const hours = Math.floor(seconds / 3600);
    const minutes = Math.floor((seconds % 3600) / 60);
    if (seconds < 60) return `${Math.floor(seconds)} s`;
    if (hours < 1) return `${minutes} min`;
    if (hours < 48) return hours < 10 && minutes ? `${hours} h ${minutes} min` : `${hours} h`;
    return `${Math.floor(hours / 24)} days`;
  };
  const say = (element, words) => {
    if (element.textContent !== words) element.textContent = words;
  };
  const local = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
  const tick = () => {
    const now = Date.now();
    each("time[data-ago]", (time) => {
      const seconds = (now - Date.parse(time.dateTime)) / 1000;
      say(time, seconds < 60 ? "just now" : `${rough(seconds)} ago`);
    });
    each("time[data-left]", (time) => {
      const seconds = (Date.parse(time.dateTime) - now) / 1000;
      say(time, seconds <= 0 ? "overdue" : `in ${rough(seconds)}`);
    });
    each("time[data-moment]", (time) => say(time, local.format(new Date(time.dateTime))));
  };
  setInterval(tick, 1000);

  // ------------------------------------------------------------ what has changed
  const title = document.title;
  const count = () => document.querySelector("[data-waiting]")?.dataset.waiting;
  let told = count();
  const announce = () => {
    const now = count();
    if (now === undefined) return;
    document.title = now === "0" ? title : `(${now}) ${title}`;
    if (now !== told) {
      told = now;
      say(document.getElementById("news"), now === "0" ? "Nothing waits for you." : `Waiting for you: ${now}.`);
    }
  };
  let stream = null;
  const listen = () => {
    if (stream || document.hidden) return;
    stream = new EventSource("/inbox/events");
    stream.addEventListener("changed", () => htmx.trigger(document.body, "changed"));
    stream.addEventListener("error", () => {
      // Closed for good by an answer that is no stream; the next try may meet a server that is back.
      if (stream && stream.readyState === EventSource.CLOSED) {
        stream = null;
        setTimeout(listen, 5000);
      }
    });
  };
  // A browser opens six connections to a server at most: pages that nobody sees hold none.
  const attend = () => {
    if (!document.hidden) return listen();
    stream?.close();
    stream = null;
  };
  if (document.body.hasAttribute("data-live")) {
    document.addEventListener("visibilitychange", attend);
    addEventListener("pagehide", () => { stream?.close(); stream = null; });
    addEventListener("pageshow", listen);
    listen();
  }
  document.body.addEventListener("htmx:afterSettle", () => { tick(); announce(); });
  // A form of the part that is replaced is about to be sent: it stays.
  document.body.addEventListener("htmx:beforeSwap", (event) => {
    if (event.detail.xhr.status !== 200) event.detail.shouldSwap = false;
  });

  // What somebody is typing when the forms change under their hands stays: in the new form, else below it.
  let typed = [];
  document.body.addEventListener("htmx:oobBeforeSwap", (event) => {
    if (event.detail.target?.id !== "decide") return;
    typed = [...event.detail.target.querySelectorAll("textarea")]
      .filter((area) => ["comment", "own"].includes(area.name) && area.value.trim())
      .map((area) => ({ name: area.name, value: area.value, active: area === document.activeElement }));
  });
  document.body.addEventListener("htmx:oobAfterSwap", () => {
    const decide = document.getElementById("decide");
    for (const { name, value, active } of typed.splice(0)) {
      const area = decide?.querySelector(`textarea[name="${name}"]`);
      if (area) {
        area.value = value;
        area.closest("details")?.setAttribute("open", "");
        if (active) area.focus();
      } else if (decide) {
        const said = document.createElement("p");
        said.className = "soft";
        said.textContent = "You had written, and not sent:";
        const words = document.createElement("blockquote");
        words.textContent = value;
        decide.append(said, words);
      }
    }
  });

  // Rows that move up under the pointer must not be pressed in place of those that went: their buttons wait a moment.
  const order = () => [...document.querySelectorAll(".act button, .act a")].map((each) => each.id);
  let before = order();
  document.body.addEventListener("htmx:afterSwap", () => {
    const now = order();
    const moved = before.some((id, at) => now[at] !== id);
    before = now;
    if (!moved) return;
    const lists = document.getElementById("lists");
    lists?.classList.add("settling");
    setTimeout(() => lists?.classList.remove("settling"), 800);
  });

  // ------------------------------------------------------------ keyboard
  const keys = document.getElementById("keys");
  const help = document.getElementById("show-keys");
  if (help && keys) {
    help.hidden = false;
    help.addEventListener("click", () => keys.showModal());
  }
  const rows = () => [...document.querySelectorAll(".row .open")];
  const move = (by) => {
    const all = rows();
    if (!all.length) return;
    const at = all.indexOf(document.activeElement);
    const next = at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, at + by));
    all[next].focus();
    all[next].closest(".row").scrollIntoView({ block: "nearest" });
  };
  const reach = (id) => {
    const here = document.getElementById(id);
    if (here) {
      here.closest("details")?.setAttribute("open", "");
      (here.querySelector("input:not([type=hidden]), textarea, select, button, summary") || here).focus();
      here.scrollIntoView({ block: "nearest" });
    } else if (document.activeElement?.matches(".row .open")) {
      location.assign(`${document.activeElement.href}#${id}`);
    }
  };
  const act = {
    j: () => move(1),
    k: () => move(-1),
    a: () => reach("approve"),
    r: () => reach("reject"),
    e: () => reach("edit"),
    u: () => location.assign("/inbox"),
    "/": () => document.getElementById("search") ? document.getElementById("search").focus() : location.assign("/inbox/history"),
    "?": () => keys?.showModal(),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || keys?.open) return;
    const typing = event.target.closest("input:not([type=checkbox]):not([type=radio]), textarea, select");
    if (typing) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (Object.hasOwn(act, event.key)) {
      event.preventDefault();
      act[event.key]();
    }
  });
  // Going to a fragment takes the focus away, and browsers do that as late as when all has been loaded.
  const arrive = () => requestAnimationFrame(() => setTimeout(() => reach(location.hash.slice(1))));
  if (["#approve", "#reject", "#edit"].includes(location.hash)) {
    if (document.readyState === "complete") arrive();
    else addEventListener("load", arrive);
  }

  tick();
  announce();
})();
