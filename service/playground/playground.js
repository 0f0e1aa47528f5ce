// The playground: type, and see what the model writes and what every word of it looked at.

import * as api from "./api.js";
import { Beside } from "./beside.js";
import { byId, element, segments } from "./elements.js";
import { drawEdits } from "./edits.js";
import { drawHeatmap } from "./heatmap.js";
import { Interlinear } from "./interlinear.js";
import { Picture } from "./picture.js";
import { SOURCES, Sources } from "./sources.js";

const HINT = document.getElementById("hint").textContent;
const ALTERNATIVES = 3;
const QUIET = 200; // milliseconds before waiting shows at all
const PATIENCE = 120; // seconds after which it is not tried again without being asked
const TITLES = { attention: "Attention", word_attention: "Words", gated: "Gated", uam: "UAM" };
const TASKS = {
  translation: {
    title: "Translate",
    ask: api.translate,
    text: (answer) => answer.translatedText,
    given: () => text.value.trim() && { q: text.value, ...chosen() },
  },
  multimodal: {
    title: "Picture",
    ask: api.multimodal,
    text: (answer) => answer.translatedText,
    given: () => (text.value.trim() || picture.file) && {
      ...(text.value.trim() && { q: text.value }),
      ...(picture.file && { image: picture.file }),
      ...chosen(),
    },
  },
  "post-edit": {
    title: "Post-edit",
    ask: api.postEdit,
    text: (answer) => answer.editedText,
    given: () => mt.value.trim() && {
      translation: mt.value,
      ...(text.value.trim() && { source_text: text.value }),
      ...chosen(),
    },
  },
  summarization: {
    title: "Summarize",
    ask: api.summarize,
    text: (answer) => answer.summaries,
    given: () => text.value.trim() && { text: text.value, long: "lead" },
  },
};

const [text, mt, source, target, model, key] = ["text", "mt", "source", "target", "model", "key"].map(byId);
const [translation, problem, looks, hint] = ["translation", "problem", "looks", "hint"].map(byId);
const gloss = new Interlinear(byId("gloss"));
const sources = new Sources(byId("sources"));
const beside = new Beside(() => schedule(0), () => look());
const picture = new Picture(() => task === "multimodal", () => schedule(0));
const names = new Map();

let served = [];
let limit = 5000;
let typing = 500;
let required = false; // whether nothing is answered without a key
let task = "translation";
let matrix = "attention";
let shown = null; // the answer that stands on the page
let second = null; // that of the model beside it
let asking = new AbortController();
let timer = 0;

const translating = () => task === "translation";
const pairing = () => task !== "summarization"; // there are two languages to choose
const detecting = () => pairing() && source.value === "auto";
const chosen = () => ({ source: source.value, target: target.value });
const fitting = () => served.filter((m) => m.task === task && (!model.value || identity(m) === model.value));
const identity = (m) => `${m.name}@${m.version}`;
const version = (m) => (/^\d+$/.test(m.version) ? `v${m.version}` : m.version);
const looked = () => (beside.looked ? second : shown); // the answer that is looked into
const label = (m) => [m.name, ...m.aliases, version(m)].join(" · ");
const keyless = () => required && !api.key();
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
  model.replaceChildren(...(pairing() && choices.length > 1 ? [new Option("Model by languages", "")] : []), ...choices);
  for (const id of ["source", "target"]) byId(id).hidden = !pairing();
  for (const id of ["given", "written"]) byId(id).hidden = pairing();
  byId("attach").hidden = task !== "multimodal";
  byId("draft").hidden = task !== "post-edit";
  offer();
  scores();
}

// The languages that can be chosen with the model that is chosen; a pair that is not served is not offered.
function offer() {
  if (!pairing()) {
    offerBeside();
    return mark();
  }
  const pairs = fitting().map((m) => m.languages);
  const detect = task === "post-edit" ? [] : [new Option("Detect language", "auto")];
  refill(source, [...detect, ...options(unique(pairs.map((p) => p.source)))]);
  const possible = pairs.filter((p) => source.value === "auto" || p.source === source.value);
  refill(target, options(unique(possible.map((p) => p.target))));
  offerBeside();
  mark();
}

