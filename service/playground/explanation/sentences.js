// The sentences of an answer. One is open, with its interlinear view and matrix of weights.

import { doubtsWithin } from "./doubtful-words.js";
import { byId, element } from "../common/elements.js";

// Split an explanation into sentences; `from`: the number of source and target words before the sentence.
export function sentencesOf({ source, target, gate, confidence, doubts, weights, sentences }) {
  let [s, t] = [0, 0];
  return (sentences ?? [[source.length, target.length]]).map(([sources, targets]) => {
    const part = {
      source: source.slice(s, s + sources),
      target: target.slice(t, t + targets),
      gate: gate?.slice(t, t + targets),
      confidence: confidence?.slice(t, t + targets),
      doubts: doubtsWithin(doubts, [s, t], sources, targets),
      weights: weights.slice(t, t + targets).map((row) => row.slice(s, s + sources)),
      from: [s, t],
    };
    [s, t] = [s + sources, t + targets];
    return part;
  });
}

export class Sentences {
  // `onOpen` is called with the open sentence.
  constructor(onOpen) {
    this.onOpen = onOpen;
    this.list = byId("sentences");
    this.gloss = byId("gloss");
    this.open = 0;
  }

  // `text` is the source text to which the words' character offsets refer. The open sentence stays open if it exists.
  show(explanation, text, language) {
    const characters = [...text];
    this.parts = sentencesOf(explanation);
    this.open = Math.min(this.open, this.parts.length - 1);
    this.rows = this.parts.map(({ source }, i) => {
      const content = source.length ? characters.slice(source[0].start, source.at(-1).end).join("") : "…";
      const row = element("button", { type: "button", className: "sentence", lang: language, dir: "auto", textContent: content });
      row.onclick = () => {
        this.select(i);
        this.gloss.querySelector("[tabindex='0']")?.focus();
      };
      return row;
    });
    this.list.replaceChildren(...this.rows, this.gloss);
    byId("of-sentences").hidden = this.parts.length < 2;
    this.showOpen();
  }

  get part() {
    return this.parts[this.open];
  }

  select(i) {
    if (i === this.open) return;
    this.open = i;
    this.showOpen();
  }

  // Open the sentence with the word of this index in the answer; returns the word's index in the sentence.
  selectByWord(index) {
    const last = this.parts.findLastIndex(({ from }) => from[1] <= index);
    this.select(last);
    return index - this.parts[last].from[1];
  }

  showOpen() {
    this.rows.forEach((row, i) => (row.hidden = i === this.open));
    this.rows[this.open].after(this.gloss);
    byId("of-sentences").textContent = `sentence ${this.open + 1} of ${this.parts.length}`;
    this.onOpen(this.part);
  }
}
