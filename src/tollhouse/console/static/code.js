// Highlighting of short programs: shell, Python, JavaScript and JSON.
import { el } from "./dom.js";

const STRING = /"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`(?:\\.|[^`\\])*`/;
const NUMBER = /\b\d+(?:\.\d+)?\b/;
const words = (text) => new RegExp(`\\b(?:${text.replaceAll(" ", "|")})\\b`);
const RULES = {
  sh: [["comment", /#[^\n]*/], ["string", STRING], ["name", /\s-{1,2}[A-Za-z][\w-]*/], ["keyword", words("curl export")]],
  python: [["comment", /#[^\n]*/], ["string", STRING], ["keyword", words("import from as for in if else def return print None True False await async with")], ["number", NUMBER]],
  js: [["comment", /\/\/[^\n]*/], ["string", STRING], ["keyword", words("const let await async if else throw new return import from for of null true false")], ["number", NUMBER]],
  json: [["name", /"(?:\\.|[^"\\])*"(?=\s*:)/], ["string", STRING], ["keyword", words("true false null")], ["number", /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/]],
};

/** The text as nodes, its strings, numbers, names, keywords and comments in spans with the class `tok-…`. */
export function highlight(text, language) {
  const rules = RULES[language];
  if (!rules) return [text];
  const either = new RegExp(rules.map(([, rule]) => `(${rule.source})`).join("|"), "g");
  const nodes = [];
  let done = 0;
  for (const match of text.matchAll(either)) {
    const rule = match.slice(1).findIndex((group) => group !== undefined);
    nodes.push(text.slice(done, match.index), el("span", { class: `tok-${rules[rule][0]}` }, match[0]));
    done = match.index + match[0].length;
  }
  return [...nodes, text.slice(done)];
}
