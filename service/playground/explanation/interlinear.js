// Interlinear view: source words above target words, joined by lines whose width and opacity show the weight. The less
// probable a target word is, the stronger its underline; its tooltip has the probability. Doubtful words are dotted.
// Long text wraps into systems (pairs of rows) such that the lines between them have the least total weight.

import { doubtfulWords, markDoubtful } from "./doubtful-words.js";
import { element, hovers, percent, setWord, shorten } from "../common/elements.js";
import { runsRightToLeft } from "../common/words.js";

const MIN_WEIGHT = 0.08; // smaller weights are not drawn
const SVG = "http://www.w3.org/2000/svg";

export class Interlinear {
  // `onHighlight` is called with the side (0: source, 1: target) and index of the highlighted word, without arguments if none.
  constructor(container, onHighlight) {
    this.container = container;
    this.onHighlight = onHighlight;
    this.width = 0;
    this.drawing = document.createElementNS(SVG, "svg");
    this.drawing.setAttribute("aria-hidden", "true");
    new ResizeObserver(() => {
      if (this.explanation && Math.abs(container.clientWidth - this.width) > 1) this.draw();
    }).observe(container);
    document.fonts.ready.then(() => this.explanation && this.draw());
  }

  show(explanation, languages) {
    this.explanation = explanation;
    this.languages = languages;
    this.doubtful = [doubtfulWords(explanation, "source"), doubtfulWords(explanation, "target")];
    this.draw();
  }

  weight(source, target) {
    return this.explanation.weights[target]?.[source] ?? 0;
  }

  draw() {
    const { source, target } = this.explanation;
    this.width = this.container.clientWidth;
    this.words = [source, target].map((spans, side) => spans.map((span, index) => this.word(span.text, side, index)));
    const style = getComputedStyle(this.container);
    const room = this.width - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    const [widths, gap] = [this.measure(), this.width < 560 ? 4 : 14];
    this.systems = this.wrap(widths, room, gap).map((span) => this.system(span, widths, room, gap));
    this.container.classList.remove("dim");
    this.container.replaceChildren(this.drawing, ...this.systems.map(({ node }) => node));
    if (this.words[0].length) this.words[0][0].tabIndex = 0;
    this.drawLines();
  }

  word(text, side, index) {
    const node = setWord(element("span", { className: "word", tabIndex: -1 }), text);
    const confidence = this.confidence(side, index);
    if (confidence !== null) {
      node.style.setProperty("--doubt", (1 - confidence).toFixed(3));
      node.title = `${node.title ? `${node.title}, ` : ""}probability ${percent(confidence)}`;
    }
    markDoubtful(node, this.doubtful[side].get(index));
    node.setAttribute("role", "button");
    node.setAttribute("aria-label", this.describe(side, index));
    node.addEventListener("pointerenter", () => this.highlight(side, index));
    node.addEventListener("pointerleave", (event) => hovers(event) && this.highlight());
    node.addEventListener("pointerdown", () => node.focus({ preventScroll: true }));
    node.addEventListener("focus", () => this.onFocus(node, side, index));
    node.addEventListener("blur", () => this.highlight());
    node.addEventListener("keydown", (event) => this.onKey(event, side, index));
    return node;
  }

  // The probability of a target word; null for a source word, or if it is not known.
  confidence(side, index) {
    return side ? (this.explanation.confidence?.[index] ?? null) : null;
  }

  // The words of the other side that share weight with this one, in descending order of weight.
  partners(side, index) {
    const others = side ? this.explanation.source : this.explanation.target;
    return others
      .map((_, i) => ({ index: i, weight: side ? this.weight(i, index) : this.weight(index, i) }))
      .filter(({ weight }) => weight >= MIN_WEIGHT)
      .sort((a, b) => b.weight - a.weight);
  }

