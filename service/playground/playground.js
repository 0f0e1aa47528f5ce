// The playground page: sends typed text to a model and shows its output with the attention weights of every word.

import { drawAlternatives } from "./alternatives.js";
import * as api from "./api.js";
import { Beside } from "./beside.js";
import { judge } from "./detection.js";
import { copy } from "./copy.js";
import { byId, element, segments } from "./elements.js";
import { drawEdits } from "./edits.js";
import { drawHeatmap } from "./heatmap.js";
import { Interlinear } from "./interlinear.js";
import { Picture } from "./picture.js";
import { Sentences } from "./sentences.js";
import { ServiceStatus } from "./service-status.js";
import { SOURCES, Sources } from "./sources.js";
import { drawStart } from "./start.js";
import { Words } from "./words.js";

const ALTERNATIVES = 3;
const LONGEST_WAIT = 1000; // milliseconds of typing after which the text is sent even without a pause
const QUIET = 200; // milliseconds before the page shows that it is waiting
const PATIENCE = 120; // a longer Retry-After, in seconds, is not retried automatically
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
const gloss = new Interlinear(byId("gloss"), (side, index) => lit(side, index));
const answers = [translation, byId("other")].map((node, place) => new Words(node, (index) => point(place, index)));
const sentences = new Sentences((part) => drawSentence(part));
const service = new ServiceStatus(byId("status"), () => begin());
const sources = new Sources(byId("sources"));
const beside = new Beside(() => schedule(0), () => look());
const picture = new Picture(() => task === "multimodal", () => schedule(0));
const names = new Map();

let served = [];
let limit = 5000;
let typing = 500;
let required = false; // whether the service requires an API key
let task = "translation";
let matrix = "attention";
let shown = null; // the displayed answer
let second = null; // the answer of the second model
let certainty = null; // result of language detection
let asking = null; // AbortController of the request in flight
let timer = 0; // timer that sends the text after a pause
let longest = 0; // timer that sends the text after LONGEST_WAIT
let begun = false;

const translating = () => task === "translation";
const pairing = () => task !== "summarization"; // the user selects two languages
const detecting = () => pairing() && source.value === "auto";
const chosen = () => ({ source: source.value, target: target.value });
const fitting = () => served.filter((m) => m.task === task && (!model.value || identity(m) === model.value));
const identity = (m) => `${m.name}@${m.version}`;
const named = (m) => (/^\d+$/.test(m.version) ? `${m.name}, version ${m.version}` : m.name); // other versions are checksums
const looked = () => (beside.looked ? second : shown); // the answer that is explained
const label = (m) => [named(m), ...m.aliases].join(", ");
const keyless = () => required && !api.key();
const unique = (codes) => [...new Set(codes)].sort();
const language = (code) => names.get(code) ?? code;
const options = (codes) => codes.map((code) => new Option(language(code), code));

function refill(select, entries) {
  const before = select.value;
  select.replaceChildren(...entries);
  select.value = entries.some((entry) => entry.value === before) ? before : (entries[0]?.value ?? "");
}

// Show the tasks served, and the models of the chosen task.
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
  model.replaceChildren(...(pairing() && choices.length > 1 ? [new Option("Any model", "")] : []), ...choices);
  for (const id of ["source", "target"]) byId(id).hidden = !pairing();
  for (const id of ["given", "written"]) byId(id).hidden = pairing();
  byId("attach").hidden = task !== "multimodal";
  byId("draft").hidden = task !== "post-edit";
  offer();
  scores();
}

// Show the start page, before anything is typed.
function start() {
  const fits = (m) => !pairing() || (m.languages.target === target.value && [m.languages.source, "auto"].includes(source.value));
  drawStart(fitting().find(fits), language, (example) => {
    const { mt: draft = "", ...texts } = example;
    [text.value, mt.value] = [Object.values(texts)[0] ?? "", draft];
    fit();
    schedule(0);
    text.focus();
  });
}

// Fill the language selections for the selected model; only pairs that are served are offered.
function offer() {
  if (!pairing()) {
    offerBeside();
    start();
    return mark();
  }
  const pairs = fitting().map((m) => m.languages);
  const detect = task === "post-edit" ? [] : [new Option("Detect language", "auto")];
  refill(source, [...detect, ...options(unique(pairs.map((p) => p.source)))]);
  const possible = pairs.filter((p) => source.value === "auto" || p.source === source.value);
  refill(target, options(unique(possible.map((p) => p.target))));
  offerBeside();
  start();
  mark();
}

// Offer the models that can be compared with the selected one: same task and languages.
function offerBeside() {
  const reads = (m) => !pairing() || (m.languages.target === target.value && [m.languages.source, "auto"].includes(source.value));
  const there = served.filter((m) => m.task === task && reads(m));
  const others = there.filter((m) => identity(m) !== model.value);
  beside.offer(there.length > 1 ? others.map((m) => [identity(m), label(m)]) : []);
}

