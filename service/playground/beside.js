// A second model's answer under the first's, the words in which they differ marked in both.

import { byId, element } from "./elements.js";

// Where two lists differ: for each, whether its items stand outside their longest common subsequence.
function differences(one, other) {
  const longest = Array.from({ length: one.length + 1 }, () => new Uint16Array(other.length + 1));
  for (let i = one.length - 1; i >= 0; i--) {
    for (let j = other.length - 1; j >= 0; j--) {
      longest[i][j] = one[i] === other[j] ? longest[i + 1][j + 1] + 1 : Math.max(longest[i + 1][j], longest[i][j + 1]);
    }
  }
  const apart = [one.map(() => true), other.map(() => true)];
  for (let i = 0, j = 0; i < one.length && j < other.length; ) {
    if (one[i] === other[j]) apart[0][i++] = apart[1][j++] = false;
    else if (longest[i + 1][j] >= longest[i][j + 1]) i++;
    else j++;
  }
  return apart;
}

const pieces = (text) => text.match(/\s+|\S+/gu) ?? [];
const marked = (parts, apart) => parts.map((part, i) => (apart[i] && part.trim() ? element("mark", { textContent: part }) : part));

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

  // The two answers; without a second one the first stands alone.
  show(first, second, said) {
    byId("second").hidden = !second;
    const translation = byId("translation");
    if (!second) {
      this.inside.ariaPressed = "false";
      byId("second").classList.remove("looked");
      return translation.replaceChildren(first.text);
    }
    const parts = [first, second].map(({ text }) => pieces(text));
    const apart = differences(...parts);
    translation.replaceChildren(...marked(parts[0], apart[0]));
    byId("other").replaceChildren(...marked(parts[1], apart[1]));
    byId("other").lang = translation.lang;
    byId("other-by").textContent = said;
  }
}
