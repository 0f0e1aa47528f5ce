// The page: joins input, answers, explanation, glossary, history and documents.

import { answerText } from "../answer/answers.js";
import { Comparison } from "../answer/comparison.js";
import { Output } from "../answer/output.js";
import { Rewriting } from "../answer/rewriting.js";
import * as api from "../common/api.js";
import { copy } from "../common/copy.js";
import { Disclosures } from "../common/disclosures.js";
import { byId } from "../common/elements.js";
import { identity } from "../common/models.js";
import { storeText } from "../common/stored.js";
import { Tabs } from "../common/tabs.js";
import { DocumentTab } from "../document/document-tab.js";
import { ExplanationPanel } from "../explanation/panel.js";
import { GlossaryPanel } from "../glossary/glossary-panel.js";
import { HistoryPanel } from "../history/history-panel.js";
import { drawExamples } from "../input/examples.js";
import { ImageInput } from "../input/image-input.js";
import { MarkedText } from "../input/marked-text.js";
import { TextInputs } from "../input/text-inputs.js";
import { Access } from "./access.js";
import { Answering } from "./answering.js";
import { Choices } from "./choices.js";
import { drawModelFacts } from "./model-facts.js";
import { showParts } from "./parts.js";
import { linkedState, linkOf } from "./permalink.js";
import { Schedule } from "./schedule.js";
import { ServiceStatus } from "./service-status.js";
import { DOCUMENT, tasks } from "./tasks.js";

let name = "translation"; // of the open tab
let filesTranslated = false; // whether the service translates files
let loaded = false;

const schedule = new Schedule({ ready: () => tab().request(), send, clear });
const inputs = new TextInputs(() => { schedule.typed(); markText(); }, again);
const { text, mt } = inputs;
const image = new ImageInput(() => name === "multimodal", again, (message) => output.showProblem(message));
const comparison = new Comparison(again, explainOther);
const choices = new Choices(comparison, () => { showStart(); showLanguages(); });
const TABS = tasks({ text, mt, image }, () => choices.languages);
const tabs = new Tabs(byId("tasks"), byId("work"), (chosen) => { clear(); openTab(chosen); again(); });
const output = new Output(comparison, { onPoint: (...word) => explanation.point(...word), onOpen: (index, node) => rewriting.open(index, node) });
const penaltyOf = (answer) => choices.served.find((m) => identity(m) === identity(answer.model))?.accepts.length_penalty;
const explanation = new ExplanationPanel({ onHighlight, onSelect: explainOther, penaltyOf });
const rewriting = new Rewriting(output, showRewritten);
const glossary = new GlossaryPanel(() => { markText(); again(); }, () => { markText(); documents.settingsChanged(); schedule.typed(); });
const marked = new MarkedText(text, (word) => glossary.keep(word));
const history = new HistoryPanel((entry) => { restore({ ...entry, task: entry.task || "translation" }); again(); });
const disclosures = new Disclosures(["glossary", "history"]);
const access = new Access((message) => output.showProblem(message), keyChanged);
const service = new ServiceStatus(byId("status"), () => load());
const documents = new DocumentTab({
  shown: () => name === DOCUMENT,
  settings: () => ({ ...choices.languages, ...choices.modelField, ...glossary.fields }),
  retried,
  announce: (news) => (output.announcement.textContent = news),
  onRefused: (message) => access.require(message),
});
const answering = new Answering({ output, choices, comparison, glossary, image, service, text, access }, { tab, retried, clear, show });

function tab() {
  return TABS[name];
}

// Send the input anew, because something else is chosen.
function again() {
  documents.settingsChanged();
  schedule.after(0);
}

function send(signal) {
  rewriting.stop();
  return answering.send(signal, schedule);
}

const serves = (other) => choices.served.some((m) => m.task === TABS[other].models) && (other !== DOCUMENT || filesTranslated);
const detected = () => output.shown?.detectedLanguage?.language;

// Open a tab: show the tabs of what is served, and the parts of the page that this one has.
function openTab(chosen) {
  name = chosen;
  const { models, terms = false, rewrites = false } = tab();
  tabs.show(Object.keys(TABS).filter(serves).map((other) => [other, TABS[other].title]), name);
  choices.offer(models);
  showParts(name, tab(), { hasLanguages: choices.hasLanguages, compares: comparison.offered, starts: !output.shown });
  if (!terms) disclosures.close("glossary");
  output.opens = marked.enabled = rewrites;
  markText();
  inputs.resize();
}

// Show the start page, before anything is typed.
function showStart() {
  drawExamples(choices.fitting()[0], ({ mt: draft = "", ...texts }, picture) => {
    inputs.set({ text: Object.values(texts)[0] ?? "", mt: draft });
    markText();
    if (name === "multimodal") image.set(picture);
    else again();
    text.focus();
  });
  drawModelFacts(output.explained?.model, choices);
}

// Show the languages of the input and the output.
function showLanguages() {
  const [from, into] = choices.likelyPair(detected());
  choices.show(from, into, detected(), answering.detection?.certain ?? true);
  byId("swap").hidden = tab().models !== "translation" || !choices.translatesBack(from);
  text.lang = from ?? "";
  mt.lang = output.translation.lang = into ?? "";
  if (choices.hasLanguages) glossary.show([from, into], choices.names);
}

