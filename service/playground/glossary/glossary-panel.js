// The glossary of the selected languages: entries of the user's own, one of the service's glossaries, and what is not
// translated. They are kept in the browser, for each pair of languages.

import * as api from "../common/api.js";
import { byId } from "../common/elements.js";
import { EntryTable } from "./entry-table.js";
import { KeptWords } from "./kept-words.js";
import { assignTerms, readTerms, storeTerms, termFields } from "./term-store.js";

export class GlossaryPanel {
  // `onChange` is called when the terms of the selected languages change, `onType` while the user types them.
  constructor(onChange, onType) {
    Object.assign(this, { onChange, pair: [], named: [], terms: readTerms([]) });
    this.table = new EntryTable((entries) => this.set({ entries }, onType));
    this.kept = new KeptWords((kept) => this.set({ kept }));
    [this.select, this.count] = ["named-glossary", "glossary-count"].map(byId);
    this.select.addEventListener("change", () => this.set({ id: this.select.value }));
    byId("clear-glossary").onclick = () => {
      this.table.show([], this.languages);
      this.kept.show([]);
      this.select.value = "";
      this.set({ entries: [], kept: [], id: "" });
      byId("entries").querySelector("input").focus();
    };
  }

  // Show the terms of a pair of languages, [source, target], the first of which may be unknown yet; `known` maps codes to
  // names.
  show([source = "", target], known) {
    const pair = [source, target];
    const names = pair.map((code) => known.get(code) ?? (code || "the text"));
    if (pair.join() === this.pair.join() && names.join() === this.languages?.names.join()) return;
    const unassigned = !this.pair[0] && this.pair[1] === target ? this.terms : readTerms(["", target]);
    this.pair = pair;
    this.languages = { codes: pair, names };
    this.terms = source ? assignTerms(pair, unassigned) : unassigned;
    this.table.show(this.terms.entries, this.languages);
    this.kept.show(this.terms.kept);
    byId("glossary-pair").textContent = names.join(" to ");
    this.offerNamed();
    this.showCount();
  }

  // Ask for the glossaries that the service keeps for the present key. Throws a Failure; none is offered then.
  async load() {
    const key = api.key();
    if (this.readWith === key) return;
    const before = this.requested;
    this.named = [];
    try {
      const named = await api.glossaries();
      if (api.key() !== key) return;
      [this.named, this.readWith] = [named, key];
    } finally {
      this.offerNamed();
    }
    if (this.requested !== before) this.onChange();
  }

  // The glossaries of the service for the selected languages.
  get fitting() {
    return this.named.filter(({ source_lang: source, target_lang: target }) => [source, target].join() === this.pair.join());
  }

  // The chosen one; "" if none is, or if the service does not offer it now, with this key.
  get id() {
    return this.fitting.some(({ glossary_id: id }) => id === this.terms.id) ? this.terms.id : "";
  }

  offerNamed() {
    const { fitting } = this;
    this.select.replaceChildren(new Option("None", ""), ...fitting.map((one) => new Option(`${one.name} (${one.entry_count})`, one.glossary_id)));
    byId("named").hidden = !fitting.length;
    this.select.value = this.id;
  }

  // Change the terms, and report it if requests have other terms now.
  set(change, report = this.onChange) {
    const before = this.requested;
    this.terms = { ...this.terms, ...change };
    storeTerms(this.pair, this.terms);
    this.showCount();
    if (this.requested !== before) report();
  }

  // Do not translate a text from now on.
  keep(text) {
    if (!this.terms.kept.includes(text)) this.kept.add(text);
  }

  showCount() {
    const count = this.terms.entries.length + this.terms.kept.length;
    this.count.textContent = count ? count.toLocaleString("en") : "";
    this.count.hidden = !count;
  }

  get fields() {
    return termFields({ ...this.terms, id: this.id });
  }

  get requested() {
    return JSON.stringify(this.fields);
  }
}