// The source languages from which the selected models translate into the selected target language.
const possible = () => unique(fitting().map((m) => m.languages).filter((p) => p.target === target.value).map((p) => p.source));

// The languages of the input and of the output.
function pair(detected) {
  if (pairing()) return [source.value === "auto" ? detected : source.value, target.value];
  const { source: from, target: into } = fitting()[0].languages;
  return [from, into];
}

function mark(detected) {
  const [from, into] = pair(detected ?? (possible().length === 1 ? possible()[0] : undefined));
  const [first, last] = [from, into].map((code) => code && language(code));
  byId("pair-mark").textContent = first && first !== last ? `${first} to ${last}` : (last ?? "\u00a0");
  const certain = certainty?.certain ?? true;
  byId("detected").textContent = detecting() && detected ? `${language(detected)}${certain ? "" : ", not certain"}` : "";
  byId("detected").title = certain ? "" : "The text is short, or not much like this language.";
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

// The API key is missing or refused: show a message in place of the answer and mark the key field.
function lock(sentence) {
  key.ariaInvalid = "true";
  say(sentence);
}

function clear() {
  shown = second = certainty = null;
  say("");
  wonder("");
  answers[0].write([]);
  beside.show("", null);
  note();
  for (const id of ["time", "answered-by", "detected", "from"]) byId(id).textContent = "";
  for (const id of ["copy", "link"]) byId(id).disabled = true;
  looks.hidden = hint.hidden = true;
  byId("start").hidden = false;
  old(false);
  stale(false);
}

function note(reduced) {
  byId("note").hidden = !reduced;
  if (reduced) byId("note").textContent = `The text is longer than the model reads: of its ${reduced.of} sentences the first ${reduced.sentences === 1 ? "one was" : `${reduced.sentences} were`} read.`;
}

function explain(sentence) {
  hint.hidden = !sentence;
  hint.textContent = sentence;
}

function old(is) {
  for (const answer of [translation, byId("other")]) answer.classList.toggle("old", is);
  looks.classList.toggle("old", is);
}

// Mark the displayed answer as belonging to an earlier text and disable its interaction, or undo that.
function stale(is) {
  byId("stale").hidden = !is;
  for (const node of [translation, byId("second"), looks]) node.inert = is;
}

// The request failed: fade the old answer and disable copying it.
function outdated() {
  old(Boolean(shown));
  stale(Boolean(shown));
  for (const id of ["time", "answered-by", "from"]) byId(id).textContent = "";
  for (const id of ["copy", "link"]) byId(id).disabled = true;
}

// Send the text after `delay` milliseconds and abort a request in flight.
function schedule(delay) {
  stop();
  if (TASKS[task].given()) timer = setTimeout(ask, delay);
  else clear();
}

// On typing: send the text after a pause, or after LONGEST_WAIT. A request in flight is not aborted.
function typed() {
  fit();
  if (!TASKS[task].given()) return schedule(0);
  clearTimeout(timer);
  timer = setTimeout(ask, typing);
  longest ||= setTimeout(() => {
    longest = 0;
    if (asking) asking.again = true;
    else ask();
  }, LONGEST_WAIT);
}

function stop() {
  clearTimeout(timer);
  clearTimeout(longest);
  timer = longest = 0;
  asking?.abort();
  asking = null;
}

async function ask() {
  stop();
  if (keyless()) return lock("This service asks for an API key.");
  const own = (asking = new AbortController());
  const { signal } = own;
  const begins = performance.now();
  const waiting = setTimeout(() => old(true), QUIET);
  try {
    const judged = await detected(signal);
    if (judged?.doubt) return wonder(judged.doubt);
    certainty = judged;
    const request = { ...TASKS[task].given(), explain: true };
    const widest = Math.max(...fitting().map((m) => m.accepts.beam_size));
    if (widest > 1) request.alternatives = Math.min(ALTERNATIVES, widest - 1);
    if (model.value) request.model = model.value;
    const requests = [request, ...(beside.model ? [{ ...request, model: beside.model }] : [])];
    const follow = (beginning) => {
      if (requests.length === 1 && performance.now() - begins > QUIET && !signal.aborted) partly(beginning);
    };
    const both = (change) => Promise.all(requests.map((one) => answered({ ...one, ...change }, signal, follow)));
    // A text too long for an explanation is translated without one.
    const found = await both({}).catch((error) => {
      if (error.fields?.includes("explain")) return both({ explain: false });
      throw error;
    });
    if (signal.aborted) return; // a newer request has replaced this one
    show(...found);
  } catch (error) {
    if (signal.aborted) return;
    outdated();
    if (!(error instanceof api.Failure)) throw error;
    if (error.away) service.away();
    else service.ready(served.length);
    if (error.locked) lock(error.message);
    else if (error.retryAfter && error.retryAfter <= PATIENCE) again(error, signal);
    else say(error.message);
  } finally {
    clearTimeout(waiting);
    translation.style.minHeight = "";
    if (asking === own) {
      asking = null;
      if (own.again) ask();
    }
  }
}

async function answered(request, signal, follow) {
  const started = performance.now();
  const answer = await TASKS[task].ask(request, signal, follow);
  const languages = pair(answer.detectedLanguage?.language);
  const given = request.q ?? request.text ?? request.source_text ?? "";
  return { ...answer, given, taken: 0, text: TASKS[task].text(answer), languages, picture: request.image && picture.address, milliseconds: performance.now() - started };
}

// Show the output so far while the search runs, without moving the page below.
function partly(beginning) {
  wonder("");
  translation.style.minHeight = `${Math.max(translation.clientHeight, parseFloat(translation.style.minHeight) || 0)}px`;
  translation.classList.remove("old");
  translation.textContent = beginning;
}

// Detect the language of the text, if requested. If the text is already in the target language, swap the languages
// if a model supports that.
async function detected(signal) {
  if (!detecting() || !text.value.trim()) return null;
  const guesses = await api.detect(text.value, signal);
  const [{ language: likeliest }] = guesses;
  const back = fitting().find(({ languages }) => languages.source === likeliest);
  if (translating() && likeliest === target.value && back) {
    target.value = back.languages.target;
    offerBeside();
  }
  return judge(text.value, guesses, possible(), language);
}

// Explain why a text is not translated automatically, and offer to translate it.
function wonder(doubt) {
  byId("doubt").hidden = true;
  if (!doubt) return;
  clear();
  service.ready(served.length);
  byId("start").hidden = true;
  byId("doubt").hidden = false;
  byId("doubt").firstChild.textContent = doubt;
  byId("anyway").textContent = `Translate it as ${possible().map(language).join(" or ")}`;
}

// Retry after the time that the service stated, with a countdown, unless the text changes meanwhile.
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
  wonder("");
  service.ready(served.length);
  old(false);
  stale(false);
  const took = ({ milliseconds }) => `${Math.round(milliseconds)} ms`;
  byId("time").textContent = took(answer);
  note(answer.reduced);
  byId("answered-by").textContent = named(answer.model);
  byId("answered-by").title = identity(answer.model);
  byId("other-by").textContent = other ? `${took(other)} · ${named(other.model)}` : "";
  for (const id of ["copy", "link"]) byId(id).disabled = false;
  byId("start").hidden = true;
  mark(answer.detectedLanguage?.language);
  write();
  look();
}

