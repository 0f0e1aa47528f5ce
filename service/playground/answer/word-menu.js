// A list of words, one of which can be chosen in place of a word of the translation: ARIA's listbox pattern.

import { Failure } from "../common/api.js";
import { byId, element } from "../common/elements.js";

const MARGIN = 8; // pixels between the list and the edges of its pane

export class WordMenu {
  // `pane` is the element in which the list is placed.
  constructor(pane) {
    this.pane = pane;
    [this.menu, this.list, this.status] = ["word-menu", "offered-words", "word-menu-status"].map(byId);
    this.list.addEventListener("keydown", (event) => this.onKey(event));
    this.list.addEventListener("focusout", (event) => event.relatedTarget !== this.node && this.close());
    addEventListener("pointerdown", (event) => !this.menu.contains(event.target) && !this.node?.contains(event.target) && this.close());
    addEventListener("keydown", (event) => event.key === "Escape" && this.close());
    addEventListener("resize", () => this.close());
  }

  // Open the list at a word. `load(signal)` returns the words, [{ word, rest }], the present one first; `onChoose` is
  // called with another one that is chosen, `onClose` when the list is closed.
  async open(node, { load, onChoose, onClose }) {
    const again = this.node === node;
    this.close();
    if (again) return;
    const controller = new AbortController();
    Object.assign(this, { node, onChoose, onClose, controller });
    const leave = () => this.close(); // the user has gone on before there was anything to choose from
    node.addEventListener("blur", leave, { signal: controller.signal });
    this.fill([], "Looking for other words …");
    try {
      const offers = await load(controller.signal);
      if (controller.signal.aborted) return;
      this.fill(offers, offers.length > 1 ? "" : "The model finds no other word probable here.");
      node.removeEventListener("blur", leave);
      if (offers.length > 1) this.list.focus({ preventScroll: true });
    } catch (error) {
      if (controller.signal.aborted) return;
      if (!(error instanceof Failure)) throw error;
      this.fill([], error.message);
    }
  }

  fill(offers, status) {
    this.offers = offers;
    this.options = offers.map(({ word, rest }, i) => {
      const option = element("li", { id: `offer-${i}`, role: "option", ariaSelected: "false" }, element("b", { textContent: word }), element("span", { textContent: rest }));
      option.onclick = () => this.choose(i);
      option.onpointermove = () => this.mark(i);
      return option;
    });
    this.status.textContent = status;
    this.status.hidden = !status;
    this.list.hidden = offers.length < 2;
    this.list.replaceChildren(...this.options);
    this.menu.hidden = false;
    if (this.options.length) this.mark(0);
    this.place();
  }

  // Below the word, within the pane.
  place() {
    const [pane, word] = [this.pane, this.node].map((node) => node.getBoundingClientRect());
    const most = pane.width - this.menu.offsetWidth - MARGIN;
    this.menu.style.left = `${Math.max(MARGIN, Math.min(word.left - pane.left, most))}px`;
    this.menu.style.top = `${word.bottom - pane.top + MARGIN}px`;
  }

  mark(i) {
    this.marked = i;
    this.options.forEach((option, place) => (option.ariaSelected = String(place === i)));
    this.list.setAttribute("aria-activedescendant", `offer-${i}`);
    this.options[i].scrollIntoView({ block: "nearest" });
  }

  onKey(event) {
    const last = this.options.length - 1;
    const next = { ArrowDown: Math.min(this.marked + 1, last), ArrowUp: Math.max(this.marked - 1, 0), Home: 0, End: last }[event.key];
    if (next !== undefined) this.mark(next);
    else if (event.key === "Enter" || event.key === " ") this.choose(this.marked);
    else {
      if (event.key === "Tab") this.close();
      return;
    }
    event.preventDefault();
  }

  choose(i) {
    const { onChoose } = this;
    this.close();
    if (i) onChoose(this.offers[i]);
  }

  close() {
    if (!this.node) return;
    const { node, onClose, controller } = this;
    const hadFocus = this.menu.contains(document.activeElement);
    this.node = null;
    controller.abort();
    if (hadFocus && node.isConnected) node.focus({ preventScroll: true });
    this.menu.hidden = true;
    onClose();
  }
}
