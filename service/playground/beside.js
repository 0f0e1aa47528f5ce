// A second model's answer under the first's, the words in which they differ marked in both.

import { compare, cut } from "./differences.js";
import { byId } from "./elements.js";

export class Beside {
  // `choose`: another model was chosen, or none; `look`: which answer is to be looked into changed.
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

  // Whether it is this answer, and not the first, that is looked into.
  get looked() {
    return this.inside.ariaPressed === "true";
  }

  // Offer what can be chosen: [identity, label] of each model that reads what the first reads.
  offer(models) {
    const before = this.select.value;
    this.select.replaceChildren(new Option("Compare with …", ""), ...models.map(([identity, label]) => new Option(label, identity)));
    this.select.value = models.some(([identity]) => identity === before) ? before : "";
    this.select.hidden = !models.length;
  }

  // Show or hide the second answer; both as pieces of text that say where they differ.
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
