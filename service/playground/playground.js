// The playground page: sends the input to a model and shows its output with the attention weights of every word.

import { drawAlternatives } from "./alternatives.js";
import * as api from "./api.js";
import { Comparison } from "./comparison.js";
import { assessDetection } from "./detection.js";
import { copy } from "./copy.js";
import { doubtfulWords } from "./doubtful-words.js";
import { byId, element, segments } from "./elements.js";
import { drawEdits } from "./edits.js";
import { drawHeatmap } from "./heatmap.js";
import { Interlinear } from "./interlinear.js";
import { ImageInput } from "./image-input.js";
import { Sentences } from "./sentences.js";
import { ServiceStatus } from "./service-status.js";
import { SOURCES, SourceWeights } from "./source-weights.js";
import { drawStart } from "./examples.js";
import { AnswerWords } from "./answer-words.js";

const ALTERNATIVES = 3;
const LONGEST_WAIT = 1000; // milliseconds of typing after which the text is sent even without a pause
const FADE_AFTER = 200; // milliseconds of waiting before the old answer is faded
const MAX_RETRY_AFTER = 120; // seconds; with a longer Retry-After the request is not repeated automatically
const BOTH = "both"; // the view of the links of both directions
const TITLES = {
  attention: "Attention",
  word_attention: "Word attention",
  gated: "Gated",
  posterior: "Origin",
  uam: "UAM",
  next_attention: "Next step",
  next_word_attention: "Word attention, next step",
  next_gated: "Gated, next step",
  [BOTH]: "Both directions",
};
const TASKS = {
  translation: {
    title: "Translate",
    send: api.translate,
    text: (answer) => answer.translatedText,
    request: () => text.value.trim() && { q: text.value, ...selectedLanguages() },
  },
  multimodal: {
    title: "Image",
    send: api.multimodal,
    text: (answer) => answer.translatedText,
    request: () => (text.value.trim() || image.file) && {
      ...(text.value.trim() && { q: text.value }),
      ...(image.file && { image: image.file }),
      ...selectedLanguages(),
    },
  },
  "post-edit": {
    title: "Post-edit",
    send: api.postEdit,
    text: (answer) => answer.editedText,
    request: () => mt.value.trim() && {
      translation: mt.value,
      ...(text.value.trim() && { source_text: text.value }),
      ...selectedLanguages(),
    },
  },
  summarization: {
    title: "Summarize",
    send: api.summarize,
    text: (answer) => answer.summaries,
    request: () => text.value.trim() && { text: text.value, long: "lead" },
  },
};

const [text, mt, source, target, model, key] = ["text", "mt", "source", "target", "model", "key"].map(byId);
const [translation, problem, explanationPanel, hint] = ["translation", "problem", "explanation", "hint"].map(byId);
const gloss = new Interlinear(byId("gloss"), (side, index) => onHighlight(side, index));
const answers = [translation, byId("other")].map((node, place) => new AnswerWords(node, (index) => onPoint(place, index)));
const sentences = new Sentences((part) => drawSentence(part));
const service = new ServiceStatus(byId("status"), () => load());
const sources = new SourceWeights(byId("sources"));
const comparison = new Comparison(() => schedule(0), () => showExplanation());
const image = new ImageInput(() => task === "multimodal", () => schedule(0));
const names = new Map();

let served = [];
let limit = 5000; // characters
let typingPause = 500; // milliseconds
let keyRequired = false; // whether the service requires an API key
let task = "translation";
let chosenMatrix = null; // the matrix that was selected; else that of the alignment is shown
let shown = null; // the displayed answer
let second = null; // the answer of the second model
let languageDetection = null; // result of language detection
let inFlight = null; // AbortController of the request in flight
let timer = 0; // timer that sends the text after a pause
let longestTimer = 0; // timer that sends the text after LONGEST_WAIT
let loaded = false;