// The models that can be set beside the one that answers: of the same task and languages.
function offerBeside() {
  const reads = (m) => !pairing() || (m.languages.target === target.value && [m.languages.source, "auto"].includes(source.value));
  const there = served.filter((m) => m.task === task && reads(m));
  const others = there.filter((m) => identity(m) !== model.value);
  beside.offer(there.length > 1 ? others.map((m) => [identity(m), label(m)]) : []);
}

// The languages of what is read and of what is written.
function pair(detected) {
  if (pairing()) return [source.value === "auto" ? detected : source.value, target.value];
  const { source: from, target: into } = fitting()[0].languages;
  return [from, into];
}

function mark(detected) {
  const [from, into] = pair(detected);
  byId("pair-mark").textContent = [...new Set([from, into])].filter(Boolean).join(" ⁄ ").toUpperCase() || "\u00a0";
  byId("detected").textContent = detecting() && detected ? (names.get(detected) ?? detected) : "";
  const back = translating() && fitting().some((m) => m.languages.source === target.value && m.languages.target === from);
  byId("swap").hidden = !back;
  text.lang = from ?? "";
  mt.lang = translation.lang = into ?? "";
}

function fit() {
  for (const area of [text, mt]) {
    area.style.height = "auto";
    area.style.height = `${area.scrollHeight}px`;
  }
  const length = Math.max(...[text, mt].map((area) => (area === mt && task !== "post-edit" ? 0 : [...area.value].length)));
  byId("count").textContent = `${length.toLocaleString("en")} / ${limit.toLocaleString("en")}`;
  byId("count").classList.toggle("over", length > limit);
}

function say(sentence) {
  problem.textContent = sentence;
  problem.hidden = !sentence;
}

// Work is refused for want of a good key: say so where the answer would be, and mark the field.
function lock(sentence) {
  key.ariaInvalid = "true";
  say(sentence);
}

function clear() {
  shown = second = null;
  say("");
  beside.show({ text: "" });
  note();
  for (const id of ["time", "answered-by", "detected"]) byId(id).textContent = "";
  for (const id of ["copy", "link"]) byId(id).disabled = true;
  looks.hidden = true;
  hint.hidden = false;
  hint.textContent = HINT;
  old(false);
}

function note(reduced) {
  byId("note").hidden = !reduced;
  if (reduced) byId("note").textContent = `The text is longer than the model reads: of its ${reduced.of} sentences the first ${reduced.sentences === 1 ? "one was" : `${reduced.sentences} were`} read.`;
}

function old(is) {
  for (const answer of [translation, byId("other")]) answer.classList.toggle("old", is);
  looks.classList.toggle("old", is);
}

// What stands there is no answer to what is asked now: it is faded, and not to be copied.
function outdated() {
  old(Boolean(shown));
  for (const id of ["time", "answered-by"]) byId(id).textContent = "";
  for (const id of ["copy", "link"]) byId(id).disabled = true;
}

function status(is) {
  byId("status").textContent = is === "ready" ? `ready · ${served.length} ${served.length === 1 ? "model" : "models"}` : `the service is ${is}`;
}

function schedule(delay = typing) {
  clearTimeout(timer);
  asking.abort();
  if (TASKS[task].given()) timer = setTimeout(ask, delay);
  else clear();
}

