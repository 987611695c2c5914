// DOM builders. Content enters only as text nodes, never as markup.

export function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "class") node.className = value;
    else if (name === "data") Object.assign(node.dataset, value);
    else if (name in node && !name.includes("-") && name !== "list") node[name] = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

// Changes children in place: an element replaced between press and release would lose the click.
export function update(parent, nodes) {
  nodes.forEach((fresh, index) => {
    const old = parent.childNodes[index];
    if (!old) parent.append(fresh);
    else if (old.nodeName !== fresh.nodeName) old.replaceWith(fresh);
    else if (old.isEqualNode(fresh)) return;
    else if (old.nodeType === Node.TEXT_NODE) old.data = fresh.data;
    else {
      for (const name of old.getAttributeNames()) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
      for (const { name, value } of fresh.attributes) {
        if (name === "style") old.style.cssText = value; // the page's policy forbids style attributes
        else if (old.getAttribute(name) !== value) old.setAttribute(name, value);
      }
      update(old, [...fresh.childNodes]);
    }
  });
  while (parent.childNodes.length > nodes.length) parent.lastChild.remove();
}

export const byId = (id) => document.getElementById(id);

export function toast(text, kind = "error") {
  const box = byId("toasts");
  const line = el("div", { class: `toast ${kind}` }, text, " ");
  line.append(el("button", { class: "quiet", type: "button", "aria-label": "Dismiss", onclick: () => line.remove() }, "✕"));
  box.append(line);
  raiseToasts();
  setTimeout(() => {
    line.remove();
    if (!box.childElementCount && box.matches(":popover-open")) box.hidePopover();
  }, 9000);
}

// Shown again to be above a dialog opened in the meantime.
function raiseToasts() {
  const box = byId("toasts");
  if (box.matches(":popover-open")) box.hidePopover();
  if (box.childElementCount) box.showPopover();
}

export function openDialog(dialog) {
  dialog.showModal();
  raiseToasts();
}

// Replaces only changed children, to preserve focus, open menus and scroll positions.
export function reconcile(parent, items, render) {
  const standing = new Map([...parent.children].map((node) => [node.dataset.key, node]));
  let previous = null;
  for (const item of items) {
    const print = JSON.stringify(item.content);
    let node = standing.get(item.key);
    if (!node || node.print !== print) {
      const fresh = render(item);
      fresh.dataset.key = item.key;
      fresh.print = print;
      node?.remove();
      node = fresh;
    }
    standing.delete(item.key);
    const place = previous ? previous.nextSibling : parent.firstChild;
    if (place !== node) parent.insertBefore(node, place);
    previous = node;
  }
  for (const node of standing.values()) node.remove();
}