const isTranslation = () => task === "translation";
const hasLanguageChoice = () => task !== "summarization"; // the user selects two languages
const detectsLanguage = () => hasLanguageChoice() && source.value === "auto";
const selectedLanguages = () => ({ source: source.value, target: target.value });
const selectedModels = () => served.filter((m) => m.task === task && (!model.value || identity(m) === model.value));
const identity = (m) => `${m.name}@${m.version}`;
const named = (m) => (/^\d+$/.test(m.version) ? `${m.name}, version ${m.version}` : m.name); // other versions are checksums
const explained = () => (comparison.explained ? second : shown); // the answer that is explained
const label = (m) => [named(m), ...m.aliases].join(", ");
const keyMissing = () => keyRequired && !api.key();
const unique = (codes) => [...new Set(codes)].sort();
const language = (code) => names.get(code) ?? code;
const options = (codes) => codes.map((code) => new Option(language(code), code));

function refill(select, entries) {
  const before = select.value;
  select.replaceChildren(...entries);
  select.value = entries.some((entry) => entry.value === before) ? before : (entries[0]?.value ?? "");
}

// Select a task: show the served tasks, and the models of this one.
function selectTask(chosen) {
  task = chosen;
  const there = Object.entries(TASKS).filter(([name]) => served.some((m) => m.task === name));
  segments(byId("tasks"), Object.fromEntries(there.map(([name, { title }]) => [name, title])), task, (other) => {
    clear();
    selectTask(other);
    byId("tasks").querySelector("[aria-pressed=true]").focus();
    schedule(0);
  });
  const choices = served.filter((m) => m.task === task).map((m) => new Option(label(m), identity(m)));
  model.replaceChildren(...(hasLanguageChoice() && choices.length > 1 ? [new Option("Any model", "")] : []), ...choices);
  for (const id of ["source", "target"]) byId(id).hidden = !hasLanguageChoice();
  for (const id of ["given", "written"]) byId(id).hidden = hasLanguageChoice();
  byId("image-input").hidden = task !== "multimodal";
  byId("draft").hidden = task !== "post-edit";
  offerLanguages();
  showScores();
}

// Show the start page, before anything is typed.
function showStart() {
  const fits = (m) => !hasLanguageChoice() || (m.languages.target === target.value && [m.languages.source, "auto"].includes(source.value));
  drawStart(selectedModels().find(fits), language, (example) => {
    const { mt: draft = "", ...texts } = example;
    [text.value, mt.value] = [Object.values(texts)[0] ?? "", draft];
    resizeInputs();
    schedule(0);
    text.focus();
  });
}

// Fill the language selections for the selected model; only pairs that are served are offered.
function offerLanguages() {
  if (!hasLanguageChoice()) {
    offerComparison();
    showStart();
    return showLanguages();
  }
  const pairs = selectedModels().map((m) => m.languages);
  const detect = task === "post-edit" ? [] : [new Option("Detect language", "auto")];
  refill(source, [...detect, ...options(unique(pairs.map((p) => p.source)))]);
  const possible = pairs.filter((p) => source.value === "auto" || p.source === source.value);
  refill(target, options(unique(possible.map((p) => p.target))));
  offerComparison();
  showStart();
  showLanguages();
}

// Offer the models that can be compared with the selected one: same task and languages.
function offerComparison() {
  const reads = (m) => !hasLanguageChoice() || (m.languages.target === target.value && [m.languages.source, "auto"].includes(source.value));
  const there = served.filter((m) => m.task === task && reads(m));
  const others = there.filter((m) => identity(m) !== model.value);
  comparison.offer(there.length > 1 ? others.map((m) => [identity(m), label(m)]) : []);
}

// The source languages from which the selected models translate into the selected target language.
const possible = () => unique(selectedModels().map((m) => m.languages).filter((p) => p.target === target.value).map((p) => p.source));

// The languages of the input and of the output.
function pair(detected) {
  if (hasLanguageChoice()) return [source.value === "auto" ? detected : source.value, target.value];
  const { source: from, target: into } = selectedModels()[0].languages;
  return [from, into];
}

