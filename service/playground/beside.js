// Shows a second model's answer under the first's and marks the differing words in both.

import { compare, cut } from "./differences.js";
import { byId } from "./elements.js";

export class Beside {
  // `choose` is called when another model, or none, is selected; `look` when the answer to explain changes.
  constructor(choose, look) {
    this.select = byId("beside");
    this.inside = byId("inside");
    this.select.addEventListener("change", choose);
    this.inside.onclick = () => {
      this.inside.ariaPressed = String(!this.looked);
      byId("second").classList.toggle("looked", this.looked);
      look();
    };
  }

  get model() {
    return this.select.value;
  }

  // Whether the second answer, and not the first, is explained.
  get looked() {
    return this.inside.ariaPressed === "true";
  }

  // Fill the selection: [identity, label] of each model that accepts the same input as the first.
  offer(models) {
    const before = this.select.value;
    this.select.replaceChildren(new Option("Compare with …", ""), ...models.map(([identity, label]) => new Option(label, identity)));
    this.select.value = models.some(([identity]) => identity === before) ? before : "";
    this.select.hidden = !models.length;
  }

  // Show or hide the second answer; returns both answers as pieces of text, marked where they differ.
  show(first, second, language) {
    byId("second").hidden = second === null;
    if (second === null) {
      this.inside.ariaPressed = "false";
      byId("second").classList.remove("looked");
      return [cut(first), []];
    }
    byId("other").lang = language;
    return compare(first, second);
  }
}
