// The explanation of an answer: alternatives, word alignment, attention weights, attention by source, edits.

import { choices } from "../answer/answers.js";
import { byId, segments } from "../common/elements.js";
import { drawAlternatives } from "./alternatives.js";
import { drawEdits } from "./edits.js";
import { drawHeatmap } from "./heatmap.js";
import { Interlinear } from "./interlinear.js";
import { Sentences } from "./sentences.js";
import { SourceWeights } from "./source-weights.js";
import { chooseView, viewsOf } from "./views.js";

export class ExplanationPanel {
  // `onHighlight` is called with the highlighted words of the answer and a text about the word pointed at; `onSelect`
  // when an alternative is selected. `penaltyOf` returns the length penalty of an answer's model.
  constructor({ onHighlight, onSelect, penaltyOf }) {
    Object.assign(this, { onHighlight, onSelect, penaltyOf, answer: null, selectedView: null });
    [this.panel, this.hint] = ["explanation", "hint"].map(byId);
    this.gloss = new Interlinear(byId("gloss"), (side, index) => this.highlighted(side, index));
    this.sentences = new Sentences((part) => this.drawSentence(part));
    this.sources = new SourceWeights(byId("sources"));
  }

  clear() {
    this.answer = null;
    this.panel.hidden = this.hint.hidden = true;
  }

  show(answer) {
    this.answer = answer;
    const { explanations, selected } = answer;
    this.panel.hidden = !explanations?.[0].target.length;
    this.showHint(explanations ? "" : "This text is too long to show attention weights. Translate a part of it to see them.");
    if (!explanations?.[0].target.length) return;
    this.drawAlternatives();
    if (selected) {
      this.showHint("This answer is an alternative. Attention weights are available for the first choice only.");
      for (const id of ["lines", "table", "edited", "sources"]) byId(id).hidden = true;
      return;
    }
    this.views = viewsOf(explanations[0]);
    const titles = Object.fromEntries(Object.entries(this.views).map(([name, { title }]) => [name, title]));
    segments(byId("matrices"), titles, this.view, (name) => {
      this.selectedView = name;
      this.draw();
    });
    this.draw();
  }

  showHint(message) {
    this.hint.hidden = !message;
    this.hint.textContent = message;
  }

  drawAlternatives() {
    const { answer } = this;
    const { scores, selected, languages } = answer;
    const shown = { texts: choices(answer), scores, selected, penalty: this.penaltyOf(answer), language: languages[1] ?? "" };
    drawAlternatives(shown, (place) => {
      answer.selected = place;
      this.onSelect();
      byId("alternatives").querySelector("button")?.focus({ preventScroll: true });
    });
  }

  // The name of the view that is shown.
  get view() {
    return chooseView(this.views, this.answer.explanations[0], this.selectedView);
  }

  draw() {
    const { explanations, languages, operations, imageUrl, given, request } = this.answer;
    const view = this.views[this.view];
    for (const id of ["lines", "table"]) byId(id).hidden = !view;
    drawEdits(operations, languages[1]);
    this.sources.show(explanations[0], imageUrl, languages[1] ?? "");
    if (!view) return;
    const ofDraft = view.name === "mt"; // the words are those of the machine translation
    this.sentences.show(view.explanation, ofDraft ? request.translation : given, (ofDraft ? languages[1] : languages[0]) ?? "");
  }

  // Draw the open sentence as interlinear view and as matrix.
  drawSentence(part) {
    const { languages } = this.answer;
    this.gloss.show(part, this.views[this.view].name === "mt" ? [languages[1], languages[1]] : languages);
    drawHeatmap(byId("heat"), part, byId("readout"));
  }

  // A word of the answer is pointed at, or none: open its sentence and highlight it.
  point(index) {
    if (byId("lines").hidden) return;
    if (index === undefined) return this.gloss.highlight();
    this.gloss.highlight(1, this.sentences.selectByWord(index));
  }

  // A word is highlighted in the interlinear view: report it, or its target words.
  highlighted(side, index) {
    const { from } = this.sentences.part;
    const words = side === undefined ? [] : side ? [index] : this.gloss.partners(0, index).map((partner) => partner.index);
    this.onHighlight(words.map((word) => word + from[1]), side === undefined ? "" : this.gloss.describe(side, index));
  }
}
