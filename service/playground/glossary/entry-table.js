// An editable table of glossary entries. There is always an empty row at the end; a pasted table becomes rows.

import { byId, element } from "../common/elements.js";
import { contradictions, parseEntries } from "./entries.js";

const MAX_CHARACTERS = 200; // of a source or target

export class EntryTable {
  // `onChange` is called with the entries, [source, target], that have text.
  constructor(onChange) {
    this.onChange = onChange;
    this.body = byId("entries");
    this.body.addEventListener("paste", (event) => this.onPaste(event));
    this.body.addEventListener("keydown", (event) => this.onKey(event));
  }

  // Show entries; `languages` are the codes and the names of source and target.
  show(entries, languages) {
    this.languages = languages;
    languages.names.forEach((name, side) => (byId(["entry-source", "entry-target"][side]).textContent = name));
    this.body.replaceChildren(...[...entries, ["", ""]].map((entry) => this.row(entry)));
    this.check();
  }

  get rows() {
    return [...this.body.rows].map((row) => [...row.querySelectorAll("input")]);
  }

  get entries() {
    return this.rows.map((inputs) => inputs.map(({ value }) => value.trim())).filter(([source, target]) => source || target);
  }

  row(entry) {
    const inputs = entry.map((value, side) => {
      const { codes, names } = this.languages;
      const input = element("input", { value, lang: codes[side] ?? "", dir: "auto", maxLength: MAX_CHARACTERS, spellcheck: false, autocomplete: "off", ariaLabel: `${["Term in", "Its translation in"][side]} ${names[side]}` });
      input.addEventListener("input", () => this.changed(row));
      return input;
    });
    const remove = element("button", { type: "button", className: "icon", textContent: "×", ariaLabel: "Remove this entry" });
    remove.onclick = () => this.remove(row);
    const row = element("tr", {}, ...inputs.map((input) => element("td", {}, input)), element("td", {}, remove));
    return row;
  }

  changed(row) {
    if (row === this.body.lastElementChild) this.body.append(this.row(["", ""]));
    this.check();
    this.onChange(this.entries);
  }

  remove(row) {
    const next = row.nextElementSibling ?? row.previousElementSibling;
    if (row === this.body.lastElementChild) for (const input of row.querySelectorAll("input")) input.value = "";
    else row.remove();
    (next ?? row).querySelector("input").focus();
    this.check();
    this.onChange(this.entries);
  }

  // Mark entries that contradict an earlier one.
  check() {
    const rows = this.rows;
    const wrong = contradictions(rows.map((inputs) => inputs.map(({ value }) => value)));
    rows.forEach(([, target], i) => {
      target.ariaInvalid = String(wrong.has(i));
      target.title = wrong.has(i) ? "Another entry has this term with another translation." : "";
    });
  }

  // Several lines, or two columns, are rows: they come before the row in which they are pasted.
  onPaste(event) {
    const text = event.clipboardData.getData("text");
    if (!/[\t\n\r]/u.test(text.trim())) return;
    event.preventDefault();
    const row = event.target.closest("tr");
    row.before(...parseEntries(text).map((entry) => this.row(entry)));
    this.check();
    this.onChange(this.entries);
  }

  // Enter goes to the next field, up and down to the same field of another row.
  onKey(event) {
    const fields = this.rows.flat();
    const at = fields.indexOf(event.target);
    const step = { Enter: 1, ArrowDown: 2, ArrowUp: -2 }[event.key];
    if (at < 0 || !step || !fields[at + step]) return;
    event.preventDefault();
    fields[at + step].focus();
  }
}