// Show the languages of the input and the output; `detected`: the language detected in the input.
function showLanguages(detected) {
  const [from, into] = pair(detected ?? (possible().length === 1 ? possible()[0] : undefined));
  const [first, last] = [from, into].map((code) => code && language(code));
  byId("pair-mark").textContent = first && first !== last ? `${first} to ${last}` : (last ?? "\u00a0");
  const certain = languageDetection?.certain ?? true;
  byId("detected").textContent = detectsLanguage() && detected ? `${language(detected)}${certain ? "" : ", not certain"}` : "";
  byId("detected").title = certain ? "" : "The text is short, or resembles another language as well.";
  const back = isTranslation() && selectedModels().some((m) => m.languages.source === target.value && m.languages.target === from);
  byId("swap").hidden = !back;
  text.lang = from ?? "";
  mt.lang = translation.lang = into ?? "";
}

// Fit the text areas to their text and show the number of characters.
function resizeInputs() {
  for (const area of [text, mt]) {
    area.style.height = "auto";
    area.style.height = `${area.scrollHeight}px`;
  }
  const length = Math.max(...[text, mt].map((area) => (area === mt && task !== "post-edit" ? 0 : [...area.value].length)));
  byId("count").textContent = `${length.toLocaleString("en")} / ${limit.toLocaleString("en")}`;
  byId("count").classList.toggle("over", length > limit);
}

function showProblem(message) {
  problem.textContent = message;
  problem.hidden = !message;
}

// The API key is missing or invalid: show a message in place of the answer and mark the key field.
function requireKey(message) {
  key.ariaInvalid = "true";
  showProblem(message);
}

function clear() {
  shown = second = languageDetection = null;
  showProblem("");
  showDoubt("");
  answers[0].show([]);
  comparison.show("", null);
  showTruncation();
  for (const id of ["time", "answered-by", "detected", "word-weights"]) byId(id).textContent = "";
  for (const id of ["copy", "link"]) byId(id).disabled = true;
  explanationPanel.hidden = hint.hidden = true;
  byId("start").hidden = false;
  fade(false);
  setStale(false);
}

// Show how much of a too long text the model has read.
function showTruncation(reduced) {
  byId("note").hidden = !reduced;
  if (reduced) byId("note").textContent = `The text is longer than the model reads: of its ${reduced.of} sentences the first ${reduced.sentences === 1 ? "one was" : `${reduced.sentences} were`} read.`;
}

function showHint(message) {
  hint.hidden = !message;
  hint.textContent = message;
}

// Fade the displayed answers and their explanation, or undo that.
function fade(active) {
  for (const answer of [translation, byId("other")]) answer.classList.toggle("old", active);
  explanationPanel.classList.toggle("old", active);
}

// Mark the displayed answer as belonging to an earlier text and disable its interaction, or undo that.
function setStale(active) {
  byId("stale").hidden = !active;
  for (const node of [translation, byId("second"), explanationPanel]) node.inert = active;
}

// The request failed: fade the old answer and disable copying it.
function markOutdated() {
  fade(Boolean(shown));
  setStale(Boolean(shown));
  for (const id of ["time", "answered-by", "word-weights"]) byId(id).textContent = "";
  for (const id of ["copy", "link"]) byId(id).disabled = true;
}

// Send the text after `delay` milliseconds and abort a request in flight.
function schedule(delay) {
  cancel();
  if (TASKS[task].request()) timer = setTimeout(submit, delay);
  else clear();
}

// On typing: send the text after a pause, or after LONGEST_WAIT. A request in flight is not aborted.
function onInput() {
  resizeInputs();
  if (!TASKS[task].request()) return schedule(0);
  clearTimeout(timer);
  timer = setTimeout(submit, typingPause);
  longestTimer ||= setTimeout(() => {
    longestTimer = 0;
    if (inFlight) inFlight.again = true;
    else submit();
  }, LONGEST_WAIT);
}

