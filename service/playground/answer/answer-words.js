// An answer as interactive words: hovering over or focusing a word reports its index, a click opens it.

import { element, hovers } from "../common/elements.js";
import { markDoubtful } from "../explanation/doubtful-words.js";

export class AnswerWords {
  // `onPoint` is called with the index of the hovered or focused word, without arguments if there is none; `onOpen` with
  // the index and the node of a word that is clicked, or chosen by Enter or space.
  constructor(container, { onPoint, onOpen }) {
    this.container = container;
    this.report = onPoint;
    this.onOpen = onOpen;
    this.nodes = [];
    this.pinned = undefined; // the word whose menu is open stays pointed at
  }

  // Show pieces of text, [{ text, differs }]; `spans` are the character ranges of the words in the whole text. Marks of
  // words by index: `doubtful`, the reasons for doubt; `terms`, what kind of term a word belongs to.
  show(pieces, spans = [], { doubtful = new Map(), terms = new Map(), opens = false } = {}) {
    this.nodes = [];
    this.pinned = undefined;
    this.opens = opens;
    let position = 0; // in code points, as in `spans`: a character outside the basic plane counts as one
    const children = pieces.map(({ text, differs }) => {
      const characters = [...text];
      const inside = this.split(characters, position, spans);
      position += characters.length;
      return differs ? element("mark", {}, ...inside) : inside;
    });
    this.nodes.forEach((node, index) => {
      if (terms.has(index)) {
        node.classList.add("term");
        node.title = terms.get(index);
      }
      markDoubtful(node, doubtful.get(index));
    });
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
    if (this.opens) {
      node.setAttribute("role", "button");
      node.setAttribute("aria-haspopup", "listbox");
    }
    node.addEventListener("pointerenter", () => this.point(index));
    node.addEventListener("pointerleave", (event) => hovers(event) && this.point());
    node.addEventListener("focus", () => {
      for (const other of this.nodes) other.tabIndex = other === node ? 0 : -1;
      this.point(index);
    });
    node.addEventListener("blur", () => this.point());
    node.addEventListener("click", () => this.onOpen(index, node));
    node.addEventListener("keydown", (event) => this.onKey(event, index, node));
    this.nodes.push(node);
    return node;
  }

  onKey(event, index, node) {
    const rightToLeft = getComputedStyle(this.container).direction === "rtl";
    const [forward, backward] = rightToLeft ? ["ArrowLeft", "ArrowRight"] : ["ArrowRight", "ArrowLeft"];
    const next = { [forward]: index + 1, [backward]: index - 1, Home: 0, End: this.nodes.length - 1 }[event.key];
    if (event.key === "Escape") node.blur();
    if (["Enter", " ", "ArrowDown"].includes(event.key)) {
      event.preventDefault();
      this.onOpen(index, node);
    }
    if (!this.nodes[next]) return;
    event.preventDefault();
    this.nodes[next].focus();
  }

  point(index) {
    if (this.pinned === undefined) this.report(...(index === undefined ? [] : [index]));
  }

  // Keep a word pointed at until it is released.
  pin(index) {
    this.pinned = undefined;
    this.point(index);
    this.pinned = index;
  }

  // Release it: the word that has the focus is pointed at, or none.
  unpin() {
    this.pinned = undefined;
    const focused = this.nodes.indexOf(document.activeElement);
    this.point(focused < 0 ? undefined : focused);
  }

  // Highlight exactly these words, by index.
  highlight(indices) {
    this.nodes.forEach((node, index) => node.classList.toggle("highlighted", indices.includes(index)));
  }
}
