// Enhancements of the inbox, which works without this file. Page text is never parsed as HTML here.
"use strict";

(() => {
  const each = (selector, act) => document.querySelectorAll(selector).forEach(act);

  // ------------------------------------------------------------ relative times
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

  // ------------------------------------------------------------ live updates
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
      // A response that is no stream closes it permanently; a later attempt may reach a running server.
      if (stream && stream.readyState === EventSource.CLOSED) {
        stream = null;
        setTimeout(listen, 5000);
      }
    });
  };
  // Browsers allow six connections per server, so hidden pages hold none.
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
  // Keep a form that is about to be submitted.
  document.body.addEventListener("htmx:beforeSwap", (event) => {
    if (event.detail.xhr.status !== 200) event.detail.shouldSwap = false;
  });

  // Preserve text being typed when the forms change: in the new form, otherwise below it.
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
        said.textContent = "You wrote this, but did not send it:";
        const words = document.createElement("blockquote");
        words.textContent = value;
        decide.append(said, words);
      }
    }
  });

  // Ticked rows stay ticked when the lists change.
  const ticks = () => [...document.querySelectorAll(".choose input")];
  let ticked = [];
  document.body.addEventListener("htmx:beforeSwap", () => {
    ticked = ticks().filter((box) => box.checked).map((box) => box.value);
  });
  document.body.addEventListener("htmx:afterSwap", () => {
    for (const box of ticks()) box.checked = ticked.includes(box.value);
  });

  // Rows may move up under the pointer, so their buttons are disabled briefly to prevent wrong clicks.
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
  const onward = () => {
    const next = document.querySelector("#decide [rel=next]");
    if (next) location.assign(next.href);
  };
  const act = {
    j: () => (rows().length ? move(1) : onward()),
    n: () => onward(),
    k: () => move(-1),
    a: () => reach("approve"),
    r: () => reach("reject"),
    e: () => reach("edit"),
    u: () => location.assign(document.querySelector(".crumb a")?.href ?? "/inbox"),
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
  // Navigating to a fragment moves the focus, in some browsers only after everything has loaded.
  const land = (id) => {
    const target = document.getElementById(id);
    if (!target?.matches("#next, .row .open")) return reach(id);
    target.focus();
    (target.closest(".row") || target).scrollIntoView({ block: "nearest" });
  };
  const arrive = () => requestAnimationFrame(() => setTimeout(() => land(location.hash.slice(1))));
  if (/^#(approve|reject|edit|next|row-[0-9a-f-]+)$/.test(location.hash)) {
    if (document.readyState === "complete") arrive();
    else addEventListener("load", arrive);
  }

  tick();
  announce();
})();
