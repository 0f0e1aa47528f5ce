// Client of the service's API. Errors are thrown as Failure, with a sentence for the user.

export class Failure extends Error {
  constructor(sentence, { retryAfter = 0, locked = false, away = false, fields = [] } = {}) {
    super(sentence);
    this.retryAfter = retryAfter; // seconds; 0: no automatic retry
    this.locked = locked; // the API key is missing or refused
    this.away = away; // the service does not answer, or is not ready
    this.fields = fields; // names of the invalid request fields
  }
}

// Names of request fields in messages.
const CALLED = {
  q: "the text",
  text: "the text",
  source_text: "the source text",
  translation: "the machine translation",
  image: "the picture",
  source: "the language of the text",
  target: "the language to translate into",
  model: "the model",
  explain: "an explanation",
  alternatives: "the number of alternatives",
};

// The API key, kept in the tab's session storage until the tab is closed.
const KEY = "key";
export const key = () => sessionStorage.getItem(KEY) ?? "";
export const keep = (given) => (given ? sessionStorage.setItem(KEY, given) : sessionStorage.removeItem(KEY));

async function ask(path, options) {
  const response = await reach(path, options);
  const answer = await response.json().catch(() => null);
  if (response.ok && answer !== null) return answer;
  throw failure(answer, response);
}

async function reach(path, options) {
  try {
    return await fetch(path, options);
  } catch (error) {
    throw lost(error);
  }
}

// Converts an error of fetch to a Failure. An abort by the page itself is passed on.
const lost = (error) => (error.name === "AbortError" ? error : new Failure("The service cannot be reached.", { retryAfter: 5, away: true }));

// Converts an error response to a Failure.
function failure(answer, { status, headers }) {
  const fields = answer?.errors ?? [];
  const detail = fields.length
    ? fields.map(({ field, problem }) => `${CALLED[field.replace(/[[.].*/, "")] ?? field} ${problem}`).join("; ")
    : (answer?.detail ?? `the service answered with status ${status}`);
  const again = status === 429 || status === 503;
  return new Failure(`${detail[0].toUpperCase()}${detail.slice(1)}.`, {
    retryAfter: again ? Number(headers.get("Retry-After")) || 5 : 0,
    locked: status === 401 || status === 403,
    away: status === 503,
    fields: fields.map(({ field }) => field),
  });
}

// Yields server-sent events as they arrive: [name, data].
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let left = "";
  for (;;) {
    const { value, done } = await reader.read().catch((error) => { throw lost(error); });
    if (done) throw lost(new Error("the events ended before the answer"));
    const blocks = (left + value).split("\n\n");
    left = blocks.pop();
    for (const block of blocks) {
      const [, name, data] = block.match(/^event: (.*)\ndata: (.*)$/) ?? [];
      if (name) yield [name, JSON.parse(data)];
    }
  }
}

export const models = () => ask("/models");
export const languages = () => ask("/languages");
export const settings = () => ask("/frontend/settings");
export const ready = () => ask("/health/ready");

const posted = (body, headers, signal) => ({
  method: "POST",
  headers: { ...headers, ...(key() && { Authorization: `Bearer ${key()}` }) },
  body,
  signal,
});
const send = (path, body, headers, signal) => ask(path, posted(body, headers, signal));
const post = (path, request, signal) => send(path, JSON.stringify(request), { "Content-Type": "application/json" }, signal);

export const detect = (q, signal) => post("/detect", { q }, signal);
export const translate = (request, signal, written) => follow("/translate", request, signal, written);
export const summarize = (request, signal, written) => follow("/summarize", request, signal, written);
export const postEdit = (request, signal) => post("/post-edit", request, signal);

// Send a request; `written` is called with the output so far while the search runs.
async function follow(path, request, signal, written) {
  const headers = { "Content-Type": "application/json", Accept: "text/event-stream" };
  const response = await reach(path, posted(JSON.stringify(request), headers, signal));
  if (!response.ok) throw failure(await response.json().catch(() => null), response);
  if (!response.headers.get("Content-Type").startsWith("text/event-stream")) return response.json();
  for await (const [name, data] of events(response)) {
    if (name === "answer") return data;
    if (name === "error") throw failure(data, { status: data.status, headers: response.headers });
    if (name === "prefix") written(data.text);
  }
}

// Sent as a form, so that the picture needs no base64.
export function multimodal(request, signal) {
  const body = new FormData();
  for (const [name, value] of Object.entries(request)) body.append(name, value);
  return send("/translate/multimodal", body, {}, signal);
}
