// The playground: type, and see the translation and what every word of it looked at.

import * as api from "./api.js";
import { byId, element } from "./elements.js";
import { drawHeatmap } from "./heatmap.js";
import { Interlinear } from "./interlinear.js";

const ALTERNATIVES = 3;
const QUIET = 200; // milliseconds before waiting shows at all
const TITLES = { attention: "Attention", word_attention: "Words", gated: "Gated" };

const [text, source, target, model] = ["text", "source", "target", "model"].map(byId);
const [translation, problem, looks, hint] = ["translation", "problem", "looks", "hint"].map(byId);
const gloss = new Interlinear(byId("gloss"));
const names = new Map();

let served = [];
let limit = 5000;
let typing = 500;
let matrix = "attention";
let shown = null; // the answer that stands on the page
let asking = new AbortController();
let timer = 0;

const translators = () => served.filter((m) => m.task === "translation" && (!model.value || identity(m) === model.value));
const identity = (m) => `${m.name}@${m.version}`;
const version = (m) => (/^\d+$/.test(m.version) ? `v${m.version}` : m.version);
const label = (m) => [m.name, ...m.aliases, version(m)].join(" · ");
const unique = (codes) => [...new Set(codes)].sort();
const options = (codes) => codes.map((code) => new Option(names.get(code) ?? code, code));

function refill(select, entries) {
  const before = select.value;
  select.replaceChildren(...entries);
  select.value = entries.some((entry) => entry.value === before) ? before : (entries[0]?.value ?? "");
}

// The languages that can be chosen with the model that is chosen; a pair that is not served is not offered.
function offer() {
  const pairs = translators().map((m) => m.languages);
  refill(source, [new Option("Detect language", "auto"), ...options(unique(pairs.map((p) => p.source)))]);
  const fitting = pairs.filter((p) => source.value === "auto" || p.source === source.value);
  refill(target, options(unique(fitting.map((p) => p.target))));
  mark();
}

function mark(detected) {
  const from = source.value === "auto" ? detected : source.value;
  byId("pair-mark").textContent = [from, target.value].filter(Boolean).join(" ⁄ ").toUpperCase() || "\u00a0";
  byId("detected").textContent = source.value === "auto" && detected ? (names.get(detected) ?? detected) : "";
  const back = translators().some((m) => m.languages.source === target.value && m.languages.target === from);
  byId("swap").hidden = !back;
  text.lang = from ?? "";
  translation.lang = target.value;
}

function fit() {
  text.style.height = "auto";
  text.style.height = `${text.scrollHeight}px`;
  const length = [...text.value].length;
  byId("count").textContent = `${length.toLocaleString("en")} / ${limit.toLocaleString("en")}`;
  byId("count").classList.toggle("over", length > limit);
}

function say(sentence) {
  problem.textContent = sentence;
  problem.hidden = !sentence;
}

function clear() {
  shown = null;
  say("");
  translation.textContent = "";
  for (const id of ["time", "answered-by", "detected"]) byId(id).textContent = "";
  for (const id of ["copy", "link"]) byId(id).disabled = true;
  looks.hidden = true;
  hint.hidden = false;
  old(false);
}

function old(is) {
  translation.classList.toggle("old", is);
  looks.classList.toggle("old", is);
}

function schedule(delay = typing) {
  clearTimeout(timer);
  asking.abort();
  if (text.value.trim()) timer = setTimeout(ask, delay);
  else clear();
}

async function ask() {
  clearTimeout(timer);
  asking.abort();
  const { signal } = (asking = new AbortController());
  const waiting = setTimeout(() => old(true), QUIET);
  try {
    if (source.value === "auto") await turn(signal);
    const request = { q: text.value, source: source.value, target: target.value, explain: true };
    const widest = Math.max(...translators().map((m) => m.accepts.beam_size));
    if (widest > 1) request.alternatives = Math.min(ALTERNATIVES, widest - 1);
    if (model.value) request.model = model.value;
    const started = performance.now();
    const answer = await api.translate(request, signal);
    if (signal.aborted) return; // a newer text is on its way
    show({ ...answer, request, milliseconds: performance.now() - started });
  } catch (error) {
    if (signal.aborted) return;
    old(Boolean(shown));
    if (!(error instanceof api.Failure)) throw error;
    if (error.retryAfter) again(error, signal);
    else say(error.message);
  } finally {
    clearTimeout(waiting);
  }
}

// A text that is in the target language already is to be translated out of it, where a model can.
async function turn(signal) {
  const pairs = translators().map((m) => m.languages);
  if (!pairs.some((p) => p.source === target.value)) return;
  const [{ language }] = await api.detect(text.value, signal);
  const [first] = pairs.filter((p) => p.source === language);
  if (language === target.value && first) target.value = first.target;
}

// Come again when the service said, counting down, unless the text changes meanwhile.
function again(failure, signal) {
  let seconds = failure.retryAfter;
  const tick = () => {
    if (signal.aborted) return;
    if (seconds <= 0) return void ask();
    say(`${failure.message} Trying again in ${seconds} s.`);
    seconds -= 1;
    timer = setTimeout(tick, 1000);
  };
  tick();
}

