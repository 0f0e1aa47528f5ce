// Attention of a model with several sources: the share of each source for every output word, and the weights over the image.

import { byId, element, hovers } from "../common/elements.js";

export const SOURCES = { source: "Source text", mt: "Machine translation", image: "Image", sentinel: "Sentinel" };
const title = (name) => SOURCES[name] ?? name;

export class SourceWeights {
  constructor(section) {
    this.section = section;
    [this.legend, this.words, this.readout] = ["legend", "answer-words", "source-shares"].map(byId);
    [this.frame, this.regions] = ["frame", "regions"].map(byId);
  }

  // Hidden for a model with a single source. `url` is that of the image that was sent.
  show({ target, sources, between }, url, language) {
    const [name, image] = Object.entries(sources ?? {}).find(([, weights]) => weights.grid) ?? [];
    this.section.hidden = !target.length || !(between || image);
    if (this.section.hidden) return;
    Object.assign(this, { target, between: between ?? {}, image: image ?? null });
    this.kinds = Object.keys(this.between);
    this.legend.replaceChildren(...this.kinds.map((kind, i) => element("li", { className: `kind${i}` }, element("i"), title(kind))));
    this.frame.hidden = !(image && url);
    if (!this.frame.hidden) this.drawGrid(image.grid, url);
    this.nodes = target.map(({ text }, i) => this.word(text, i));
    this.words.lang = language;
    this.words.replaceChildren(...this.nodes);
    const share = (i) => this.between[name]?.[i] ?? 0;
    const named = [...target.keys()].filter((i) => /[\p{L}\p{N}]/u.test(target[i].text)); // not a punctuation mark
    this.pinned = (named.length ? named : [0]).reduce((best, i) => (share(i) > share(best) ? i : best));
    this.select(this.pinned);
  }

  drawGrid([rows, columns], url) {
    byId("attention-image").src = url;
    this.regions.style.gridTemplate = `repeat(${rows}, 1fr) / repeat(${columns}, 1fr)`;
    this.regions.classList.toggle("few", rows * columns <= 16);
    this.cells = Array.from({ length: rows * columns }, () => element("span"));
    this.regions.replaceChildren(...this.cells);
  }

  word(text, i) {
    const bars = this.kinds.map((kind, place) => {
      const bar = element("i");
      bar.style.width = `${(100 * this.between[kind][i]).toFixed(1)}%`;
      return element("span", { className: `bar kind${place}` }, bar);
    });
    const node = element("button", { type: "button", ariaLabel: this.describe(i) }, text, ...bars);
    node.onpointerenter = () => this.select(i);
    node.onpointerleave = (event) => hovers(event) && this.select(this.pinned);
    node.onfocus = node.onclick = () => this.select((this.pinned = i));
    node.onkeydown = (event) => {
      const next = { ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: this.nodes.length - 1 }[event.key];
      if (next === undefined) return;
      event.preventDefault();
      this.nodes[next]?.focus();
    };
    return node;
  }

  // A word's weights, as text.
  describe(i) {
    const shares = this.kinds.map((kind) => `${title(kind).toLowerCase()} ${this.between[kind][i].toFixed(2)}`);
    if (this.image) {
      const weights = this.image.matrices.attention[i], columns = this.image.grid[1];
      const best = weights.indexOf(Math.max(...weights));
      shares.push(`largest weight in the image at row ${Math.floor(best / columns) + 1}, column ${(best % columns) + 1}: ${weights[best].toFixed(2)}`);
    }
    return `${this.target[i].text}: ${shares.join(", ")}`;
  }

  // Overlay a word's attention weights on the image: small weights are dark, the largest has a frame.
  select(i) {
    this.nodes.forEach((node, place) => {
      node.classList.toggle("highlighted", place === i);
      node.tabIndex = place === this.pinned ? 0 : -1;
    });
    this.readout.textContent = this.describe(i);
    if (this.frame.hidden) return;
    const weights = this.image.matrices.attention[i], most = Math.max(...weights);
    this.cells.forEach((cell, place) => {
      cell.style.backgroundColor = `rgb(0 0 0 / ${(0.72 * (1 - (most ? weights[place] / most : 0))).toFixed(3)})`;
      cell.classList.toggle("most", most > 0 && weights[place] === most);
      cell.textContent = weights[place].toFixed(2);
    });
  }
}
