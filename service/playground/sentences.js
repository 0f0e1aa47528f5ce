// The sentences of an answer. One is open, with its interlinear view and matrix of weights.

import { byId, element } from "./elements.js";

// Split an explanation into sentences; `from`: the number of source and target words before the sentence.
export function sentencesOf({ source, target, gate, weights, sentences }) {
  let [s, t] = [0, 0];
  return (sentences ?? [[source.length, target.length]]).map(([words, written]) => {
    const part = {
      source: source.slice(s, s + words),
      target: target.slice(t, t + written),
      gate: gate?.slice(t, t + written),
      weights: weights.slice(t, t + written).map((row) => row.slice(s, s + words)),
      from: [s, t],
    };
    [s, t] = [s + words, t + written];
    return part;
  });
}

export class Sentences {
  // `draw` is called with the open sentence.
  constructor(draw) {
    this.draw = draw;
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
      const said = source.length ? characters.slice(source[0].start, source.at(-1).end).join("") : "…";
      const row = element("button", { type: "button", className: "sentence", lang: language, dir: "auto", textContent: said });
      row.onclick = () => {
        this.choose(i);
        this.gloss.querySelector("[tabindex='0']")?.focus();
      };
      return row;
    });
    this.list.replaceChildren(...this.rows, this.gloss);
    byId("of-sentences").hidden = this.parts.length < 2;
    this.unfold();
  }

  get part() {
    return this.parts[this.open];
  }

  choose(i) {
    if (i === this.open) return;
    this.open = i;
    this.unfold();
  }

  // Open the sentence with the word of this index in the answer; returns the word's index in the sentence.
  chooseByWord(index) {
    const last = this.parts.findLastIndex(({ from }) => from[1] <= index);
    this.choose(last);
    return index - this.parts[last].from[1];
  }

  unfold() {
    this.rows.forEach((row, i) => (row.hidden = i === this.open));
    this.rows[this.open].after(this.gloss);
    byId("of-sentences").textContent = `sentence ${this.open + 1} of ${this.parts.length}`;
    this.draw(this.part);
  }
}
