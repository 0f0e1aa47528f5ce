// The choice of model and languages: only what is served can be chosen.

import { byId } from "../common/elements.js";
import { identity, label, sameModel } from "../common/models.js";

const unique = (codes) => [...new Set(codes)].sort();

const valuesOf = (select) => [...select.options].map(({ value }) => value);

function refill(select, entries) {
  const before = select.value;
  select.replaceChildren(...entries);
  select.value = entries.some((entry) => entry.value === before) ? before : (entries[0]?.value ?? "");
}

export class Choices {
  // `comparison` is offered the models that can be compared with the selected one; `onOffer` is called when the
  // languages have been offered anew.
  constructor(comparison, onOffer) {
    Object.assign(this, { comparison, onOffer, served: [], translated: [], names: new Map(), task: "translation", chosen: new Map() });
    [this.model, this.source, this.target] = ["model", "source", "target"].map(byId);
  }

  serve(models, languages) {
    this.served = models;
    for (const { code, name } of languages) this.names.set(code, name);
    const pairs = languages.flatMap(({ code, targets }) => targets.map((target) => ({ source: code, target })));
    this.translated = pairs.filter(({ source, target }) => source !== target);
  }

  get selects() {
    return [this.model, this.source, this.target];
  }

  // Whether the user selects two languages.
  get hasLanguages() {
    return this.task !== "summarization";
  }

  get detects() {
    return this.hasLanguages && this.source.value === "auto";
  }

  get languages() {
    return { source: this.source.value, target: this.target.value };
  }

  // What is chosen: { model, source, target }.
  get values() {
    return { model: this.model.value, ...this.languages };
  }

  // The model as a field of a request; not named where there is no other, so that its next version may answer as well.
  get modelField() {
    const several = this.served.filter((m) => m.task === this.task).length > 1;
    return several && this.model.value ? { model: this.model.value } : {};
  }

  name(code) {
    return this.names.get(code) ?? code;
  }

  options(codes) {
    return codes.map((code) => new Option(this.name(code), code));
  }

  // The models that may answer.
  get models() {
    return this.served.filter((m) => m.task === this.task && (!this.model.value || identity(m) === this.model.value));
  }

  // The pairs of languages to choose from, { source, target }: those of the models, and if any model may translate, those
  // that two models translate through a language between them.
  get pairs() {
    const own = this.models.map((m) => m.languages);
    return this.task === "translation" && !this.model.value ? [...own, ...this.translated] : own;
  }

  // The models that translate the selected languages.
  fitting(models = this.models) {
    const fits = (m) => m.languages.target === this.target.value && [m.languages.source, "auto"].includes(this.source.value);
    return models.filter((m) => !this.hasLanguages || fits(m));
  }

  // The source languages from which the selected models translate into the selected target language.
  get possible() {
    return unique(this.pairs.filter((p) => p.target === this.target.value).map((p) => p.source));
  }

  // The languages of the input and of the output; `detected`: the language detected in the input.
  pair(detected) {
    if (this.hasLanguages) return [this.source.value === "auto" ? detected : this.source.value, this.target.value];
    const { source, target } = this.models[0].languages;
    return [source, target];
  }

  // The same, with the only possible language of the input where none is detected yet.
  likelyPair(detected) {
    return this.pair(detected ?? (this.possible.length === 1 ? this.possible[0] : undefined));
  }

  // Whether a model translates back from the target language.
  translatesBack(from) {
    return this.pairs.some((p) => p.source === this.target.value && p.target === from);
  }

  // Show the languages of input and output; `detected`: that of the answer.
  show(from, into, detected, certain) {
    const [first, last] = [from, into].map((code) => code && this.name(code));
    byId("pair-mark").textContent = first && first !== last ? `${first} to ${last}` : (last ?? "\u00a0");
    const shown = this.detects && detected;
    byId("detected").textContent = shown ? `${this.name(detected)}${certain ? "" : ", not certain"}` : "";
    byId("detected").title = certain ? "" : "The text is short, or resembles another language as well.";
  }

  // Offer the models and languages of a task, with those chosen that were chosen for it before.
  offer(task) {
    this.chosen.set(this.task, this.values);
    this.task = task;
    const choices = this.served.filter((m) => m.task === task).map((m) => new Option(label(m), identity(m)));
    this.model.replaceChildren(...(this.hasLanguages && choices.length > 1 ? [new Option("Any model", "")] : []), ...choices);
    for (const select of [this.source, this.target]) select.hidden = !this.hasLanguages;
    this.choose(this.chosen.get(task) ?? {});
  }

  // Only pairs that are served are offered.
  offerLanguages() {
    if (this.hasLanguages) {
      const { pairs } = this;
      const detect = this.task === "post-edit" ? [] : [new Option("Detect language", "auto")];
      refill(this.source, [...detect, ...this.options(unique(pairs.map((p) => p.source)))]);
      const possible = pairs.filter((p) => this.source.value === "auto" || p.source === this.source.value);
      refill(this.target, this.options(unique(possible.map((p) => p.target))));
    }
    this.offerComparison();
    this.onOffer();
  }

  // Offer the models of the same task and languages for comparison.
  offerComparison() {
    const there = this.fitting(this.served.filter((m) => m.task === this.task));
    const others = there.filter((m) => identity(m) !== this.model.value);
    this.comparison.offer(there.length > 1 ? others.map((m) => [identity(m), label(m)]) : []);
  }

  // Translate in the other direction, into the language `from` of the input.
  swap(from) {
    this.model.value = "";
    if (this.model.selectedIndex < 0) this.model.selectedIndex = 0;
    this.source.value = this.target.value;
    this.offerLanguages();
    this.target.value = from;
    this.onOffer();
  }

  // Choose values where they are offered, each after what it depends on: { model, source, target }.
  choose(values) {
    const wanted = { ...values, model: sameModel(valuesOf(this.model), values.model) };
    for (const name of ["model", "source", "target"]) {
      if (valuesOf(this[name]).includes(wanted[name])) this[name].value = wanted[name];
      this.offerLanguages();
    }
  }
}
