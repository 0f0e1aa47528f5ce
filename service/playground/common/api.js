// Client of the service's API. Errors are thrown as Failure, with a message for the user.

import { readStored, session, store } from "./stored.js";

export class Failure extends Error {
  constructor(message, { retryAfter = 0, unauthorized = false, unavailable = false, fields = [] } = {}) {
    super(message);
    this.retryAfter = retryAfter; // seconds; 0: no automatic retry
    this.unauthorized = unauthorized; // the API key is missing or invalid
    this.unavailable = unavailable; // the service does not answer, or is not ready
    this.fields = fields; // names of the invalid request fields
  }
}

// Names of request fields in messages.
const FIELD_NAMES = {
  q: "the text",
  text: "the text",
  source_text: "the source text",
  translation: "the machine translation",
  image: "the image",
  source: "the language of the text",
  target: "the language to translate into",
  model: "the model",
  explain: "an explanation",
  alternatives: "the number of alternatives",
  glossary: "the glossary",
  glossary_id: "the service's glossary",
  do_not_translate: "the list of what is not translated",
  file: "the file",
};

// The API key, kept in the tab's session storage until the tab is closed.
const KEY = "key";
let presentKey = readStored(KEY, "", session);
export const key = () => presentKey;
export function storeKey(value) {
  presentKey = value;
  store(KEY, value || null, session);
}

async function requestJson(path, options) {
  const response = await fetchOrFail(path, options);
  const answer = await response.json().catch(() => null);
  if (response.ok && answer !== null) return answer;
  throw failure(answer, response);
}

async function fetchOrFail(path, options) {
  try {
    return await fetch(path, options);
  } catch (error) {
    throw connectionError(error);
  }
}

// Converts an error of fetch to a Failure. An abort by the page itself is passed on.
const connectionError = (error) => (error.name === "AbortError" ? error : new Failure("The service cannot be reached.", { retryAfter: 5, unavailable: true }));

// A detail of a problem as a sentence.
export const sentence = (detail) => `${detail[0].toUpperCase()}${detail.slice(1)}.`;

// Converts an error response to a Failure.
function failure(answer, { status, headers }) {
  const fields = answer?.errors ?? [];
  const detail = fields.length
    ? fields.map(({ field, problem }) => `${FIELD_NAMES[field.replace(/[[.].*/, "")] ?? field} ${problem}`).join("; ")
    : (answer?.detail ?? `the service answered with status ${status}`);
  const retryable = status === 429 || status === 503;
  return new Failure(sentence(detail), {
    retryAfter: retryable ? Number(headers.get("Retry-After")) || 5 : 0,
    unauthorized: status === 401 || status === 403,
    unavailable: status === 503,
    fields: fields.map(({ field }) => field),
  });
}

// Yields server-sent events as they arrive: [name, data].
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  for (;;) {
    const { value, done } = await reader.read().catch((error) => { throw connectionError(error); });
    if (done) throw connectionError(new Error("the events ended before the answer"));
    const blocks = (buffer + value).split("\n\n");
    buffer = blocks.pop();
    for (const block of blocks) {
      const [, name, data] = block.match(/^event: ([^\n]*)\ndata: ([^\n]*)$/) ?? []; // a dot stops at U+2028
      if (name) yield [name, JSON.parse(data)];
    }
  }
}

const authorization = () => (key() ? { Authorization: `Bearer ${key()}` } : {});

export const models = () => requestJson("/models");
export const languages = () => requestJson("/languages");
export const settings = () => requestJson("/frontend/settings");
export const ready = () => requestJson("/health/ready");

const postOptions = (body, headers, signal) => ({
  method: "POST",
  headers: { ...headers, ...authorization() },
  body,
  signal,
});
const send = (path, body, headers, signal) => requestJson(path, postOptions(body, headers, signal));
const post = (path, request, signal) => send(path, JSON.stringify(request), { "Content-Type": "application/json" }, signal);

export const detect = (q, signal) => post("/detect", { q }, signal);
export const translate = (request, signal, onPrefix) => stream("/translate", request, signal, onPrefix);
export const translateOnce = (request, signal) => post("/translate", request, signal);
export const summarize = (request, signal, onPrefix) => stream("/summarize", request, signal, onPrefix);
export const postEdit = (request, signal) => post("/post-edit", request, signal);

// Send a request; `onPrefix` is called with the output so far while the search runs.
async function stream(path, request, signal, onPrefix) {
  const headers = { "Content-Type": "application/json", Accept: "text/event-stream" };
  const response = await fetchOrFail(path, postOptions(JSON.stringify(request), headers, signal));
  if (!response.ok) throw failure(await response.json().catch(() => null), response);
  if (!response.headers.get("Content-Type").startsWith("text/event-stream")) return response.json();
  for await (const [name, data] of events(response)) {
    if (name === "answer") return data;
    if (name === "error") throw failure(data, { status: data.status, headers: response.headers });
    if (name === "prefix") onPrefix(data.text);
  }
}

// Sent as a form, so that the image needs no base64.
export function multimodal(request, signal) {
  const body = new FormData();
  for (const [name, value] of Object.entries(request)) body.append(name, value);
  return send("/translate/multimodal", body, {}, signal);
}

// The glossaries that the service keeps for this key.
export const glossaries = async () => (await requestJson("/glossaries", { headers: authorization() })).glossaries;

// Start the translation of a file; the answer is a job, as those of `fileJob` and `cancelFileJob`.
export function translateFile({ file, glossary, do_not_translate: kept = [], ...settings }, signal) {
  const body = new FormData();
  for (const [name, value] of Object.entries(settings)) body.append(name, value);
  for (const text of kept) body.append("do_not_translate", text);
  if (glossary) body.append("glossary", glossary.map(({ source, target }) => `${source}\t${target}`).join("\n"));
  body.append("file", file);
  return send("/translate_file", body, { Prefer: "respond-async" }, signal);
}
const filePath = (id) => `/files/${encodeURIComponent(id)}`;
export const fileJob = (id, signal) => requestJson(filePath(id), { headers: authorization(), signal });
export async function cancelFileJob(id) {
  const response = await fetchOrFail(filePath(id), { method: "DELETE", headers: authorization() });
  if (!response.ok) throw failure(await response.json().catch(() => null), response);
}

// The content of a translated file; fetched, because a link could not send the key.
export async function download(url) {
  const { pathname, search } = new URL(url, location.href);
  const response = await fetchOrFail(pathname + search, { headers: authorization() });
  if (!response.ok) throw failure(await response.json().catch(() => null), response);
  return response.blob();
}