// Mark in the text what is not translated, and the terms that were found in it.
function markText() {
  const { terms } = tab();
  const answered = terms && output.shown?.given === text.value ? output.shown.explanations?.[0].terms : [];
  marked.show(terms ? glossary.terms.kept : [], (answered ?? []).map(({ source }) => source));
  glossary.kept.showText(terms ? text.value : "");
}

function clear() {
  answering.detection = null;
  rewriting.stop();
  history.keep();
  answering.showDoubt("");
  output.clear();
  explanation.clear();
  byId("start").hidden = name === DOCUMENT;
  showLanguages();
}

function show(answer, other = null) {
  output.show(answer, other);
  byId("start").hidden = true;
  showLanguages();
  explain();
  markText();
  if (access.used) loadGlossaries();
  if (!answer.request.image) history.add(past(answer));
}

// Show alternatives, scores and attention of the answer that is explained.
function explain() {
  drawModelFacts(output.explained.model, choices);
  output.draw();
  explanation.show(output.explained);
}

// The user has chosen an alternative, or the other model's answer: a sentence of the one before is not rewritten any more.
function explainOther() {
  rewriting.stop();
  explain();
}

// Another word was chosen in the explained answer.
function showRewritten(answer) {
  if (comparison.explained) output.show(output.shown, answer);
  else output.show(answer, output.second);
  explain();
  history.add(past(output.shown));
}

function onHighlight(words, description) {
  output.explainedWords.highlight(words);
  byId("word-weights").textContent = description;
}

// The state of the page, as links and history keep it.
function state() {
  const languages = choices.hasLanguages ? choices.languages : {};
  const draft = name === "post-edit" ? mt.value : "";
  return { q: text.value, task: name === "translation" ? "" : name, ...languages, mt: draft, model: choices.model.value, beside: comparison.model };
}

// An answer as the history keeps it.
function past(answer) {
  const { given: q, request, languages } = answer;
  return { ...state(), q, mt: request.translation ?? "", text: answerText(answer), languages, names: byId("pair-mark").textContent, time: Date.now() };
}

function restore({ q, mt: draft, task, beside, ...choice }) {
  const wanted = task ?? (choice.target ? "translation" : name);
  if (wanted !== name && wanted in TABS && serves(wanted)) {
    clear();
    openTab(wanted);
  }
  choices.choose(choice);
  comparison.choose(beside);
  inputs.set({ text: q, mt: draft });
  markText();
}

// Ask for the glossaries of the present key; whether the service takes the key, a request for an answer says.
const loadGlossaries = () => glossary.load().catch(() => {});

// Another key was entered: offer its glossaries before they are sent with the input.
async function keyChanged() {
  try {
    await glossary.load();
  } catch (error) {
    if (error.unauthorized) return access.require(error.message);
  }
  again();
}

// Load models, languages and settings; what is chosen stays chosen as far as it is offered.
async function loadOffers() {
  const [models, languages, settings] = await Promise.all([api.models(), api.languages(), api.settings()]);
  choices.serve(models, languages);
  [inputs.limit, schedule.pause, filesTranslated] = [settings.charLimit, settings.frontendTimeout, settings.filesTranslation];
  image.maxBytes = Math.max(...models.flatMap(({ accepts }) => Object.values(accepts.images).map((one) => one.max_bytes)));
  documents.offer(settings.supportedFilesFormat);
  access.offer(settings);
  openTab(serves(name) ? name : (Object.keys(TABS).find(serves) ?? name));
  service.showReady(models.length);
  return settings;
}

// Set the page up, at first and whenever the service has returned; the page's state is kept.
async function load() {
  const settings = await loadOffers();
  const first = !loaded;
  loaded = true;
  if (first) {
    choices.choose({ target: settings.language?.target.code });
    restore(linkedState());
  }
  inputs.resize();
  if (access.used && !access.problem) await loadGlossaries();
  if (first ? tab().request() || access.problem : !output.problem.hidden) schedule.now();
}

// Ask once more, with the models that are served now, where one that the request names is no longer served.
async function retried(ask) {
  try {
    return await ask();
  } catch (error) {
    if (!error.fields?.includes("model")) throw error;
    await loadOffers();
    return ask();
  }
}

for (const select of choices.selects) {
  select.addEventListener("change", () => {
    choices.offerLanguages();
    again();
  });
}
byId("clear").onclick = () => {
  image.set(null);
  inputs.set({ text: "", mt: "" });
  markText();
  again();
  text.focus();
};
byId("anyway").onclick = () => {
  choices.choose({ source: choices.possible[0] });
  again();
};
byId("copy").onclick = ({ currentTarget }) => copy(currentTarget, answerText(output.shown));
byId("link").onclick = ({ currentTarget }) => copy(currentTarget, linkOf(state()));
byId("swap").onclick = () => {
  const [from] = choices.likelyPair(detected());
  if (output.shown?.given === text.value) inputs.set({ text: answerText(output.shown) }); // else it is another text's
  choices.swap(from);
  again();
};
byId("theme").onclick = () => {
  const { dataset } = document.documentElement;
  dataset.theme = getComputedStyle(document.documentElement).colorScheme === "dark" ? "light" : "dark";
  storeText("theme", dataset.theme); // read by theme.js
};
addEventListener("hashchange", () => {
  restore(linkedState());
  again();
});
load().catch((error) => {
  if (error.unavailable) service.showUnavailable();
  output.showProblem(error instanceof api.Failure ? error.message : "The page could not be set up.");
});
