// Marks behind the text: a layer with the same letters, transparent, in which what is not translated and the terms of
// the glossary are underlined. A button does not translate what is selected.

import { byId, element } from "../common/elements.js";
import { occurrences, wholeWords } from "../common/words.js";

export class MarkedText {
  // `onKeep` is called with a selected part of the text that is not to be translated.
  constructor(text, onKeep) {
    Object.assign(this, { text, kept: [], terms: [], enabled: false });
    [this.layer, this.button] = ["marks", "keep"].map(byId);
    document.addEventListener("selectionchange", () => this.offer());
    text.addEventListener("select", () => this.offer());
    this.button.onclick = () => {
      onKeep(this.selected);
      text.setSelectionRange(text.selectionEnd, text.selectionEnd);
      text.focus();
      this.offer();
    };
  }

  // The selected words of the text.
  get selected() {
    const { value, selectionStart, selectionEnd, lang } = this.text;
    return selectionStart === selectionEnd ? "" : wholeWords(value, selectionStart, selectionEnd, lang);
  }

  offer() {
    if (document.activeElement === this.button) return;
    const { selected } = this;
    this.button.hidden = !this.enabled || !selected || selected.includes("\n");
    this.button.title = selected && `Keep “${selected}” as it is`;
  }

  // Mark the words that are kept, and terms as [start, end) in code points of the text.
  show(kept, terms) {
    const { value } = this.text;
    const characters = [...value];
    const length = (count) => characters.slice(0, count).join("").length; // in UTF-16 code units
    const ranges = [...kept.flatMap((word) => occurrences(value, word)), ...terms.map(([start, end]) => [length(start), length(end)])];
    ranges.sort((a, b) => a[0] - b[0]);
    const parts = [];
    let at = 0;
    for (const [start, end] of ranges) {
      if (start < at) continue;
      parts.push(value.slice(at, start), element("mark", { textContent: value.slice(start, end) }));
      at = end;
    }
    this.layer.replaceChildren(...parts, value.slice(at));
  }
}
