// Texts translated before, in the browser only: the newest first, the last 50.

import { readStored, store } from "../common/stored.js";

const KEY = "history";
const OFF = "history-off";
const MOST = 50;

export const historyOn = () => !readStored(OFF, false);
export function readHistory() {
  const entries = readStored(KEY, []);
  return Array.isArray(entries) ? entries : [];
}
export const clearHistory = () => store(KEY, null);

// Keep a history or not; without one, nothing stays.
export function turnHistory(on) {
  store(OFF, on ? null : true);
  if (!on) clearHistory();
}

// Add an entry: { task, q, mt, source, target, model, text, names, time }. It replaces an equal one, and the last one if
// that was a beginning of its text.
export function addToHistory(entry) {
  if (!historyOn()) return;
  const same = (one) => ["task", "source", "target"].every((name) => one[name] === entry[name]);
  const grown = (one) => same(one) && !entry.mt && !one.mt && entry.q.startsWith(one.q);
  const others = readHistory().filter((one, i) => !(same(one) && one.q === entry.q && one.mt === entry.mt) && !(i === 0 && grown(one)));
  store(KEY, [entry, ...others].slice(0, MOST));
}