async function ask() {
  clearTimeout(timer);
  asking.abort();
  if (keyless()) return lock("This service asks for an API key.");
  const { signal } = (asking = new AbortController());
  const waiting = setTimeout(() => old(true), QUIET);
  try {
    if (translating() && detecting()) await turn(signal);
    const request = { ...TASKS[task].given(), explain: true };
    const widest = Math.max(...fitting().map((m) => m.accepts.beam_size));
    if (widest > 1) request.alternatives = Math.min(ALTERNATIVES, widest - 1);
    if (model.value) request.model = model.value;
    const requests = [request, ...(beside.model ? [{ ...request, model: beside.model }] : [])];
    const both = (change) => Promise.all(requests.map((one) => answered({ ...one, ...change }, signal)));
    // A text that is too long to be explained is translated all the same.
    const answers = await both({}).catch((error) => {
      if (error.fields?.includes("explain")) return both({ explain: false });
      throw error;
    });
    if (signal.aborted) return; // a newer text is on its way
    show(...answers);
  } catch (error) {
    if (signal.aborted) return;
    outdated();
    if (!(error instanceof api.Failure)) throw error;
    status(error.away ? "not answering" : "ready");
    if (error.locked) lock(error.message);
    else if (error.retryAfter && error.retryAfter <= PATIENCE) again(error, signal);
    else say(error.message);
  } finally {
    clearTimeout(waiting);
  }
}

async function answered(request, signal) {
  const started = performance.now();
  const answer = await TASKS[task].ask(request, signal);
  const languages = pair(answer.detectedLanguage?.language);
  return { ...answer, text: TASKS[task].text(answer), languages, picture: request.image && picture.address, milliseconds: performance.now() - started };
}

