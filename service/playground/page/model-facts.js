// What is known of a model: in the footer its scores and what it was made of, below the input the size of its vocabulary.

import { byId, element } from "../common/elements.js";
import { identity } from "../common/models.js";

const SMALL_VOCABULARY = 10_000; // words

const round = (count) => {
  const unit = 10 ** Math.max(Math.floor(Math.log10(count)) - 1, 0);
  return (Math.round(count / unit) * unit).toLocaleString("en");
};

// One-line description of a model's vocabulary; `name` maps a language code to its name.
function vocabularyNote({ words, languages, dataset }, name) {
  const counted = Object.entries(words).filter(([source, count]) => count && source in languages);
  const parts = counted.map(([source, count]) => `${round(count)} ${name(languages[source])}`);
  if (!parts.length) return "";
  const small = counted.every(([, count]) => count < SMALL_VOCABULARY) ? "A small model" : "A model";
  return `${small}${dataset ? `, trained on the data set ${dataset}` : ""}: its vocabulary has about ${parts.join(" and ")} words.`;
}

// Show the facts of the model that answered, none if two did, or else of the first one selected.
export function drawModelFacts(answered, choices) {
  const one = answered ? choices.served.find((m) => identity(m) === identity(answered)) : (choices.fitting()[0] ?? choices.models[0]);
  const made = [one?.recipe, one?.dataset].filter(Boolean).join(" on ");
  const entries = Object.entries(one?.scores ?? {}).map(([name, { score, signature }]) =>
    element("span", { textContent: `${name.replaceAll("_", " ").replace("bleu", "BLEU").replace("rouge", "ROUGE")} ${score.toFixed(2)}`, title: signature ?? "" }),
  );
  if (made) entries.push(element("span", { textContent: made }));
  byId("scores").replaceChildren(...entries.flatMap((entry, i) => (i ? [" · ", entry] : [entry])));
  byId("vocabulary").textContent = one ? vocabularyNote(one, (code) => choices.name(code)) : "";
}
