// Block Kit blocks as DOM nodes. `surface` owns the interactive elements (see elements.js).

import { el } from "./dom.js";
import { element } from "./elements.js";
import { markdown } from "./markdown.js";
import { date, emoji, link, mention, place, textObject, unescape } from "./text.js";
import { groupName, handleOf } from "./workspace.js";

export function blocks(list, surface) {
  return list.map((block) => {
    const draw = BLOCKS[block.type];
    const node = draw ? draw(block, surface) : el("p", { class: "unknown" }, `[a block of type ${block.type}]`);
    node.dataset.block = block.block_id ?? "";
    return node;
  });
}

const BLOCKS = {
  header: (block) => el("h3", { class: "block header" }, textObject(block.text)),
  divider: () => el("hr", { class: "block" }),
  section: (block, surface) =>
    el(
      "div",
      { class: "block section" },
      el(
        "div",
        { class: "section-text" },
        block.text && el("div", {}, textObject(block.text)),
        block.fields && el("div", { class: "fields" }, block.fields.map((field) => el("div", {}, textObject(field)))),
      ),
      block.accessory && el("div", { class: "accessory" }, element(block, block.accessory, surface)),
    ),
  context: (block) =>
    el("div", { class: "block context" }, block.elements.map((part) => (part.type === "image" ? image(part, true) : el("span", {}, textObject(part))))),
  actions: (block, surface) => el("div", { class: "block actions" }, block.elements.map((each) => element(block, each, surface))),
  image: (block) => el("figure", { class: "block" }, block.title && el("figcaption", {}, textObject(block.title)), image(block)),
  rich_text: (block) => el("div", { class: "block rich" }, richText(block.elements)),
  markdown: (block) => el("div", { class: "block markdown" }, markdown(block.text)),
  table: (block) => el("div", { class: "block table" }, table(block)),
  input: (block, surface) => input(block, surface),
};

// Images are placeholders: the page loads no external resources.
function image(part, small = false) {
  return el("span", { class: small ? "image small" : "image", role: "img", "aria-label": part.alt_text || "image", title: part.image_url }, small ? "▧" : `▧ ${part.alt_text || "image"}`);
}

function input(block, surface) {
  const error = surface.errors?.[block.block_id];
  const id = `in-${block.block_id}-${block.element.action_id}`;
  const node = el("div", { class: error ? "block input wrong" : "block input" });
  const group = ["radio_buttons", "checkboxes"].includes(block.element.type);
  node.append(el(group ? "div" : "label", { class: "label", htmlFor: group ? undefined : id, id: `${id}-label` }, textObject(block.label), block.optional && el("span", { class: "optional" }, " (optional)")));
  const field = element(block, block.element, surface, { id, labelledBy: `${id}-label`, describedBy: `${id}-note` });
  node.append(field);
  const note = el("p", { id: `${id}-note`, class: error ? "error" : "hint", role: error ? "alert" : undefined }, error ?? textObject(block.hint));
  if (error || block.hint) node.append(note);
  return node;
}

function table(block) {
  const rows = (block.rows ?? []).map((row, index) =>
    el("tr", {}, row.map((cell, column) => {
      const align = block.column_settings?.[column]?.align;
      return el(index ? "td" : "th", { class: align ? `align-${align}` : undefined }, cell.type === "rich_text" ? richText(cell.elements) : unescape(cell.text ?? ""));
    })),
  );
  return el("table", {}, el("tbody", {}, rows));
}

function richText(elements) {
  const out = [];
  let lists = [];
  for (const part of elements ?? []) {
    if (part.type !== "rich_text_list") lists = [];
    if (part.type === "rich_text_list") nestedList(part, lists, out);
    else if (part.type === "rich_text_preformatted") out.push(el("pre", {}, leaves(part.elements)));
    else if (part.type === "rich_text_quote") out.push(el("blockquote", {}, leaves(part.elements)));
    else out.push(el("div", { class: "rich-section" }, leaves(part.elements)));
  }
  return out;
}

// Slack represents nested lists as a flat sequence of lists with indents.
function nestedList(part, lists, out) {
  const indent = part.indent ?? 0;
  const node = el(part.style === "ordered" ? "ol" : "ul", { start: part.offset ? part.offset + 1 : undefined });
  node.append(...part.elements.map((item) => el("li", {}, leaves(item.elements))));
  const parent = lists.slice(0, indent).reverse().find(Boolean);
  if (parent?.lastElementChild) parent.lastElementChild.append(node);
  else out.push(node);
  lists[indent] = node;
  lists.length = indent + 1;
}

const leaves = (elements) => (elements ?? []).map((leaf) => styled(leaf, (LEAVES[leaf.type] ?? LEAVES.unknown)(leaf)));

const LEAVES = {
  text: (leaf) => unescape(leaf.text),
  link: (leaf) => link(leaf.url, leaf.text && unescape(leaf.text)),
  user: (leaf) => mention("@" + handleOf(leaf.user_id), leaf.user_id),
  usergroup: (leaf) => mention("@" + groupName(leaf.usergroup_id), leaf.usergroup_id),
  channel: (leaf) => place(leaf.channel_id),
  broadcast: (leaf) => mention("@" + leaf.range, "!"),
  emoji: (leaf) => (leaf.unicode ? String.fromCodePoint(...leaf.unicode.split("-").map((code) => parseInt(code, 16))) : emoji(leaf.name)),
  date: (leaf) => date(leaf.timestamp, leaf.format, leaf.fallback, leaf.url),
  color: (leaf) => leaf.value,
  unknown: (leaf) => `[${leaf.type}]`,
};

function styled(leaf, content) {
  const tags = { bold: "strong", italic: "em", strike: "s", code: "code", underline: "u" };
  const wanted = Object.entries(tags).filter(([style]) => leaf.style?.[style]);
  return wanted.reduce((inner, [, tag]) => el(tag, {}, inner), content instanceof Node ? content : el("span", {}, content));
}
