// The evaluation scores of a model in the footer.

import { byId, element } from "../common/elements.js";
import { identity } from "../common/models.js";

// Show those of the model that answered, none if two did, or else of the first one selected.
export function drawScores(answered, choices) {
  const one = answered ? choices.served.find((m) => identity(m) === identity(answered)) : choices.models[0];
  const made = [one?.recipe, one?.dataset].filter(Boolean).join(" on ");
  const entries = Object.entries(one?.scores ?? {}).map(([name, { score, signature }]) =>
    element("span", { textContent: `${name.replaceAll("_", " ").replace("bleu", "BLEU").replace("rouge", "ROUGE")} ${score.toFixed(1)}`, title: signature ?? "" }),
  );
  if (made) entries.push(element("span", { textContent: made }));
  byId("scores").replaceChildren(...entries.flatMap((entry, i) => (i ? [" · ", entry] : [entry])));
}