function cancel() {
  clearTimeout(timer);
  clearTimeout(longestTimer);
  timer = longestTimer = 0;
  inFlight?.abort();
  inFlight = null;
}

async function submit() {
  cancel();
  if (keyMissing()) return requireKey("This service requires an API key.");
  const own = (inFlight = new AbortController());
  const { signal } = own;
  const begins = performance.now();
  const waiting = setTimeout(() => fade(true), FADE_AFTER);
  try {
    const detection = await detectLanguage(signal);
    if (detection?.doubt) return showDoubt(detection.doubt);
    languageDetection = detection;
    const request = { ...TASKS[task].request(), explain: true };
    const maxBeam = Math.max(...selectedModels().map((m) => m.accepts.beam_size));
    if (maxBeam > 1) request.alternatives = Math.min(ALTERNATIVES, maxBeam - 1);
    if (model.value) request.model = model.value;
    const requests = [request, ...(comparison.model ? [{ ...request, model: comparison.model }] : [])];
    const onPrefix = (beginning) => {
      if (requests.length === 1 && performance.now() - begins > FADE_AFTER && !signal.aborted) showPrefix(beginning);
    };
    const sendAll = (change) => Promise.all(requests.map((one) => requestAnswer({ ...one, ...change }, signal, onPrefix)));
    // A text too long for an explanation is translated without one.
    const found = await sendAll({}).catch((error) => {
      if (error.fields?.includes("explain")) return sendAll({ explain: false });
      throw error;
    });
    if (signal.aborted) return; // a newer request has replaced this one
    show(...found);
  } catch (error) {
    if (signal.aborted) return;
    markOutdated();
    if (!(error instanceof api.Failure)) throw error;
    if (error.unavailable) service.showUnavailable();
    else service.showReady(served.length);
    if (error.unauthorized) requireKey(error.message);
    else if (error.retryAfter && error.retryAfter <= MAX_RETRY_AFTER) retryLater(error, signal);
    else showProblem(error.message);
  } finally {
    clearTimeout(waiting);
    translation.style.minHeight = "";
    if (inFlight === own) {
      inFlight = null;
      if (own.again) submit();
    }
  }
}

async function requestAnswer(request, signal, onPrefix) {
  const started = performance.now();
  const answer = await TASKS[task].send(request, signal, onPrefix);
  const languages = pair(answer.detectedLanguage?.language);
  const given = request.q ?? request.text ?? request.source_text ?? "";
  return { ...answer, given, selected: 0, text: TASKS[task].text(answer), languages, imageUrl: request.image && image.url, milliseconds: performance.now() - started };
}

// Show the output so far while the search runs, without moving the page below.
function showPrefix(beginning) {
  showDoubt("");
  translation.style.minHeight = `${Math.max(translation.clientHeight, parseFloat(translation.style.minHeight) || 0)}px`;
  translation.classList.remove("old");
  translation.textContent = beginning;
}

// Detect the language of the text, if requested. If the text is already in the target language, swap the languages
// if a model supports that.
async function detectLanguage(signal) {
  if (!detectsLanguage() || !text.value.trim()) return null;
  const guesses = await api.detect(text.value, signal);
  const [{ language: likeliest }] = guesses;
  const back = selectedModels().find(({ languages }) => languages.source === likeliest);
  if (isTranslation() && likeliest === target.value && back) {
    target.value = back.languages.target;
    offerComparison();
  }
  return assessDetection(text.value, guesses, possible(), language);
}

// Explain why a text is not translated automatically, and offer to translate it.
function showDoubt(doubt) {
  byId("doubt").hidden = true;
  if (!doubt) return;
  clear();
  service.showReady(served.length);
  byId("start").hidden = true;
  byId("doubt").hidden = false;
  byId("doubt").firstChild.textContent = doubt;
  byId("anyway").textContent = `Translate it as ${possible().map(language).join(" or ")}`;
}

