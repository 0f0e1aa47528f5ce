// The list of texts translated before. A click shows one again.

import { byId, element } from "../common/elements.js";
import { addToHistory, clearHistory, historyOn, readHistory, turnHistory } from "./history-store.js";

const SETTLED = 1500; // milliseconds that an answer is shown before it is kept

export class HistoryPanel {
  // `onSelect` is called with the entry that is selected.
  constructor(onSelect) {
    this.onSelect = onSelect;
    [this.list, this.empty, this.on, this.clearButton] = ["past", "no-past", "keep-history", "clear-history"].map(byId);
    this.on.checked = historyOn();
    this.on.onchange = () => {
      turnHistory(this.on.checked);
      this.draw();
    };
    this.clearButton.onclick = () => {
      clearHistory();
      this.draw();
      this.on.focus();
    };
    addEventListener("pagehide", () => this.keep());
    this.draw();
  }

  // Keep an entry once it has been shown for a while: not each text while one types.
  add(entry) {
    this.drop();
    this.waiting = { entry, timer: setTimeout(() => this.keep(), SETTLED) };
  }

  // Keep the entry that waits, now.
  keep() {
    if (!this.waiting) return;
    addToHistory(this.waiting.entry);
    this.drop();
    this.draw();
  }

  drop() {
    clearTimeout(this.waiting?.timer);
    this.waiting = null;
  }

  draw() {
    const entries = readHistory();
    this.list.replaceChildren(...entries.map((entry) => element("li", {}, this.button(entry))));
    this.list.hidden = this.clearButton.hidden = !entries.length;
    this.empty.hidden = entries.length > 0;
    this.empty.textContent = historyOn() ? "Nothing yet." : "No history is kept.";
  }

  button(entry) {
    const [from, into] = entry.languages ?? [];
    const line = (textContent, lang, className) => element("span", { textContent, lang: lang ?? "", dir: "auto", className });
    const when = new Date(entry.time).toLocaleString("en", { dateStyle: "medium", timeStyle: "short" });
    const button = element("button", { type: "button" }, line(entry.mt || entry.q, entry.mt ? into : from, "from"), line(entry.text, into, "into"), element("small", { textContent: [entry.names, when].filter(Boolean).join(" · ") }));
    button.onclick = () => this.onSelect(entry);
    return button;
  }
}
