// Doubtful words of an explanation, and the reasons in words.

import { shorten } from "../common/elements.js";

const REASONS = {
  low_probability: () => "perhaps wrong: the model found it improbable",
  untranslated: () => "perhaps left out: no word of the translation goes with it",
  unseen: () => "the model has never seen this word",
  repeated: ({ earlier }, { target }) => `perhaps said twice: “${shorten(target[earlier].text)}” stands before, for the same word`,
};

// The reasons for doubt about the words of a side ("source", "target"): a text for each doubtful word, by index.
export function doubtfulWords(explanation, side) {
  const texts = new Map();
  for (const doubt of explanation.doubts ?? [])
    if (doubt.side === side && doubt.reason in REASONS)
      texts.set(doubt.word, [texts.get(doubt.word), REASONS[doubt.reason](doubt, explanation)].filter(Boolean).join("; "));
  return texts;
}

// Mark a word as doubtful if there is a reason, which its tooltip says after what it says already.
export function markDoubtful(node, reason) {
  if (!reason) return;
  node.classList.add("doubtful");
  node.title = [node.title, reason].filter(Boolean).join(", ");
}

// The doubts about one sentence's words, counted from its first source and target word.
export function doubtsWithin(doubts, [s, t], sources, targets) {
  return doubts
    ?.map((doubt) => ({ ...doubt, word: doubt.word - (doubt.side === "source" ? s : t), ...("earlier" in doubt && { earlier: doubt.earlier - t }) }))
    .filter(({ side, word }) => word >= 0 && word < (side === "source" ? sources : targets));
}
