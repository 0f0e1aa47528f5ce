// List of the model's alternative outputs, best first, with differences and probabilities; a click selects one.

import { compare } from "../common/differences.js";
import { byId, element } from "../common/elements.js";

const CONTEXT = 3; // words shown before and after a difference

// Explanation of the score, by length penalty; with other penalties no percentage is shown.
const SCORE_NOTES = {
  average: "The percentage is the mean probability that the model gives to each piece of the text.",
  none: "The percentage is the probability that the model gives to the whole text.",
};

// The differences of a text from the selected one, with some words around them: words that only this text has are
// marked, and words of the selected text without a replacement are struck through.
function excerpt(text, shown) {
  const [own, others] = compare(text, shown).map((pieces) => pieces.filter(({ text: piece }) => piece.trim()));
  const words = [];
  for (let i = 0, j = 0; i < own.length || j < others.length; ) {
    const [from, omitted] = [i, []];
    while (own[i]?.differs) words.push(element("mark", { textContent: own[i++].text }));
    while (others[j]?.differs) omitted.push(others[j++].text);
    if (omitted.length && i === from) words.push(element("del", { textContent: omitted.join(" ") }));
    if (i < own.length) words.push(own[i++].text);
    j++;
  }
  const near = (place) => words.slice(Math.max(place - CONTEXT, 0), place + CONTEXT + 1).some((word) => typeof word !== "string");
  const parts = [];
  words.forEach((word, place) => {
    if (near(place)) parts.push(...(parts.length ? [" "] : []), word);
    else if (!parts.at(-1)?.endsWith?.("…")) parts.push(parts.length ? "\u00a0…" : "…");
  });
  return parts;
}

// Draw `texts` with their `scores`; `selected` is the index of the one shown. `onSelect` is called with a new index.
export function drawAlternatives({ texts, scores, selected, penalty, language }, onSelect) {
  const percent = penalty in SCORE_NOTES;
  const number = (i) => (percent ? `${(100 * Math.exp(scores[i])).toFixed(0)} %` : scores[i].toFixed(2));
  const items = texts.flatMap((text, i) => {
    if (i === selected) return [];
    const content = element("span", { dir: "auto", lang: language }, ...excerpt(text, texts[selected]));
    const button = element("button", { type: "button", title: text }, content);
    button.setAttribute("aria-label", `Select: ${text}`);
    button.onclick = () => onSelect(i);
    if (scores) {
      const bar = element("i");
      bar.style.width = `${(100 * Math.min(Math.exp(scores[i]), 1)).toFixed(1)}%`;
      const first = i === 0 ? "first choice " : "";
      button.append(element("small", { dir: "ltr" }, element("span", { className: "meter" }, bar), `${first}${number(i)}`));
    }
    return [element("li", {}, button)];
  });
  byId("others").hidden = !items.length;
  byId("alternatives").replaceChildren(...items);
  const note = percent ? SCORE_NOTES[penalty] : "The number is the score that the search ranks by; higher is better.";
  byId("score-note").textContent = scores ? `${note} The answer shown has ${number(selected)}.` : "";
}