// The outputs of an answer, best first; and the one that is selected.
const choices = (answer) => [answer.text, ...(answer.alternatives ?? [])];
const written = (answer) => choices(answer)[answer.taken];

// Show the answers. Words are interactive only in the explained answer, and only if its best output is selected.
function write() {
  const pieces = beside.show(written(shown), second && written(second), shown.languages[1] ?? "");
  [shown, second].forEach((answer, place) => {
    const reacts = answer && answer === looked() && !answer.taken;
    answers[place].write(pieces[place], reacts ? (answer.explanations?.[0].target ?? []) : []);
  });
  byId("from").textContent = "";
}

// Show alternatives, scores and attention of the answer that is explained.
function look() {
  scores();
  write();
  const { explanations, taken } = looked();
  looks.hidden = !explanations?.[0].target.length;
  explain(explanations ? "" : "This text is too long to show what the model looked at. Translate a part of it to see that.");
  if (!explanations) return;
  drawAlternatives(odds(), (place) => {
    looked().taken = place;
    look();
    byId("alternatives").querySelector("button")?.focus({ preventScroll: true });
  });
  if (taken) {
    explain("What is shown above is an alternative. What the model looked at is known for its first choice.");
    for (const id of ["lines", "table", "edited", "sources"]) byId(id).hidden = true;
    return;
  }
  const kinds = views(explanations[0]);
  if (!(matrix in kinds)) matrix = Object.keys(kinds)[0];
  segments(byId("matrices"), Object.fromEntries(Object.entries(kinds).map(([kind, { title }]) => [kind, title])), matrix, (kind) => {
    matrix = kind;
    draw();
  });
  draw();
}

// The outputs of the explained answer with their scores.
function odds() {
  const { scores, taken, languages, model: by } = looked();
  const penalty = served.find((m) => identity(m) === identity(by))?.accepts.length_penalty;
  return { texts: choices(looked()), scores, taken, penalty, language: languages[1] ?? "" };
}

