// The page before anything is typed: what the model knows, and texts of its own data to try.

import { byId, element } from "./elements.js";

const SMALL = 10_000; // words that a small model knows fewer than

const round = (count) => {
  const unit = 10 ** Math.max(Math.floor(Math.log10(count)) - 1, 0);
  return (Math.round(count / unit) * unit).toLocaleString("en");
};

// What a model knows, in a line; `name` gives a language's name.
function knowledge({ words, languages, dataset }, name) {
  const known = Object.entries(words).filter(([source, count]) => count && source in languages);
  const parts = known.map(([source, count]) => `${round(count)} ${name(languages[source])}`);
  if (!parts.length) return "";
  const small = known.every(([, count]) => count < SMALL) ? "A small model" : "A model";
  return `${small}${dataset ? `, trained on the data set ${dataset}` : ""}: it knows about ${parts.join(" and ")} words.`;
}

// Offer a model's examples; `take` is called with the one that is chosen, its texts by source.
export function drawStart(model, name, take) {
  byId("knows").textContent = model ? knowledge(model, name) : "";
  const examples = model?.examples ?? [];
  byId("try").hidden = !examples.length;
  byId("examples").replaceChildren(
    ...examples.map((example) => {
      const [first] = Object.entries(example);
      const button = element("button", { type: "button", textContent: first[1], lang: model.languages[first[0]] ?? "", dir: "auto" });
      button.onclick = () => take(example);
      return element("li", {}, button);
    }),
  );
}