// Retry after the time that the service stated, with a countdown, unless the text changes meanwhile.
function retryLater(failure, signal) {
  let seconds = failure.retryAfter;
  const tick = () => {
    if (signal.aborted) return;
    if (seconds <= 0) return void submit();
    showProblem(`${failure.message} Trying again in ${seconds} s.`);
    seconds -= 1;
    timer = setTimeout(tick, 1000);
  };
  tick();
}

function show(answer, other = null) {
  [shown, second] = [answer, other];
  key.ariaInvalid = "false";
  showProblem("");
  showDoubt("");
  service.showReady(served.length);
  fade(false);
  setStale(false);
  const took = ({ milliseconds }) => `${Math.round(milliseconds)} ms`;
  byId("time").textContent = took(answer);
  showTruncation(answer.reduced);
  byId("answered-by").textContent = named(answer.model);
  byId("answered-by").title = identity(answer.model);
  byId("other-by").textContent = other ? `${took(other)} · ${named(other.model)}` : "";
  for (const id of ["copy", "link"]) byId(id).disabled = false;
  byId("start").hidden = true;
  showLanguages(answer.detectedLanguage?.language);
  showAnswers();
  showExplanation();
}

// The outputs of an answer, best first; and the one that is selected.
const choices = (answer) => [answer.text, ...(answer.alternatives ?? [])];
const answerText = (answer) => choices(answer)[answer.selected];

// Show the answers. Words are interactive only in the explained answer, and only if its best output is selected.
function showAnswers() {
  const pieces = comparison.show(answerText(shown), second && answerText(second), shown.languages[1] ?? "");
  [shown, second].forEach((answer, place) => {
    const reacts = answer && answer === explained() && !answer.selected;
    const explanation = reacts && answer.explanations?.[0];
    answers[place].show(pieces[place], explanation ? explanation.target : [], explanation ? doubtfulWords(explanation, "target") : new Map());
  });
  byId("word-weights").textContent = "";
}

// Show alternatives, scores and attention of the answer that is explained.
function showExplanation() {
  showScores();
  showAnswers();
  const { explanations, selected } = explained();
  explanationPanel.hidden = !explanations?.[0].target.length;
  showHint(explanations ? "" : "This text is too long to show attention weights. Translate a part of it to see them.");
  if (!explanations) return;
  drawAlternatives(answerScores(), (place) => {
    explained().selected = place;
    showExplanation();
    byId("alternatives").querySelector("button")?.focus({ preventScroll: true });
  });
  if (selected) {
    showHint("This answer is an alternative. Attention weights are available for the first choice only.");
    for (const id of ["lines", "table", "edited", "sources"]) byId(id).hidden = true;
    return;
  }
  const titles = Object.entries(views(explanations[0])).map(([kind, { title }]) => [kind, title]);
  segments(byId("matrices"), Object.fromEntries(titles), matrix(), (kind) => {
    chosenMatrix = kind;
    draw();
  });
  draw();
}

// The outputs of the explained answer with their scores.
function answerScores() {
  const { scores, selected, languages, model: by } = explained();
  const penalty = served.find((m) => identity(m) === identity(by))?.accepts.length_penalty;
  return { texts: choices(explained()), scores, selected, penalty, language: languages[1] ?? "" };
}

// The attention matrices that can be displayed: those of the only source, or of each source.
function views(explanation) {
  const { target, sources: several, gate, confidence, doubts, sentences, links } = explanation;
  const texts = several ?? { "": { words: explanation.source, matrices: explanation.matrices } };
  const first = Object.keys(texts).find((name) => texts[name].words); // the text whose words may be doubtful
  const own = (title, source, weights, name = first) => {
    const about = doubts?.filter(({ side }) => side === "target" || name === first);
    return { title, explanation: { source, target, gate, confidence, doubts: about, weights, sentences } };
  };
  const kinds = Object.entries(texts).flatMap(([name, { words, matrices }]) =>
    !words ? [] : Object.entries(matrices).map(([kind, weights]) => {
      const title = [name && (SOURCES[name] ?? name), (!name || Object.keys(matrices).length > 1) && (TITLES[kind] ?? kind)];
      return [name + kind, { name, kind, ...own(title.filter(Boolean).join(", "), words, weights, name) }];
    }),
  );
  if (links) kinds.unshift([BOTH, { name: "", kind: BOTH, ...own(TITLES[BOTH], explanation.source, linkWeights(explanation)) }]);
  return Object.fromEntries(kinds);
}

