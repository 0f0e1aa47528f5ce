// What else the model would have written, best first: where it differs, how probable it is, and a click that takes it.

import { compare } from "./differences.js";
import { byId, element } from "./elements.js";

const AROUND = 3; // words that are shown before a difference, and after it

// What a score says, by what the search divides log-probabilities by; without one there is no percentage.
const MEANINGS = {
  average: "The percentage is the mean probability that the model gives to each piece of the text.",
  none: "The percentage is the probability that the model gives to the whole text.",
};

// A text beside the one that is shown, only around what differs: words that only it has are marked, and words that it has
// nothing in the place of are struck through.
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
  const near = (place) => words.slice(Math.max(place - AROUND, 0), place + AROUND + 1).some((word) => typeof word !== "string");
  const parts = [];
  words.forEach((word, place) => {
    if (near(place)) parts.push(...(parts.length ? [" "] : []), word);
    else if (!parts.at(-1)?.endsWith?.("…")) parts.push(parts.length ? "\u00a0…" : "…");
  });
  return parts;
}

// `texts` with their `scores`, of which the one at `taken` is shown; `take` is called with the place of another.
export function drawAlternatives({ texts, scores, taken, penalty, language }, take) {
  const percent = penalty in MEANINGS;
  const number = (i) => (percent ? `${(100 * Math.exp(scores[i])).toFixed(0)} %` : scores[i].toFixed(2));
  const items = texts.flatMap((text, i) => {
    if (i === taken) return [];
    const said = element("span", { dir: "auto", lang: language }, ...excerpt(text, texts[taken]));
    const button = element("button", { type: "button", title: text }, said);
    button.setAttribute("aria-label", `Take over: ${text}`);
    button.onclick = () => take(i);
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
  const meaning = percent ? MEANINGS[penalty] : "The number is the score that the search ranks by: higher is better.";
  byId("odds").textContent = scores ? `${meaning} What is shown above has ${number(taken)}.` : "";
}
