// Terms of the user by pair of languages, in the browser only: a glossary, what is not translated, and the chosen
// glossary of the service.

import { readStored, store } from "../common/stored.js";

const KEY = "terms";

const pairKey = ([source, target]) => `${source}-${target}`;

// The terms of a pair of languages, the first of which may be empty: { entries: [[source, target]], kept: [text], id }.
export function readTerms(pair) {
  const { entries = [], kept = [], id = "" } = readStored(KEY, {})[pairKey(pair)] ?? {};
  return { entries, kept, id };
}

export function storeTerms(pair, { entries, kept, id }) {
  const all = readStored(KEY, {});
  if (entries.length || kept.length || id) all[pairKey(pair)] = { entries, kept, id };
  else delete all[pairKey(pair)];
  store(KEY, Object.keys(all).length ? all : null);
}

// Give a pair of languages the terms made before its first language was known; returns all of the pair's terms, each once.
export function assignTerms(pair, unassigned) {
  const terms = readTerms(pair);
  if (!unassigned.entries.length && !unassigned.kept.length) return terms;
  const added = unassigned.entries.filter((entry) => !terms.entries.some((one) => one.join("\t") === entry.join("\t")));
  const joined = { ...terms, entries: [...terms.entries, ...added], kept: [...new Set([...terms.kept, ...unassigned.kept])] };
  storeTerms(pair, joined);
  storeTerms(["", pair[1]], readTerms([]));
  return joined;
}

// The fields of a request that has these terms.
export function termFields({ entries, kept, id }) {
  const whole = entries.filter(([source, target]) => source.trim() && target.trim());
  return {
    ...(whole.length && { glossary: whole.map(([source, target]) => ({ source, target })) }),
    ...(kept.length && { do_not_translate: kept }),
    ...(id && { glossary_id: id }),
  };
}
