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
import { Tabs } from "../common/tabs.js";
import { DocumentTab } from "../document/document-tab.js";
import { ExplanationPanel } from "../explanation/panel.js";
import { GlossaryPanel } from "../glossary/glossary-panel.js";
import { HistoryPanel } from "../history/history-panel.js";
import { drawStart } from "../input/examples.js";
import { ImageInput } from "../input/image-input.js";
import { MarkedText } from "../input/marked-text.js";
import { TextInputs } from "../input/text-inputs.js";
import { Access } from "./access.js";
import { Answering } from "./answering.js";
import { Choices } from "./choices.js";
import { showParts } from "./parts.js";
import { linkedState, linkOf } from "./permalink.js";
import { Schedule } from "./schedule.js";
import { drawScores } from "./scores.js";
import { ServiceStatus } from "./service-status.js";
import { DOCUMENT, tasks } from "./tasks.js";

let name = "translation"; // of the open tab
let filesTranslated = false; // whether the service translates files
let loaded = false;

const schedule = new Schedule({ ready: () => tab().request(), send, clear });
const again = () => schedule.after(0);
const inputs = new TextInputs(() => { schedule.typed(); markText(); }, again);
const { text, mt } = inputs;
const image = new ImageInput(() => name === "multimodal", again);
const comparison = new Comparison(again, explain);
const choices = new Choices(comparison, () => { showStart(); showLanguages(); });
const TABS = tasks({ text, mt, image }, () => choices.languages);
const tabs = new Tabs(byId("tasks"), byId("work"), (chosen) => { clear(); openTab(chosen); again(); });
const output = new Output(comparison, { onPoint: (...word) => explanation.point(...word), onOpen: (index, node) => rewriting.open(index, node) });
const penaltyOf = (answer) => choices.served.find((m) => identity(m) === identity(answer.model))?.accepts.length_penalty;
const explanation = new ExplanationPanel({ onHighlight, onSelect: explain, penaltyOf });
const rewriting = new Rewriting(output, showRewritten);
const glossary = new GlossaryPanel(() => { markText(); again(); });
const marked = new MarkedText(text, (word) => glossary.keep(word));
const history = new HistoryPanel((entry) => { restore({ ...entry, task: entry.task || "translation" }); again(); });
const disclosures = new Disclosures(["glossary", "history"]);
const access = new Access((message) => output.showProblem(message), again);
const service = new ServiceStatus(byId("status"), () => load());
const documents = new DocumentTab({
  shown: () => name === DOCUMENT,
  settings: () => ({ ...choices.languages, ...(choices.model.value && { model: choices.model.value }), ...glossary.fields }),
  announce: (news) => (output.announcement.textContent = news),
  onRefused: (message) => access.require(message),
});
const answering = new Answering({ output, choices, comparison, glossary, image, service, text, access }, { tab, clear, show });

function tab() {
  return TABS[name];
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
  showParts(name, tab(), { hasLanguages: choices.hasLanguages, compares: comparison.offered });
  if (!terms) disclosures.close("glossary");
  output.opens = marked.enabled = rewrites;
  markText();
  inputs.resize();
  drawScores(null, choices);
}

// Show the start page, before anything is typed.
function showStart() {
  drawStart(choices.fitting()[0], (code) => choices.name(code), (example) => {
    const { mt: draft = "", ...texts } = example;
    inputs.set({ text: Object.values(texts)[0] ?? "", mt: draft });
    markText();
    again();
    text.focus();
  });
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
  documents.settingsChanged();
  byId("start").hidden = name === DOCUMENT;
}

function show(answer, other = null) {
  output.show(answer, other);
  byId("start").hidden = true;
  showLanguages();
  explain();
  markText();
  if (access.used) glossary.load();
  if (!answer.request.image) history.add(past(answer));
}

// Show alternatives, scores and attention of the answer that is explained.
function explain() {
  drawScores(output.explained.model, choices);
  output.draw();
  explanation.show(output.explained);
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

// Load models, languages and settings, at first and whenever the service has returned; the page's state is kept.
async function load() {
  const [models, languages, settings] = await Promise.all([api.models(), api.languages(), api.settings()]);
  choices.serve(models, languages);
  [inputs.limit, schedule.pause, filesTranslated] = [settings.charLimit, settings.frontendTimeout, settings.filesTranslation];
  documents.offer(settings.supportedFilesFormat);
  access.offer(settings);
  const before = { model: choices.model.value, ...choices.languages };
  openTab(serves(name) ? name : (Object.keys(TABS).find(serves) ?? name));
  if (loaded) choices.choose(before);
  else {
    choices.choose({ target: settings.language?.target.code });
    restore(linkedState());
  }
  if (access.used && !access.missing) glossary.load();
  inputs.resize();
  service.showReady(models.length);
  const first = !loaded;
  loaded = true;
  if (first ? tab().request() || access.missing : !output.problem.hidden) schedule.now();
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
  localStorage.setItem("theme", dataset.theme); // read by theme.js
};
addEventListener("hashchange", () => {
  restore(linkedState());
  again();
});
load().catch((error) => {
  if (error.unavailable) service.showUnavailable();
  output.showProblem(error instanceof api.Failure ? error.message : "The page could not be set up.");
});
