// The service, as the page asks it. What goes wrong is a Failure with a sentence for the reader.

export class Failure extends Error {
  constructor(sentence, { retryAfter = 0, locked = false, away = false, fields = [] } = {}) {
    super(sentence);
    this.retryAfter = retryAfter; // seconds; 0: do not try again by itself
    this.locked = locked; // it is for want of a good key
    this.away = away; // nothing answers, or not yet
    this.fields = fields; // those of the request that are at fault
  }
}

// What the page calls a request's fields.
const CALLED = { q: "the text", text: "the text", source_text: "the source text", translation: "the machine translation", image: "the picture" };

// The key that work is asked with. It stays in this tab, until that is closed.
const KEY = "key";
export const key = () => sessionStorage.getItem(KEY) ?? "";
export const keep = (given) => (given ? sessionStorage.setItem(KEY, given) : sessionStorage.removeItem(KEY));

async function ask(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failure("The service cannot be reached.", { retryAfter: 5, away: true });
  }
  const answer = await response.json().catch(() => null);
  if (response.ok && answer !== null) return answer;
  const fields = answer?.errors ?? [];
  const detail = fields.length
    ? fields.map(({ field, problem }) => `${CALLED[field.replace(/[[.].*/, "")] ?? field} ${problem}`).join("; ")
    : (answer?.detail ?? `the service answered with status ${response.status}`);
  const sentence = `${detail[0].toUpperCase()}${detail.slice(1)}.`;
  const again = response.status === 429 || response.status === 503;
  throw new Failure(sentence, {
    retryAfter: again ? Number(response.headers.get("Retry-After")) || 5 : 0,
    locked: response.status === 401 || response.status === 403,
    away: response.status === 503,
    fields: fields.map(({ field }) => field),
  });
}

export const models = () => ask("/models");
export const languages = () => ask("/languages");
export const settings = () => ask("/frontend/settings");
const send = (path, body, headers, signal) =>
  ask(path, { method: "POST", headers: { ...headers, ...(key() && { Authorization: `Bearer ${key()}` }) }, body, signal });
const post = (path, request, signal) => send(path, JSON.stringify(request), { "Content-Type": "application/json" }, signal);

export const detect = (q, signal) => post("/detect", { q }, signal);
export const translate = (request, signal) => post("/translate", request, signal);
export const summarize = (request, signal) => post("/summarize", request, signal);

export const postEdit = (request, signal) => post("/post-edit", request, signal);

// As a form, so that a picture travels as it is.
export function multimodal(request, signal) {
  const body = new FormData();
  for (const [name, value] of Object.entries(request)) body.append(name, value);
  return send("/translate/multimodal", body, {}, signal);
}
