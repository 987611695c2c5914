// The standard Markdown of a `markdown` block: headings, lists, quotes, code, inline styles, links; no tables.

import { el } from "./dom.js";
import { link } from "./text.js";

export function markdown(text) {
  const out = [];
  const rows = String(text ?? "").split("\n");
  while (rows.length) {
    const row = rows.shift();
    const heading = /^(#{1,6})\s+(.*)$/.exec(row);
    if (/^```/.test(row)) out.push(el("pre", {}, until(rows, (each) => /^```/.test(each)).join("\n")));
    else if (heading) out.push(el(`h${Math.min(6, heading[1].length + 2)}`, {}, inline(heading[2])));
    else if (/^(?:---+|\*\*\*+)\s*$/.test(row)) out.push(el("hr"));
    else if (/^>\s?/.test(row)) out.push(el("blockquote", {}, broken(run(row, rows, /^>\s?/))));
    else if (/^[-*+]\s+/.test(row)) out.push(el("ul", {}, run(row, rows, /^[-*+]\s+/).map((each) => el("li", {}, inline(each)))));
    else if (/^\d+[.)]\s+/.test(row)) out.push(el("ol", {}, run(row, rows, /^\d+[.)]\s+/).map((each) => el("li", {}, inline(each)))));
    else if (row.trim()) out.push(el("p", {}, broken(run(row, rows, /^(?![#>`]|[-*+]\s|\d+[.)]\s|\s*$)/))));
  }
  return out;
}

function until(rows, end) {
  const taken = [];
  while (rows.length) {
    const row = rows.shift();
    if (end(row)) break;
    taken.push(row);
  }
  return taken;
}

// This row and the following rows with the same prefix, without the prefix.
function run(first, rows, lead) {
  const taken = [first];
  while (rows.length && lead.test(rows[0])) taken.push(rows.shift());
  return taken.map((row) => row.replace(lead, ""));
}

const broken = (rows) => rows.flatMap((row, index) => (index ? [el("br"), ...inline(row)] : inline(row)));

const TOKEN = /`([^`]+)`|\*\*([^*]+)\*\*|(?<![\w*])[*_]([^*_]+)[*_](?!\w)|~~([^~]+)~~|\[([^\]]+)\]\(([^)\s]+)\)|(https?:\/\/[^\s<>)]+)|\\([\\`*_{}[\]()#+.!~>|-])/g;

function inline(text) {
  const out = [];
  let last = 0;
  for (const match of text.matchAll(TOKEN)) {
    out.push(text.slice(last, match.index));
    last = match.index + match[0].length;
    const [, code, bold, italic, strike, label, href, url, escaped] = match;
    if (code) out.push(el("code", {}, code));
    else if (bold) out.push(el("strong", {}, inline(bold)));
    else if (italic) out.push(el("em", {}, inline(italic)));
    else if (strike) out.push(el("s", {}, inline(strike)));
    else if (href) out.push(link(href, label));
    else if (url) out.push(link(url));
    else out.push(escaped);
  }
  out.push(text.slice(last));
  return out;
}