// A matrix of the weights of the links of both directions, 0 where there is no link.
function linkWeights({ source, target, links }) {
  const weights = target.map(() => source.map(() => 0));
  for (const link of links) weights[link.target][link.source] = link.symmetrized_weight;
  return weights;
}

// The matrix that is shown: the selected one if the explanation has it, else the one with the links of its alignment.
function matrix() {
  const [explanation] = explained().explanations;
  const kinds = views(explanation);
  if (chosenMatrix in kinds) return chosenMatrix;
  const best = explanation.links ? BOTH : explanation.aligned_by;
  return Object.keys(kinds).find((key) => kinds[key].kind === best) ?? Object.keys(kinds)[0];
}

function draw() {
  const { explanations, languages, operations, imageUrl, given } = explained();
  const view = views(explanations[0])[matrix()];
  for (const id of ["lines", "table"]) byId(id).hidden = !view;
  drawEdits(operations, languages[1]);
  sources.show(explanations[0], imageUrl, languages[1] ?? "");
  if (!view) return;
  const from = view.name === "mt" ? languages[1] : languages[0];
  sentences.show(view.explanation, view.name === "mt" ? mt.value : given, from ?? "");
}

// Draw the open sentence as interlinear view and as matrix.
function drawSentence(part) {
  const { languages, explanations } = explained();
  const { name } = views(explanations[0])[matrix()];
  gloss.show(part, name === "mt" ? [languages[1], languages[1]] : languages);
  drawHeatmap(byId("heat"), part, byId("readout"));
}

// The pointer is on a word of an answer: open its sentence and highlight it in the interlinear view.
function onPoint(place, index) {
  if (answers[place] !== answers[comparison.explained ? 1 : 0] || byId("lines").hidden) return;
  if (index === undefined) return gloss.highlight();
  gloss.highlight(1, sentences.selectByWord(index));
}

// A word is highlighted in the interlinear view: highlight it, or its target words, in the answer, and describe it.
function onHighlight(side, index) {
  const { from } = sentences.part;
  const words = side === undefined ? [] : side ? [index] : gloss.partners(0, index).map((partner) => partner.index);
  answers[comparison.explained ? 1 : 0].highlight(words.map((word) => word + from[1]));
  byId("word-weights").textContent = side === undefined ? "" : gloss.describe(side, index);
}

// Show the evaluation scores of the model that is explained, or else of the first one selected, in the footer.
function showScores() {
  const one = served.find((m) => shown && identity(m) === identity(explained().model)) ?? selectedModels()[0];
  const made = [one?.recipe, one?.dataset].filter(Boolean).join(" on ");
  const entries = Object.entries(one?.scores ?? {}).map(([name, { score, signature }]) =>
    element("span", { textContent: `${name.replaceAll("_", " ").replace("bleu", "BLEU").replace("rouge", "ROUGE")} ${score.toFixed(1)}`, title: signature ?? "" }),
  );
  if (made) entries.push(element("span", { textContent: made }));
  byId("scores").replaceChildren(...entries.flatMap((entry, i) => (i ? [" · ", entry] : [entry])));
}

