// Shows the answer of a second model below that of the first and marks the words in which they differ.

import { compare, splitPieces } from "../common/differences.js";
import { byId } from "../common/elements.js";
import { sameModel } from "../common/models.js";

export class Comparison {
  // `onSelect` is called when another model, or none, is selected; `onExplain` when the explained answer changes.
  constructor(onSelect, onExplain) {
    this.select = byId("compare");
    this.offered = false;
    this.button = byId("explain-second");
    this.select.addEventListener("change", onSelect);
    this.button.onclick = () => {
      this.button.ariaPressed = String(!this.explained);
      byId("second").classList.toggle("explained", this.explained);
      onExplain();
    };
  }

  get model() {
    return this.select.value;
  }

  // Whether the second answer, and not the first, is explained.
  get explained() {
    return this.button.ariaPressed === "true";
  }

  // Fill the selection: [identity, label] of each model that accepts the same input as the first.
  offer(models) {
    const before = this.select.value;
    this.select.replaceChildren(new Option("Compare with …", ""), ...models.map(([identity, label]) => new Option(label, identity)));
    this.select.value = sameModel(models.map(([identity]) => identity), before) ?? "";
    this.offered = models.length > 0;
    this.select.hidden = !this.offered;
  }

  // Compare with a model, by its identity, if it is offered.
  choose(identity) {
    if ([...this.select.options].some(({ value }) => value === identity)) this.select.value = identity;
  }

  // Show or hide the second answer; returns both answers as pieces of text, marked where they differ.
  show(first, second, language) {
    byId("second").hidden = second === null;
    if (second === null) {
      this.button.ariaPressed = "false";
      byId("second").classList.remove("explained");
      return [splitPieces(first), []];
    }
    byId("other").lang = language;
    return compare(first, second);
  }
}
