// Start page: describes the model and offers example texts from its data.

import { byId, element } from "./elements.js";

const SMALL = 10_000; // a model with fewer words counts as small

const round = (count) => {
  const unit = 10 ** Math.max(Math.floor(Math.log10(count)) - 1, 0);
  return (Math.round(count / unit) * unit).toLocaleString("en");
};

// One-line description of a model's vocabulary; `name` maps a language code to its name.
function knowledge({ words, languages, dataset }, name) {
  const known = Object.entries(words).filter(([source, count]) => count && source in languages);
  const parts = known.map(([source, count]) => `${round(count)} ${name(languages[source])}`);
  if (!parts.length) return "";
  const small = known.every(([, count]) => count < SMALL) ? "A small model" : "A model";
  return `${small}${dataset ? `, trained on the data set ${dataset}` : ""}: it knows about ${parts.join(" and ")} words.`;
}

// Offer a model's examples; `take` is called with the chosen one, as texts by source.
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