// The state of the page as a URL. The fragment after # is not sent to the server.
function stateUrl() {
  const choice = { ...(!isTranslation() && { task }), ...(hasLanguageChoice() && selectedLanguages()), ...(task === "post-edit" && { mt: mt.value }) };
  const parts = new URLSearchParams({ q: text.value, ...choice });
  if (model.value) parts.set("model", model.value);
  if (comparison.model) parts.set("beside", comparison.model);
  return `${location.origin}${location.pathname}#${parts}`;
}

function restore() {
  const parts = new URLSearchParams(location.hash.slice(1));
  const wanted = parts.get("task") ?? (parts.has("target") ? "translation" : task);
  if (wanted !== task && served.some((m) => m.task === wanted) && wanted in TASKS) selectTask(wanted);
  for (const [select, name] of [[model, "model"], [source, "source"], [target, "target"], [comparison.select, "beside"]]) {
    const wanted = parts.get(name);
    if ([...select.options].some((option) => option.value === wanted)) select.value = wanted;
    if (select !== comparison.select) offerLanguages();
  }
  if (parts.has("q")) text.value = parts.get("q");
  if (parts.has("mt")) mt.value = parts.get("mt");
}


function toggleTheme() {
  const dark = getComputedStyle(document.documentElement).colorScheme === "dark";
  document.documentElement.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("theme", document.documentElement.dataset.theme);
}

// Load models, languages and settings, at first and whenever the service has returned; the page's state is kept.
async function load() {
  const [models, languages, settings] = await Promise.all([api.models(), api.languages(), api.settings()]);
  served = models;
  for (const { code, name } of languages) names.set(code, name);
  [limit, typingPause, keyRequired] = [settings.charLimit, settings.frontendTimeout, settings.keyRequired];
  byId("access").hidden = !settings.apiKeys;
  const before = [model.value, source.value, target.value];
  selectTask(Object.keys(TASKS).find((name) => name === task && serves(name)) ?? Object.keys(TASKS).find(serves) ?? task);
  if (!loaded) {
    key.value = api.key();
    if (settings.language) target.value = settings.language.target.code;
    showStart();
    restore();
  } else {
    for (const [i, select] of [model, source, target].entries()) {
      if ([...select.options].some(({ value }) => value === before[i])) select.value = before[i];
    }
    offerLanguages();
  }
  showLanguages(shown?.detectedLanguage?.language);
  resizeInputs();
  service.showReady(served.length);
  const first = !loaded;
  loaded = true;
  if (first ? TASKS[task].request() || keyMissing() : !byId("problem").hidden) submit();
}

const serves = (name) => served.some((m) => m.task === name);

for (const area of [text, mt]) {
  area.addEventListener("input", onInput);
  area.addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) schedule(0); });
}
for (const select of [model, source, target]) select.addEventListener("change", () => { offerLanguages(); schedule(0); });
key.addEventListener("change", () => {
  api.storeKey(key.value.trim());
  key.ariaInvalid = "false";
  showProblem("");
  schedule(0);
});
byId("clear").onclick = () => { text.value = mt.value = ""; image.set(null); resizeInputs(); schedule(0); text.focus(); };
byId("anyway").onclick = () => {
  [source.value] = possible();
  offerLanguages();
  schedule(0);
};
byId("copy").onclick = ({ currentTarget }) => copy(currentTarget, answerText(shown));
byId("link").onclick = ({ currentTarget }) => copy(currentTarget, stateUrl());
byId("theme").onclick = toggleTheme;
byId("swap").onclick = () => {
  const from = source.value === "auto" ? shown?.detectedLanguage?.language : source.value;
  if (shown) text.value = answerText(shown);
  model.value = "";
  if (model.selectedIndex < 0) model.selectedIndex = 0;
  source.value = target.value;
  offerLanguages();
  target.value = from;
  resizeInputs();
  schedule(0);
};
addEventListener("hashchange", () => { restore(); resizeInputs(); schedule(0); });
addEventListener("resize", resizeInputs);
load().catch((error) => {
  if (error.unavailable) service.showUnavailable();
  showProblem(error instanceof api.Failure ? error.message : "The page could not be set up.");
});