  // A word's partners and their weights, a target word's probability, and why it is doubtful, as text.
  describe(side, index) {
    const confidence = this.confidence(side, index);
    const probability = confidence === null ? "" : ` (${percent(confidence)})`;
    const [own, others] = [this.explanation[side ? "target" : "source"], this.explanation[side ? "source" : "target"]];
    const names = this.partners(side, index).map(({ index: i, weight }) => `${shorten(others[i].text)} ${weight.toFixed(2)}`);
    const doubt = this.doubtful[side].get(index);
    return `${shorten(own[index].text)}${probability}: ${names.join(", ") || `no weight of ${MIN_WEIGHT} or more`}${doubt ? ` – ${doubt}` : ""}`;
  }

  measure() {
    const probe = element("div", { className: "row" }, ...this.words.flat());
    probe.style.cssText = "position: absolute; visibility: hidden";
    this.container.replaceChildren(probe);
    return this.words.map((row) => row.map((word) => word.getBoundingClientRect().width));
  }

  // Break both rows so that each piece fits and the total weight of the lines between systems is minimal: a shortest path over
  // pairs (s, t) of positions in the two rows. An additional system, or an empty row, costs as much as cutting a line
  // of weight 1. Smaller costs make both rows advance evenly and leave free space at the end rather than before it.
  wrap([above, below], room, gap) {
    const before = (widths) => widths.reduce((sums, width) => [...sums, sums.at(-1) + width + gap], [0]);
    const [up, down] = [before(above), before(below)];
    const [S, T] = [above.length, below.length];
    if (up[S] - gap <= room && down[T] - gap <= room) return [{ from: [0, 0], to: [S, T] }];
    const drawnWeight = (s, t) => (this.weight(s, t) < MIN_WEIGHT ? 0 : this.weight(s, t));
    // sum[s][t]: total weight of the lines from the first s source words to the first t target words
    const sum = Array.from({ length: S + 1 }, () => new Float64Array(T + 1));
    for (let s = 1; s <= S; s++)
      for (let t = 1; t <= T; t++) sum[s][t] = drawnWeight(s - 1, t - 1) + sum[s - 1][t] + sum[s][t - 1] - sum[s - 1][t - 1];
    const cutWeight = (s, t) => sum[s][T] - sum[s][t] + (sum[S][t] - sum[s][t]);
    const cost = Array.from({ length: S + 1 }, () => new Float64Array(T + 1).fill(Infinity));
    const previous = Array.from({ length: S + 1 }, () => new Array(T + 1));
    cost[0][0] = 0;
    for (let s = 0; s <= S; s++)
      for (let t = 0; t <= T; t++) {
        if (cost[s][t] === Infinity) continue;
        for (let a = s; a <= S && (a <= s + 1 || up[a] - up[s] - gap <= room); a++)
          for (let b = t; b <= T && (b <= t + 1 || down[b] - down[t] - gap <= room); b++) {
            if (a === s && b === t) continue;
            const uneven = (a === s || b === t ? 1 : 0) + 0.5 * Math.abs(a / (S || 1) - b / (T || 1)); // a row may have no words
            const free = a === S && b === T ? 0 : 0.5 * (1 - Math.max(up[a] - up[s], down[b] - down[t]) / room);
            const total = cost[s][t] + 1 + cutWeight(a, b) + uneven + free;
            if (total < cost[a][b]) [cost[a][b], previous[a][b]] = [total, [s, t]];
          }
      }
    const systems = [];
    for (let to = [S, T]; to[0] || to[1]; to = previous[to[0]][to[1]]) systems.unshift({ from: previous[to[0]][to[1]], to });
    return systems;
  }