function show(answer) {
  shown = answer;
  say("");
  old(false);
  translation.textContent = answer.translatedText;
  byId("time").textContent = `${Math.round(answer.milliseconds)} ms`;
  byId("answered-by").textContent = `${answer.model.name} · ${version(answer.model)}`;
  for (const id of ["copy", "link"]) byId(id).disabled = false;
  mark(answer.detectedLanguage?.language);
  scores();
  const explanation = answer.explanations[0];
  const kinds = Object.keys(explanation.matrices);
  if (!kinds.includes(matrix)) matrix = kinds[0];
  byId("matrices").replaceChildren(...(kinds.length > 1 ? kinds.map(choice) : []));
  hint.hidden = true;
  looks.hidden = !explanation.target.length;
  draw();
  alternatives();
}

function choice(kind) {
  const button = element("button", { type: "button", textContent: TITLES[kind] ?? kind, ariaPressed: String(kind === matrix) });
  button.onclick = () => {
    matrix = kind;
    for (const other of byId("matrices").children) other.ariaPressed = String(other === button);
    draw();
  };
  return button;
}

function draw() {
  const { explanations, request, detectedLanguage } = shown;
  gloss.show(explanations[0], matrix, [detectedLanguage?.language ?? request.source, request.target]);
  drawHeatmap(byId("heat"), explanations[0], matrix, byId("readout"));
}

function alternatives() {
  const texts = [shown.translatedText, ...(shown.alternatives ?? [])];
  const items = texts.map((line, i) => {
    const score = shown.scores?.[i];
    const item = element("li", { textContent: line, dir: "auto", lang: shown.request.target });
    if (score === undefined) return item;
    const bar = element("i");
    bar.style.width = `${(100 * Math.min(Math.exp(score), 1)).toFixed(1)}%`;
    item.append(element("small", { dir: "ltr" }, element("span", { className: "meter" }, bar), score.toFixed(2)));
    return item;
  });
  byId("alternatives").replaceChildren(...items);
}

function scores() {
  const one = translators().find((m) => shown && identity(m) === identity(shown.model)) ?? translators()[0];
  const made = [one?.recipe, one?.dataset].filter(Boolean).join(" on ");
  const entries = Object.entries(one?.scores ?? {}).map(([name, { score, signature }]) =>
    element("span", { textContent: `${name.replaceAll("_", " ").replace("bleu", "BLEU")} ${score.toFixed(1)}`, title: signature ?? "" }),
  );
  if (made) entries.push(element("span", { textContent: made }));
  byId("scores").replaceChildren(...entries.flatMap((entry, i) => (i ? [" · ", entry] : [entry])));
}

// What is on the page, as an address: the part behind # stays in the browser.
function address() {
  const parts = new URLSearchParams({ q: text.value, source: source.value, target: target.value });
  if (model.value) parts.set("model", model.value);
  return `${location.origin}${location.pathname}#${parts}`;
}

function restore() {
  const parts = new URLSearchParams(location.hash.slice(1));
  for (const [select, name] of [[model, "model"], [source, "source"], [target, "target"]]) {
    const wanted = parts.get(name);
    if ([...select.options].some((option) => option.value === wanted)) select.value = wanted;
    if (select !== target) offer();
  }
  if (parts.has("q")) text.value = parts.get("q");
}

async function copy(button, content) {
  const before = button.textContent;
  try {
    await navigator.clipboard.writeText(content);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Not allowed";
  }
  setTimeout(() => (button.textContent = before), 1200);
}

function theme() {
  const dark = getComputedStyle(document.documentElement).colorScheme === "dark";
  document.documentElement.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("theme", document.documentElement.dataset.theme);
}

async function begin() {
  const [models, languages, settings] = await Promise.all([api.models(), api.languages(), api.settings()]);
  served = models;
  for (const { code, name } of languages) names.set(code, name);
  [limit, typing] = [settings.charLimit, settings.frontendTimeout];
  const choices = served.filter((m) => m.task === "translation").map((m) => new Option(label(m), identity(m)));
  model.replaceChildren(...(choices.length > 1 ? [new Option("Model by languages", "")] : []), ...choices);
  offer();
  target.value = settings.language.target.code;
  restore();
  mark();
  scores();
  fit();
  byId("status").textContent = `ready · ${served.length} ${served.length === 1 ? "model" : "models"}`;
  if (text.value.trim()) ask();
}

text.addEventListener("input", () => { fit(); schedule(); });
text.addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) ask(); });
for (const select of [model, source, target]) select.addEventListener("change", () => { offer(); schedule(0); });
byId("clear").onclick = () => { text.value = ""; fit(); schedule(); text.focus(); };
byId("copy").onclick = ({ currentTarget }) => copy(currentTarget, shown.translatedText);
byId("link").onclick = ({ currentTarget }) => copy(currentTarget, address());
byId("theme").onclick = theme;
byId("swap").onclick = () => {
  const from = source.value === "auto" ? shown?.detectedLanguage?.language : source.value;
  if (shown) text.value = shown.translatedText;
  model.value = "";
  if (model.selectedIndex < 0) model.selectedIndex = 0;
  source.value = target.value;
  offer();
  target.value = from;
  fit();
  schedule(0);
};
addEventListener("hashchange", () => { restore(); fit(); schedule(0); });
addEventListener("resize", fit);
begin().catch((error) => say(error instanceof api.Failure ? error.message : "The page could not be set up."));
