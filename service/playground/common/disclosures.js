// Buttons that open a part of the page below the input: the glossary, the history. One is open at a time.

import { byId } from "./elements.js";

export class Disclosures {
  // `names` are the ids of the parts; the button of each has its id with "-button".
  constructor(names) {
    this.names = names;
    for (const name of names) byId(`${name}-button`).onclick = () => this.toggle(name);
  }

  toggle(name) {
    const open = byId(name).hidden;
    for (const other of this.names) this.set(other, open && other === name);
  }

  close(name) {
    this.set(name, false);
  }

  set(name, open) {
    byId(name).hidden = !open;
    byId(`${name}-button`).ariaExpanded = String(open);
  }
}
