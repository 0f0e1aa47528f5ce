// The playground: type, and see what the model writes and what every word of it looked at.

import * as api from "./api.js";
import { byId, element, segments } from "./elements.js";
import { drawHeatmap } from "./heatmap.js";
import { Interlinear } from "./interlinear.js";

const ALTERNATIVES = 3;
const QUIET = 200; // milliseconds before waiting shows at all
const TITLES = { attention: "Attention", word_attention: "Words", gated: "Gated", uam: "UAM" };
const TASKS = {
  translation: { title: "Translate", ask: api.translate, text: (answer) => answer.translatedText },
  summarization: { title: "Summarize", ask: api.summarize, text: (answer) => answer.summaries },
};

const [text, source, target, model] = ["text", "source", "target", "model"].map(byId);
const [translation, problem, looks, hint] = ["translation", "problem", "looks", "hint"].map(byId);
const gloss = new Interlinear(byId("gloss"));
const names = new Map();

let served = [];
let limit = 5000;
let typing = 500;
let task = "translation";
let matrix = "attention";
let shown = null; // the answer that stands on the page
let asking = new AbortController();
let timer = 0;

const translating = () => task === "translation";
const fitting = () => served.filter((m) => m.task === task && (!model.value || identity(m) === model.value));
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

// The tasks that are served, and the models for the one that is chosen.
function choose(chosen) {
  task = chosen;
  const there = Object.entries(TASKS).filter(([name]) => served.some((m) => m.task === name));
  segments(byId("tasks"), Object.fromEntries(there.map(([name, { title }]) => [name, title])), task, (other) => {
    clear();
    choose(other);
    byId("tasks").querySelector("[aria-pressed=true]").focus();
    schedule(0);
  });
  const choices = served.filter((m) => m.task === task).map((m) => new Option(label(m), identity(m)));
  model.replaceChildren(...(translating() && choices.length > 1 ? [new Option("Model by languages", "")] : []), ...choices);
  for (const id of ["source", "target"]) byId(id).hidden = !translating();
  for (const id of ["given", "written"]) byId(id).hidden = translating();
  offer();
  scores();
}

// The languages that can be chosen with the model that is chosen; a pair that is not served is not offered.
function offer() {
  if (!translating()) return mark();
  const pairs = fitting().map((m) => m.languages);
  refill(source, [new Option("Detect language", "auto"), ...options(unique(pairs.map((p) => p.source)))]);
  const possible = pairs.filter((p) => source.value === "auto" || p.source === source.value);
  refill(target, options(unique(possible.map((p) => p.target))));
  mark();
}

// The languages of what is read and of what is written.
function pair(detected) {
  if (translating()) return [source.value === "auto" ? detected : source.value, target.value];
  const { source: from, target: into } = fitting()[0].languages;
  return [from, into];
}

function mark(detected) {
  const [from, into] = pair(detected);
  byId("pair-mark").textContent = [...new Set([from, into])].filter(Boolean).join(" ⁄ ").toUpperCase() || "\u00a0";
  byId("detected").textContent = translating() && source.value === "auto" && detected ? (names.get(detected) ?? detected) : "";
  const back = translating() && fitting().some((m) => m.languages.source === target.value && m.languages.target === from);
  byId("swap").hidden = !back;
  text.lang = from ?? "";
  translation.lang = into ?? "";
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
    if (translating() && source.value === "auto") await turn(signal);
    const given = translating() ? { q: text.value, source: source.value, target: target.value } : { text: text.value };
    const request = { ...given, explain: true };
    const widest = Math.max(...fitting().map((m) => m.accepts.beam_size));
    if (widest > 1) request.alternatives = Math.min(ALTERNATIVES, widest - 1);
    if (model.value) request.model = model.value;
    const started = performance.now();
    const answer = await TASKS[task].ask(request, signal);
    if (signal.aborted) return; // a newer text is on its way
    const languages = pair(answer.detectedLanguage?.language);
    show({ ...answer, text: TASKS[task].text(answer), languages, milliseconds: performance.now() - started });
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
  const pairs = fitting().map((m) => m.languages);
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
  translation.textContent = answer.text;
  byId("time").textContent = `${Math.round(answer.milliseconds)} ms`;
  byId("answered-by").textContent = `${answer.model.name} · ${version(answer.model)}`;
  for (const id of ["copy", "link"]) byId(id).disabled = false;
  mark(answer.detectedLanguage?.language);
  scores();
  const explanation = answer.explanations[0];
  const kinds = Object.keys(explanation.matrices);
  if (!kinds.includes(matrix)) matrix = kinds[0];
  segments(byId("matrices"), Object.fromEntries(kinds.map((kind) => [kind, TITLES[kind] ?? kind])), matrix, (kind) => {
    matrix = kind;
    draw();
  });
  hint.hidden = true;
  looks.hidden = !explanation.target.length;
  draw();
  alternatives();
}