  // One pair of rows. The longer row is spaced out up to a limit; the other gets the same width, to keep partners close.
  system({ from, to }, widths, room, gap) {
    const spans = [0, 1].map((side) => ({ from: from[side], to: to[side] }));
    const sums = spans.map((span, side) => widths[side].slice(span.from, span.to).reduce((a, b) => a + b, 0));
    const gaps = spans.map((span) => Math.max(span.to - span.from - 1, 0));
    const width = Math.min(room, Math.max(...sums.map((sum, side) => sum + gaps[side] * (gap < 10 ? 16 : 44))));
    const rows = spans.map((span, side) => {
      const row = element("div", { className: `row ${side ? "target" : "source"}` }, ...this.words[side].slice(span.from, span.to));
      const natural = gaps[side] ? (width - sums[side]) / gaps[side] : 0;
      row.style.justifyContent = natural <= 90 && gaps[side] ? "space-between" : "center";
      row.style.gap = `${Math.min(natural, gap)}px`;
      row.style.width = `${width}px`;
      row.dir = runsRightToLeft(this.languages[side]) ? "rtl" : "ltr";
      row.lang = this.languages[side];
      return row;
    });
    if (rows[0].style.justifyContent === "center" || rows[1].style.justifyContent === "center")
      for (const row of rows) if (row.style.justifyContent === "center") row.style.gap = `${Math.max(gap, 40)}px`;
    return { node: element("div", { className: "system" }, ...rows), spans };
  }

  // Draw a line for each weight: from a source word down to a target word, or up to one in a system above.
  drawLines() {
    const origin = this.container.getBoundingClientRect();
    const places = this.words.map((row, side) => row.map((word, index) => {
      const box = word.getBoundingClientRect();
      const system = this.systems.findIndex(({ spans }) => index < spans[side].to);
      return { x: box.left + box.width / 2 - origin.left, top: box.top - origin.top - 3, bottom: box.bottom - origin.top + 3, system };
    }));
    this.paths = [];
    for (const [target, b] of places[1].entries())
      for (const [source, a] of places[0].entries()) {
        const weight = this.weight(source, target);
        if (weight < MIN_WEIGHT) continue;
        const [y, v] = a.system <= b.system ? [a.bottom, b.top] : [a.top, b.bottom];
        const path = document.createElementNS(SVG, "path");
        path.setAttribute("d", `M${a.x} ${y} C${a.x} ${(y + v) / 2} ${b.x} ${(y + v) / 2} ${b.x} ${v}`);
        path.setAttribute("stroke-width", (1 + 3.2 * weight).toFixed(2));
        path.classList.toggle("across", a.system !== b.system);
        this.paths.push({ path, source, target, weight });
      }
    this.drawing.replaceChildren(...this.paths.map(({ path }) => path));
    this.fade();
  }

  fade(side, index) {
    for (const { path, source, target, weight } of this.paths) {
      const unrelated = side !== undefined && (side ? target : source) !== index;
      path.style.opacity = unrelated ? 0.06 : 0.25 + 0.6 * weight;
    }
  }

  // Highlight a word and its partners, with the largest weights; without arguments, remove the highlight.
  highlight(side, index) {
    this.container.classList.toggle("dim", side !== undefined);
    for (const node of this.container.querySelectorAll(".word.highlighted")) node.classList.remove("highlighted");
    for (const node of this.container.querySelectorAll(".word small")) node.remove();
    if (side !== undefined) {
      this.words[side][index].classList.add("highlighted");
      this.partners(side, index).forEach(({ index: i, weight }, rank) => {
        this.words[1 - side][i].classList.add("highlighted");
        if (rank < 4) this.words[1 - side][i].append(element("small", { textContent: weight.toFixed(2) }));
      });
    }
    this.fade(side, index);
    this.onHighlight(side, index);
  }

  onFocus(node, side, index) {
    for (const other of this.words.flat()) other.tabIndex = other === node ? 0 : -1;
    this.highlight(side, index);
  }

  // Arrow keys move the focus along the row, or to the partner with the largest weight.
  onKey(event, side, index) {
    const forward = runsRightToLeft(this.languages[side]) ? "ArrowLeft" : "ArrowRight";
    const backward = forward === "ArrowRight" ? "ArrowLeft" : "ArrowRight";
    const partner = this.partners(side, index)[0]?.index;
    const next = {
      [forward]: this.words[side][index + 1],
      [backward]: this.words[side][index - 1],
      Home: this.words[side][0],
      End: this.words[side].at(-1),
      [side ? "ArrowUp" : "ArrowDown"]: this.words[1 - side][partner],
    }[event.key];
    if (event.key === "Escape") event.target.blur();
    if (!next) return;
    event.preventDefault();
    next.focus();
  }
}
