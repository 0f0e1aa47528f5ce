// The tabs of the page, by ARIA's pattern: arrow keys select the next one, and only the selected one is a tab stop.

import { element } from "./elements.js";

export class Tabs {
  // `panel` is the region that all tabs share; `onSelect` is called with the name of a tab that the user selects.
  constructor(list, panel, onSelect) {
    Object.assign(this, { list, panel, onSelect, tabs: new Map() });
    list.addEventListener("keydown", (event) => this.onKey(event));
  }

  // Show tabs, [[name, title]]; a single one needs no choice and is hidden.
  show(titles, selected) {
    this.tabs = new Map(titles.map(([name, textContent]) => {
      const tab = element("button", { type: "button", id: `tab-${name}`, role: "tab", textContent });
      tab.setAttribute("aria-controls", this.panel.id);
      tab.onclick = () => this.choose(name);
      return [name, tab];
    }));
    const several = titles.length > 1;
    this.list.hidden = !several;
    this.list.replaceChildren(...(several ? this.tabs.values() : []));
    if (several) this.panel.setAttribute("role", "tabpanel");
    else this.panel.removeAttribute("role");
    this.mark(selected);
  }

  mark(selected) {
    for (const [name, tab] of this.tabs) {
      tab.ariaSelected = String(name === selected);
      tab.tabIndex = name === selected ? 0 : -1;
    }
    if (this.tabs.size > 1) this.panel.setAttribute("aria-labelledby", `tab-${selected}`);
    else this.panel.removeAttribute("aria-labelledby");
  }

  choose(name) {
    if (this.tabs.get(name).ariaSelected === "true") return;
    this.mark(name);
    this.onSelect(name);
    this.tabs.get(name).focus();
  }

  onKey(event) {
    const names = [...this.tabs.keys()];
    const at = names.findIndex((name) => this.tabs.get(name) === event.target);
    const rightToLeft = getComputedStyle(this.list).direction === "rtl";
    const [forward, backward] = rightToLeft ? ["ArrowLeft", "ArrowRight"] : ["ArrowRight", "ArrowLeft"];
    const next = { [forward]: at + 1, [backward]: at - 1, Home: 0, End: names.length - 1 }[event.key];
    if (at < 0 || next === undefined) return;
    event.preventDefault();
    this.choose(names.at(next % names.length));
  }
}