// A text that is in the target language already is to be translated out of it, where a model can.
async function turn(signal) {
  const pairs = fitting().map((m) => m.languages);
  if (!pairs.some((p) => p.source === target.value)) return;
  const [{ language }] = await api.detect(text.value, signal);
  const [first] = pairs.filter((p) => p.source === language);
  if (language !== target.value || !first) return;
  target.value = first.target;
  offerBeside();
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

function show(answer, other = null) {
  [shown, second] = [answer, other];
  key.ariaInvalid = "false";
  say("");
  status("ready");
  old(false);
  const took = ({ milliseconds }) => `${Math.round(milliseconds)} ms`;
  const by = ({ model }) => `${model.name} · ${version(model)}`;
  beside.show(answer, other, other && `${took(other)} · ${by(other)}`);
  byId("time").textContent = took(answer);
  note(answer.reduced);
  byId("answered-by").textContent = by(answer);
  for (const id of ["copy", "link"]) byId(id).disabled = false;
  mark(answer.detectedLanguage?.language);
  look();
}

// What the answer that is looked into has to show.
function look() {
  scores();
  const { explanations } = looked();
  if (!explanations) {
    hint.hidden = false;
    hint.textContent = "This text is too long to show what the model looked at. Translate a part of it to see that.";
    looks.hidden = true;
    return;
  }
  const kinds = views(explanations[0]);
  if (!(matrix in kinds)) matrix = Object.keys(kinds)[0];
  segments(byId("matrices"), Object.fromEntries(Object.entries(kinds).map(([kind, { title }]) => [kind, title])), matrix, (kind) => {
    matrix = kind;
    draw();
  });
  hint.hidden = true;
  looks.hidden = !explanations[0].target.length;
  draw();
  alternatives();
}

// What the words can be shown beside: the matrices of a text, or of each of several.
function views(explanation) {
  const { target, sources: several, gate } = explanation;
  const own = (title, source, weights) => ({ title, explanation: { source, target, gate, matrices: { weights } } });
  const kinds = Object.entries(several ?? { "": { words: explanation.source, matrices: explanation.matrices } }).flatMap(([name, { words, matrices }]) =>
    !words ? [] : Object.entries(matrices).map(([kind, weights]) => {
      const title = [name && (SOURCES[name] ?? name), (!name || Object.keys(matrices).length > 1) && (TITLES[kind] ?? kind)];
      return [name + kind, { name, ...own(title.filter(Boolean).join(", "), words, weights) }];
    }),
  );
  return Object.fromEntries(kinds);
}

function draw() {
  const { explanations, languages, operations, picture } = looked();
  const view = views(explanations[0])[matrix];
  for (const id of ["lines", "table"]) byId(id).hidden = !view;
  drawEdits(operations, languages[1]);
  sources.show(explanations[0], picture, languages[1] ?? "");
  if (!view) return;
  gloss.show(view.explanation, "weights", view.name === "mt" ? [languages[1], languages[1]] : languages);
  drawHeatmap(byId("heat"), view.explanation, "weights", byId("readout"));
}

function alternatives() {
  const answer = looked();
  const texts = [answer.text, ...(answer.alternatives ?? [])];
  const items = texts.map((line, i) => {
    const score = answer.scores?.[i];
    const item = element("li", { textContent: line, dir: "auto", lang: answer.languages[1] ?? "" });
    if (score === undefined) return item;
    const bar = element("i");
    bar.style.width = `${(100 * Math.min(Math.exp(score), 1)).toFixed(1)}%`;
    item.append(element("small", { dir: "ltr" }, element("span", { className: "meter" }, bar), score.toFixed(2)));
    return item;
  });
  byId("alternatives").replaceChildren(...items);
}

function scores() {
  const one = served.find((m) => shown && identity(m) === identity(looked().model)) ?? fitting()[0];
  const made = [one?.recipe, one?.dataset].filter(Boolean).join(" on ");
  const entries = Object.entries(one?.scores ?? {}).map(([name, { score, signature }]) =>
    element("span", { textContent: `${name.replaceAll("_", " ").replace("bleu", "BLEU").replace("rouge", "ROUGE")} ${score.toFixed(1)}`, title: signature ?? "" }),
  );
  if (made) entries.push(element("span", { textContent: made }));
  byId("scores").replaceChildren(...entries.flatMap((entry, i) => (i ? [" · ", entry] : [entry])));
}

// What is on the page, as an address: the part behind # stays in the browser.
function address() {
  const choice = { ...(!translating() && { task }), ...(pairing() && chosen()), ...(task === "post-edit" && { mt: mt.value }) };
  const parts = new URLSearchParams({ q: text.value, ...choice });
  if (model.value) parts.set("model", model.value);
  if (beside.model) parts.set("beside", beside.model);
  return `${location.origin}${location.pathname}#${parts}`;
}

function restore() {
  const parts = new URLSearchParams(location.hash.slice(1));
  const wanted = parts.get("task") ?? (parts.has("target") ? "translation" : task);
  if (wanted !== task && served.some((m) => m.task === wanted) && wanted in TASKS) choose(wanted);
  for (const [select, name] of [[model, "model"], [source, "source"], [target, "target"], [beside.select, "beside"]]) {
    const wanted = parts.get(name);
    if ([...select.options].some((option) => option.value === wanted)) select.value = wanted;
    if (select !== beside.select) offer();
  }
  if (parts.has("q")) text.value = parts.get("q");
  if (parts.has("mt")) mt.value = parts.get("mt");
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
  [limit, typing, required] = [settings.charLimit, settings.frontendTimeout, settings.keyRequired];
  byId("access").hidden = !settings.apiKeys;
  key.value = api.key();
  choose(Object.keys(TASKS).find((name) => served.some((m) => m.task === name)) ?? task);
  if (settings.language) target.value = settings.language.target.code;
  restore();
  mark();
  fit();
  status("ready");
  if (TASKS[task].given() || keyless()) ask();
}

for (const area of [text, mt]) {
  area.addEventListener("input", () => { fit(); schedule(); });
  area.addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) schedule(0); });
}
for (const select of [model, source, target]) select.addEventListener("change", () => { offer(); schedule(0); });
key.addEventListener("change", () => {
  api.keep(key.value.trim());
  key.ariaInvalid = "false";
  say("");
  schedule(0);
});
byId("clear").onclick = () => { text.value = mt.value = ""; picture.take(null); fit(); schedule(); text.focus(); };
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
