// The glossary of the selected languages: entries of the user's own, one of the service's glossaries, and what is not
// translated. They are kept in the browser, for each pair of languages.

import * as api from "../common/api.js";
import { byId } from "../common/elements.js";
import { EntryTable } from "./entry-table.js";
import { KeptWords } from "./kept-words.js";
import { joinTerms, readTerms, storeTerms, termFields } from "./term-store.js";

export class GlossaryPanel {
  // `onChange` is called when the terms of the selected languages change.
  constructor(onChange) {
    Object.assign(this, { onChange, pair: [], named: [], terms: readTerms([]) });
    this.table = new EntryTable((entries) => this.set({ entries }));
    this.kept = new KeptWords((kept) => this.set({ kept }));
    [this.select, this.count] = ["named-glossary", "glossary-count"].map(byId);
    this.select.addEventListener("change", () => this.set({ id: this.select.value }));
    byId("clear-glossary").onclick = () => {
      this.table.show([], this.languages);
      this.kept.show([]);
      this.set({ entries: [], kept: [] });
      byId("entries").querySelector("input").focus();
    };
  }

  // Show the terms of a pair of languages, [source, target], the first of which may be unknown yet; `known` maps codes to
  // names.
  show([source = "", target], known) {
    const pair = [source, target];
    const names = pair.map((code) => known.get(code) ?? (code || "the text"));
    if (pair.join() === this.pair.join() && names.join() === this.languages?.names.join()) return;
    const typed = !this.pair[0] && this.pair[1] === target ? this.terms : null; // before the language was known
    this.pair = pair;
    this.languages = { codes: pair, names };
    this.terms = typed ? joinTerms(readTerms(pair), typed) : readTerms(pair);
    if (typed && source) storeTerms(pair, this.terms);
    this.table.show(this.terms.entries, this.languages);
    this.kept.show(this.terms.kept);
    byId("glossary-pair").textContent = names.join(" to ");
    this.offerNamed();
    this.showCount();
  }

  // Ask for the glossaries that the service keeps for the present key; where they cannot be read, none is offered.
  async load() {
    if (this.readWith === api.key()) return;
    this.readWith = api.key();
    this.named = await api.glossaries().catch(() => []);
    this.offerNamed();
  }

  offerNamed() {
    const fitting = this.named.filter(({ source_lang: source, target_lang: target }) => [source, target].join() === this.pair.join());
    this.select.replaceChildren(new Option("None", ""), ...fitting.map((one) => new Option(`${one.name} (${one.entry_count})`, one.glossary_id)));
    byId("named").hidden = !fitting.length;
    const known = fitting.some(({ glossary_id: id }) => id === this.terms.id);
    if (this.terms.id && !known && this.named.length) this.terms.id = "";
    this.select.value = known ? this.terms.id : "";
  }

  set(change) {
    this.terms = { ...this.terms, ...change };
    if (this.pair[0]) storeTerms(this.pair, this.terms);
    this.showCount();
    this.onChange();
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
    return termFields(this.terms);
  }
}
