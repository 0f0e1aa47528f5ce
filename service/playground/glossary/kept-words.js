// What is not translated: a list in the glossary, and below the text the part of it that the text has.

import { byId, element } from "../common/elements.js";
import { occurrences } from "../common/words.js";

const MAX_CHARACTERS = 200;

export class KeptWords {
  // `onChange` is called with the whole list.
  constructor(onChange) {
    Object.assign(this, { onChange, words: [], text: "" });
    [this.list, this.field, this.inText] = ["kept-words", "keep-word", "kept-in-text"].map(byId);
    this.field.maxLength = MAX_CHARACTERS;
    this.field.addEventListener("keydown", (event) => {
      const word = this.field.value.trim();
      if (event.key !== "Enter" || !word) return;
      event.preventDefault();
      this.field.value = "";
      this.add(word);
    });
  }

  show(words) {
    this.words = words;
    this.draw();
  }

  // Show which of the words a text has.
  showText(text) {
    this.text = text;
    this.draw();
  }

  draw() {
    this.list.replaceChildren(...this.words.map((word) => this.item(word)));
    const found = this.words.filter((word) => occurrences(this.text, word).length);
    this.inText.hidden = !found.length;
    this.inText.replaceChildren(element("li", { className: "how", textContent: "Not translated:" }), ...found.map((word) => this.item(word)));
  }

  item(word) {
    const remove = element("button", { type: "button", textContent: "×", ariaLabel: `Translate ${word} again` });
    const item = element("li", { className: "chip" }, element("bdi", { textContent: word }), remove);
    remove.onclick = () => this.remove(word, item.parentElement);
    return item;
  }

  add(word) {
    if (this.words.includes(word)) return;
    this.show([...this.words, word]);
    this.onChange(this.words);
  }

  remove(word, list) {
    this.show(this.words.filter((other) => other !== word));
    this.onChange(this.words);
    (list.querySelector("button") ?? (list === this.list ? this.field : byId("text"))).focus();
  }
}