function draw() {
  const { explanations, languages } = shown;
  gloss.show(explanations[0], matrix, languages);
  drawHeatmap(byId("heat"), explanations[0], matrix, byId("readout"));
}

function alternatives() {
  const texts = [shown.text, ...(shown.alternatives ?? [])];
  const items = texts.map((line, i) => {
    const score = shown.scores?.[i];
    const item = element("li", { textContent: line, dir: "auto", lang: shown.languages[1] ?? "" });
    if (score === undefined) return item;
    const bar = element("i");
    bar.style.width = `${(100 * Math.min(Math.exp(score), 1)).toFixed(1)}%`;
    item.append(element("small", { dir: "ltr" }, element("span", { className: "meter" }, bar), score.toFixed(2)));
    return item;
  });
  byId("alternatives").replaceChildren(...items);
}

function scores() {
  const one = fitting().find((m) => shown && identity(m) === identity(shown.model)) ?? fitting()[0];
  const made = [one?.recipe, one?.dataset].filter(Boolean).join(" on ");
  const entries = Object.entries(one?.scores ?? {}).map(([name, { score, signature }]) =>
    element("span", { textContent: `${name.replaceAll("_", " ").replace("bleu", "BLEU").replace("rouge", "ROUGE")} ${score.toFixed(1)}`, title: signature ?? "" }),
  );
  if (made) entries.push(element("span", { textContent: made }));
  byId("scores").replaceChildren(...entries.flatMap((entry, i) => (i ? [" · ", entry] : [entry])));
}

// What is on the page, as an address: the part behind # stays in the browser.
function address() {
  const choice = translating() ? { source: source.value, target: target.value } : { task };
  const parts = new URLSearchParams({ q: text.value, ...choice });
  if (model.value) parts.set("model", model.value);
  return `${location.origin}${location.pathname}#${parts}`;
}

function restore() {
  const parts = new URLSearchParams(location.hash.slice(1));
  const wanted = parts.get("task") ?? (parts.has("target") ? "translation" : task);
  if (wanted !== task && served.some((m) => m.task === wanted) && wanted in TASKS) choose(wanted);
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
  choose(Object.keys(TASKS).find((name) => served.some((m) => m.task === name)) ?? task);
  if (settings.language) target.value = settings.language.target.code;
  restore();
  mark();
  fit();
  byId("status").textContent = `ready · ${served.length} ${served.length === 1 ? "model" : "models"}`;
  if (text.value.trim()) ask();
}

text.addEventListener("input", () => { fit(); schedule(); });
text.addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) ask(); });
for (const select of [model, source, target]) select.addEventListener("change", () => { offer(); schedule(0); });
byId("clear").onclick = () => { text.value = ""; fit(); schedule(); text.focus(); };
byId("copy").onclick = ({ currentTarget }) => copy(currentTarget, shown.text);
byId("link").onclick = ({ currentTarget }) => copy(currentTarget, address());
byId("theme").onclick = theme;
byId("swap").onclick = () => {
  const from = source.value === "auto" ? shown?.detectedLanguage?.language : source.value;
  if (shown) text.value = shown.text;
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
