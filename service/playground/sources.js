// Weights of several sources: each source's share for every output word, and its attention over the picture.

import { byId, element, hovers } from "./elements.js";

export const SOURCES = { source: "Source text", mt: "Machine translation", image: "Picture", sentinel: "Sentinel" };
const title = (name) => SOURCES[name] ?? name;

export class Sources {
  constructor(section) {
    this.section = section;
    [this.legend, this.words, this.readout] = ["legend", "came", "share"].map(byId);
    [this.frame, this.regions] = ["frame", "regions"].map(byId);
  }

  // Hidden for a model with a single source. `picture` is the URL of the picture that was sent.
  show({ target, sources, between }, picture, language) {
    const [name, image] = Object.entries(sources ?? {}).find(([, looks]) => looks.grid) ?? [];
    this.section.hidden = !target.length || !(between || image);
    if (this.section.hidden) return;
    Object.assign(this, { target, between: between ?? {}, image: image ?? null });
    this.kinds = Object.keys(this.between);
    this.legend.replaceChildren(...this.kinds.map((kind, i) => element("li", { className: `kind${i}` }, element("i"), title(kind))));
    this.frame.hidden = !(image && picture);
    if (!this.frame.hidden) this.lay(image.grid, picture);
    this.nodes = target.map(({ text }, i) => this.word(text, i));
    this.words.lang = language;
    this.words.replaceChildren(...this.nodes);
    const share = (i) => this.between[name]?.[i] ?? 0;
    this.pinned = target.reduce((best, _, i) => (share(i) > share(best) ? i : best), 0);
    this.point(this.pinned);
  }

  lay([rows, columns], picture) {
    byId("looked").src = picture;
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
    const node = element("button", { type: "button", ariaLabel: this.sentence(i) }, text, ...bars);
    node.onpointerenter = () => this.point(i);
    node.onpointerleave = (event) => hovers(event) && this.point(this.pinned);
    node.onfocus = node.onclick = () => this.point((this.pinned = i));
    node.onkeydown = (event) => {
      const next = { ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: this.nodes.length - 1 }[event.key];
      if (next === undefined) return;
      event.preventDefault();
      this.nodes[next]?.focus();
    };
    return node;
  }

  // A sentence that describes a word's weights.
  sentence(i) {
    const shares = this.kinds.map((kind) => `${title(kind).toLowerCase()} ${this.between[kind][i].toFixed(2)}`);
    if (this.image) {
      const weights = this.image.matrices.attention[i], columns = this.image.grid[1];
      const best = weights.indexOf(Math.max(...weights));
      shares.push(`in the picture most at row ${Math.floor(best / columns) + 1}, column ${(best % columns) + 1}: ${weights[best].toFixed(2)}`);
    }
    return `${this.target[i].text}: ${shares.join(", ")}`;
  }

  // Overlay a word's attention weights on the picture: small weights are dark, the largest has a frame.
  point(i) {
    this.nodes.forEach((node, place) => {
      node.classList.toggle("lit", place === i);
      node.tabIndex = place === this.pinned ? 0 : -1;
    });
    this.readout.textContent = this.sentence(i);
    if (this.frame.hidden) return;
    const weights = this.image.matrices.attention[i], most = Math.max(...weights);
    this.cells.forEach((cell, place) => {
      cell.style.backgroundColor = `rgb(0 0 0 / ${(0.72 * (1 - (most ? weights[place] / most : 0))).toFixed(3)})`;
      cell.classList.toggle("most", most > 0 && weights[place] === most);
      cell.textContent = weights[place].toFixed(2);
    });
  }
}
