// The output pane: one answer, or two beside each other, and what went wrong.

import { sentence } from "../common/api.js";
import { byId, shorten } from "../common/elements.js";
import { identity, named } from "../common/models.js";
import { doubtfulWords } from "../explanation/doubtful-words.js";
import { termWords } from "../glossary/used-terms.js";
import { answerText } from "./answers.js";
import { AnswerWords } from "./answer-words.js";

const milliseconds = (answer) => `${Math.round(answer.milliseconds)} ms`;

export class Output {
  // `onPoint` is called with the index of a word that is pointed at, without arguments if there is none; `onOpen` with
  // the index and node of a word that is clicked. Only the words of the answer that is explained do so.
  constructor(comparison, { onPoint, onOpen }) {
    this.comparison = comparison;
    [this.translation, this.other, this.problem, this.announcement] = ["translation", "other", "problem", "announcement"].map(byId);
    this.words = [this.translation, this.other].map(
      (node) => new AnswerWords(node, { onPoint, onOpen: (index, word) => this.opens && onOpen(index, word) }),
    );
    this.fading = [this.translation, this.other, byId("explanation")];
    this.shown = this.second = null;
  }

  // Whether a click on a word offers others.
  opens = false;

  get explained() {
    return this.comparison.explained ? this.second : this.shown;
  }

  get explainedWords() {
    return this.words[this.comparison.explained ? 1 : 0];
  }

  show(answer, other = null) {
    [this.shown, this.second] = [answer, other];
    this.showProblem("");
    this.fade(false);
    this.setStale(false);
    byId("time").textContent = milliseconds(answer);
    this.showNotes(answer);
    byId("answered-by").textContent = named(answer.model);
    byId("answered-by").title = identity(answer.model);
    byId("other-by").textContent = other ? `${milliseconds(other)} · ${named(other.model)}` : "";
    for (const id of ["copy", "link"]) byId(id).disabled = false;
    this.draw();
    this.announcement.textContent = answerText(answer);
  }

  // Draw the answers. Words react only in the explained answer, and only if its best output is selected.
  draw() {
    const { shown, second } = this;
    const pieces = this.comparison.show(answerText(shown), second && answerText(second), shown.languages[1] ?? "");
    [shown, second].forEach((answer, place) => {
      const reacts = answer && answer === this.explained && !answer.selected;
      const explanation = reacts && answer.explanations?.[0];
      if (!explanation) return this.words[place].show(pieces[place]);
      const marks = { doubtful: doubtfulWords(explanation, "target"), terms: termWords(explanation, answer), opens: this.opens };
      this.words[place].show(pieces[place], explanation.target, marks);
    });
    byId("word-weights").textContent = "";
    byId("rewritten").hidden = !this.explained.before;
  }

  clear() {
    this.shown = this.second = null;
    this.showProblem("");
    this.words[0].show([]);
    this.comparison.show("", null);
    this.showNotes();
    byId("rewritten").hidden = true;
    for (const id of ["time", "answered-by", "detected", "word-weights", "announcement"]) byId(id).textContent = "";
    for (const id of ["copy", "link"]) byId(id).disabled = true;
    this.fade(false);
    this.setStale(false);
  }

  // Show the output so far while the search runs, without moving the page below.
  showPrefix(beginning) {
    const { translation } = this;
    translation.style.minHeight = `${Math.max(translation.clientHeight, parseFloat(translation.style.minHeight) || 0)}px`;
    translation.classList.remove("old");
    translation.textContent = beginning;
  }

  endPrefix() {
    this.translation.style.minHeight = "";
  }

  showProblem(message) {
    this.problem.textContent = message;
    this.problem.hidden = !message;
  }

  // Show what the model did with a text that is too long for it, how much it has read, what was translated in parts; and
  // the words that it does not know.
  showNotes({ reduced, warnings = [], explanations } = {}) {
    const notes = warnings.map(({ message }) => sentence(message));
    const unseen = explanations?.[0].doubts?.filter(({ reason }) => reason === "unseen").map(({ word }) => explanations[0].source[word].text);
    if (unseen?.length) notes.push(`The model has never seen: ${[...new Set(unseen)].map(shorten).join(", ")}.`);
    if (reduced) notes.push(`The text is longer than the model reads: of its ${reduced.of} sentences the first ${reduced.sentences === 1 ? "one was" : `${reduced.sentences} were`} read.`);
    byId("note").hidden = !notes.length;
    byId("note").textContent = notes.join(" ");
  }

  // Fade the displayed answers and their explanation, or undo that.
  fade(active) {
    for (const node of this.fading) node.classList.toggle("old", active);
  }

  // Mark the displayed answer as belonging to an earlier text and disable its interaction, or undo that.
  setStale(active) {
    byId("stale").hidden = !active;
    for (const node of [this.translation, byId("rewritten"), byId("second"), byId("explanation")]) node.inert = active;
  }

  // The request failed: show the old answer again where a beginning of the new one stands, fade it and disable copying it.
  markOutdated() {
    if (this.shown) this.draw();
    else this.words[0].show([]);
    this.fade(Boolean(this.shown));
    this.setStale(Boolean(this.shown));
    for (const id of ["time", "answered-by", "word-weights"]) byId(id).textContent = "";
    for (const id of ["copy", "link"]) byId(id).disabled = true;
  }
}
