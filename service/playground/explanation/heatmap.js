// Matrix of attention weights: a row for each target word, a column for each source word, more colour for larger weights.
// Beside a target word stands its probability. With contextual gates a strip beside it shows, for each target word, the gate's share of word attention.

import { element, hovers, percent, setWord } from "../common/elements.js";

export function drawHeatmap(table, { source, target, gate, confidence, weights }, readout) {
  const heads = source.map(({ text }) => element("th", { scope: "col" }, setWord(element("div"), text)));
  if (gate) heads.push(element("th", { scope: "col", className: "gate" }, element("div", { textContent: "1 − gate" })));
  const shade = (weight, colour, className = "") => {
    const cell = element("td", { className, ariaLabel: weight.toFixed(2) });
    cell.style.backgroundColor = `rgb(var(${colour}) / ${(0.04 + 0.96 * Math.min(weight, 1)).toFixed(3)})`;
    return cell;
  };
  const rows = target.map(({ text }, t) => {
    const cells = source.map((_, s) => shade(weights[t]?.[s] ?? 0, "--hot"));
    if (gate) cells.push(shade(1 - gate[t], "--warm", "gate"));
    const head = setWord(element("th", { scope: "row" }), text);
    if (typeof confidence?.[t] === "number") head.append(" ", element("small", { textContent: percent(confidence[t]) }));
    return element("tr", {}, head, ...cells);
  });
  table.classList.toggle("many", source.length > 18 || target.length > 24);
  table.replaceChildren(element("thead", {}, element("tr", {}, element("td"), ...heads)), element("tbody", {}, ...rows));
  readout.textContent = "";

  const point = ({ target: cell }) => {
    const t = rows.indexOf(cell.parentElement), s = cell.cellIndex - 1;
    const onCell = t >= 0 && s >= 0;
    table.querySelectorAll("th.highlighted").forEach((head) => head.classList.remove("highlighted"));
    readout.textContent = !onCell ? "" : s < source.length
      ? `${target[t].text} ← ${source[s].text}  ${(weights[t]?.[s] ?? 0).toFixed(2)}`
      : `${target[t].text} ← word attention  ${(1 - gate[t]).toFixed(2)}`;
    if (onCell) for (const head of [heads[s], rows[t].firstChild]) head.classList.add("highlighted");
  };
  table.onpointerover = table.onclick = point;
  table.onpointerleave = (event) => {
    if (!hovers(event)) return; // a touched cell stays selected until another is touched
    table.querySelectorAll("th.highlighted").forEach((head) => head.classList.remove("highlighted"));
    readout.textContent = "";
  };
}