// The attention matrices that can be displayed: those of the only source, or of each source.
function views(explanation) {
  const { target, sources: several, gate, sentences } = explanation;
  const own = (title, source, weights) => ({ title, explanation: { source, target, gate, weights, sentences } });
  const kinds = Object.entries(several ?? { "": { words: explanation.source, matrices: explanation.matrices } }).flatMap(([name, { words, matrices }]) =>
    !words ? [] : Object.entries(matrices).map(([kind, weights]) => {
      const title = [name && (SOURCES[name] ?? name), (!name || Object.keys(matrices).length > 1) && (TITLES[kind] ?? kind)];
      return [name + kind, { name, ...own(title.filter(Boolean).join(", "), words, weights) }];
    }),
  );
  return Object.fromEntries(kinds);
}

function draw() {
  const { explanations, languages, operations, picture, given } = looked();
  const view = views(explanations[0])[matrix];
  for (const id of ["lines", "table"]) byId(id).hidden = !view;
  drawEdits(operations, languages[1]);
  sources.show(explanations[0], picture, languages[1] ?? "");
  if (!view) return;
  const from = view.name === "mt" ? languages[1] : languages[0];
  sentences.show(view.explanation, view.name === "mt" ? mt.value : given, from ?? "");
}

// Draw the open sentence as interlinear view and as matrix.
function drawSentence(part) {
  const { languages, explanations } = looked();
  const { name } = views(explanations[0])[matrix];
  gloss.show(part, name === "mt" ? [languages[1], languages[1]] : languages);
  drawHeatmap(byId("heat"), part, byId("readout"));
}

// The pointer is on a word of an answer: open its sentence and highlight it in the interlinear view.
function point(place, index) {
  if (answers[place] !== answers[beside.looked ? 1 : 0] || byId("lines").hidden) return;
  if (index === undefined) return gloss.light();
  gloss.light(1, sentences.chooseByWord(index));
}

// A word is highlighted in the interlinear view: highlight it, or its target words, in the answer, and describe it.
function lit(side, index) {
  const { from } = sentences.part;
  const words = side === undefined ? [] : side ? [index] : gloss.partners(0, index).map((partner) => partner.index);
  answers[beside.looked ? 1 : 0].light(words.map((word) => word + from[1]));
  byId("from").textContent = side === undefined ? "" : gloss.sentence(side, index);
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

// The state of the page as a URL. The fragment after # is not sent to the server.
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


function theme() {
  const dark = getComputedStyle(document.documentElement).colorScheme === "dark";
  document.documentElement.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("theme", document.documentElement.dataset.theme);
}

// Load models, languages and settings, at first and whenever the service has returned; the page's state is kept.
async function begin() {
  const [models, languages, settings] = await Promise.all([api.models(), api.languages(), api.settings()]);
  served = models;
  for (const { code, name } of languages) names.set(code, name);
  [limit, typing, required] = [settings.charLimit, settings.frontendTimeout, settings.keyRequired];
  byId("access").hidden = !settings.apiKeys;
  const before = [model.value, source.value, target.value];
  choose(Object.keys(TASKS).find((name) => name === task && serves(name)) ?? Object.keys(TASKS).find(serves) ?? task);
  if (!begun) {
    key.value = api.key();
    if (settings.language) target.value = settings.language.target.code;
    start();
    restore();
  } else {
    for (const [i, select] of [model, source, target].entries()) {
      if ([...select.options].some(({ value }) => value === before[i])) select.value = before[i];
    }
    offer();
  }
  mark(shown?.detectedLanguage?.language);
  fit();
  service.ready(served.length);
  const first = !begun;
  begun = true;
  if (first ? TASKS[task].given() || keyless() : !byId("problem").hidden) ask();
}

const serves = (name) => served.some((m) => m.task === name);

for (const area of [text, mt]) {
  area.addEventListener("input", typed);
  area.addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) schedule(0); });
}
for (const select of [model, source, target]) select.addEventListener("change", () => { offer(); schedule(0); });
key.addEventListener("change", () => {
  api.keep(key.value.trim());
  key.ariaInvalid = "false";
  say("");
  schedule(0);
});
byId("clear").onclick = () => { text.value = mt.value = ""; picture.take(null); fit(); schedule(0); text.focus(); };
byId("anyway").onclick = () => {
  [source.value] = possible();
  offer();
  schedule(0);
};
byId("copy").onclick = ({ currentTarget }) => copy(currentTarget, written(shown));
byId("link").onclick = ({ currentTarget }) => copy(currentTarget, address());
byId("theme").onclick = theme;
byId("swap").onclick = () => {
  const from = source.value === "auto" ? shown?.detectedLanguage?.language : source.value;
  if (shown) text.value = written(shown);
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
begin().catch((error) => {
  if (error.away) service.away();
  say(error instanceof api.Failure ? error.message : "The page could not be set up.");
});
