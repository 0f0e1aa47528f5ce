// The attention matrices of an explanation that can be displayed, each as a view with its own words.

import { SOURCES } from "./source-weights.js";

const BOTH = "both"; // the view of the links of both directions
const TITLES = {
  attention: "Attention",
  word_attention: "Word attention",
  gated: "Gated",
  posterior: "Origin",
  uam: "UAM",
  next_attention: "Next step",
  next_word_attention: "Word attention, next step",
  next_gated: "Gated, next step",
  [BOTH]: "Both directions",
};

// Those of the only source, or of each source: { name: { name, kind, title, explanation } }.
export function viewsOf(explanation) {
  const { target, sources: several, gate, confidence, doubts, sentences, links } = explanation;
  const texts = several ?? { "": { words: explanation.source, matrices: explanation.matrices } };
  const first = Object.keys(texts).find((name) => texts[name].words); // the text whose words may be doubtful
  const own = (title, source, weights, name = first) => {
    const about = doubts?.filter(({ side }) => side === "target" || name === first);
    return { title, explanation: { source, target, gate, confidence, doubts: about, weights, sentences } };
  };
  const kinds = Object.entries(texts).flatMap(([name, { words, matrices }]) =>
    !words ? [] : Object.entries(matrices).map(([kind, weights]) => {
      const title = [name && (SOURCES[name] ?? name), (!name || Object.keys(matrices).length > 1) && (TITLES[kind] ?? kind)];
      return [name + kind, { name, kind, ...own(title.filter(Boolean).join(", "), words, weights, name) }];
    }),
  );
  if (links) kinds.unshift([BOTH, { name: "", kind: BOTH, ...own(TITLES[BOTH], explanation.source, linkWeights(explanation)) }]);
  return Object.fromEntries(kinds);
}

// A matrix of the weights of the links of both directions, 0 where there is no link.
function linkWeights({ source, target, links }) {
  const weights = target.map(() => source.map(() => 0));
  for (const link of links) weights[link.target][link.source] = link.symmetrized_weight;
  return weights;
}

// The name of the view to show: the selected one if the explanation has it, else, of the source with most attention, the one
// with the links of its alignment.
export function chooseView(views, { links, aligned_by: alignedBy, between }, selected) {
  if (selected in views) return selected;
  if (links) return BOTH;
  const sum = (weights) => weights.reduce((total, weight) => total + weight, 0);
  // Where sources do not share a weight of 1, each word's largest weight counts: a flat matrix says nothing.
  const attention = (name) => sum(between?.[name] ?? views[`${name}attention`].explanation.weights.map((row) => Math.max(0, ...row)));
  const [...names] = new Set(Object.values(views).map(({ name }) => name));
  const first = names.length > 1 ? names.reduce((best, name) => (attention(name) > attention(best) ? name : best)) : names[0];
  const own = Object.keys(views).filter((view) => views[view].name === first);
  return own.find((view) => views[view].kind === alignedBy) ?? own[0];
}
