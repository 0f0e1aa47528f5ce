// Start page: the size of the model's vocabulary and example texts from its data.

import { byId, element } from "../common/elements.js";

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

// Offer a model's examples; `onSelect` is called with the selected one, as texts by source.
export function drawStart(model, name, onSelect) {
  byId("vocabulary").textContent = model ? vocabularyNote(model, name) : "";
  const examples = model?.examples ?? [];
  byId("try").hidden = !examples.length;
  byId("examples").replaceChildren(
    ...examples.map((example) => {
      const [first] = Object.entries(example);
      const button = element("button", { type: "button", textContent: first[1], lang: model.languages[first[0]] ?? "", dir: "auto" });
      button.onclick = () => onSelect(example);
      return element("li", {}, button);
    }),
  );
}
