// An answer as interactive words: hovering over or focusing a word reports its index.

import { markDoubtful } from "./doubtful-words.js";
import { element, hovers } from "./elements.js";

export class AnswerWords {
  // `onPoint` is called with the index of the hovered or focused word, without arguments if there is none.
  constructor(container, onPoint) {
    this.container = container;
    this.onPoint = onPoint;
    this.nodes = [];
  }

  // Show pieces of text, [{ text, differs }]; `spans` are the character ranges of the words in the whole text, `doubtful`
  // the reasons for doubt by a word's index.
  show(pieces, spans = [], doubtful = new Map()) {
    this.nodes = [];
    let position = 0; // in code points, as in `spans`: a character outside the basic plane counts as one
    const children = pieces.map(({ text, differs }) => {
      const characters = [...text];
      const inside = this.split(characters, position, spans);
      position += characters.length;
      return differs ? element("mark", {}, ...inside) : inside;
    });
    this.nodes.forEach((node, index) => markDoubtful(node, doubtful.get(index)));
    this.container.replaceChildren(...children.flat());
    if (this.nodes.length) this.nodes[0].tabIndex = 0;
  }

  // One piece as words and the text between them.
  split(characters, start, spans) {
    const parts = [];
    let at = 0;
    while (this.nodes.length < spans.length && spans[this.nodes.length].end <= start + characters.length) {
      const { start: first, end } = spans[this.nodes.length];
      if (first - start > at) parts.push(characters.slice(at, first - start).join(""));
      parts.push(this.word(characters.slice(Math.max(first - start, at), end - start).join("")));
      at = end - start;
    }
    if (at < characters.length) parts.push(characters.slice(at).join(""));
    return parts;
  }

  word(text) {
    const index = this.nodes.length;
    const node = element("span", { className: "answer-word", textContent: text, tabIndex: -1 });
    node.addEventListener("pointerenter", () => this.onPoint(index));
    node.addEventListener("pointerleave", (event) => hovers(event) && this.onPoint());
    node.addEventListener("focus", () => {
      for (const other of this.nodes) other.tabIndex = other === node ? 0 : -1;
      this.onPoint(index);
    });
    node.addEventListener("blur", () => this.onPoint());
    node.addEventListener("keydown", (event) => {
      const next = { ArrowRight: index + 1, ArrowLeft: index - 1, Home: 0, End: this.nodes.length - 1 }[event.key];
      if (event.key === "Escape") node.blur();
      if (!this.nodes[next]) return;
      event.preventDefault();
      this.nodes[next].focus();
    });
    this.nodes.push(node);
    return node;
  }

  // Highlight exactly these words, by index.
  highlight(indices) {
    this.nodes.forEach((node, index) => node.classList.toggle("highlighted", indices.includes(index)));
  }
}
