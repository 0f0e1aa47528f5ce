// The text areas: they grow with their text, and the number of characters is shown.

import { byId } from "../common/elements.js";

export class TextInputs {
  // `onInput` is called on typing, `onSend` when the user asks for the answer at once.
  constructor(onInput, onSend) {
    [this.text, this.mt, this.count] = ["text", "mt", "count"].map(byId);
    this.limit = 5000; // characters
    for (const area of this.areas) {
      area.addEventListener("input", () => {
        this.resize();
        onInput();
      });
      area.addEventListener("keydown", (event) => {
        if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) onSend();
      });
    }
    addEventListener("resize", () => this.resize());
  }

  get areas() {
    return [this.text, this.mt];
  }

  set({ text = this.text.value, mt = this.mt.value }) {
    [this.text.value, this.mt.value] = [text, mt];
    this.resize();
  }

  resize() {
    for (const area of this.areas) {
      area.style.height = "auto";
      area.style.height = `${area.scrollHeight}px`;
    }
    const shown = this.areas.filter((area) => area.offsetParent);
    const length = Math.max(0, ...shown.map((area) => [...area.value].length));
    this.count.textContent = `${length.toLocaleString("en")} / ${this.limit.toLocaleString("en")}`;
    this.count.classList.toggle("over", length > this.limit);
  }
}
