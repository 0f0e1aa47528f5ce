// The service, as the page asks it. What goes wrong is a Failure with a sentence for the reader.

export class Failure extends Error {
  constructor(sentence, retryAfter = 0) {
    super(sentence);
    this.retryAfter = retryAfter; // seconds; 0: do not try again by itself
  }
}

async function ask(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failure("The service cannot be reached.", 5);
  }
  const answer = await response.json().catch(() => null);
  if (response.ok && answer !== null) return answer;
  const detail = answer?.detail ?? `the service answered with status ${response.status}`;
  const sentence = `${detail[0].toUpperCase()}${detail.slice(1)}.`;
  const again = response.status === 429 || response.status === 503;
  throw new Failure(sentence, again ? Number(response.headers.get("Retry-After")) || 5 : 0);
}

export const models = () => ask("/models");
export const languages = () => ask("/languages");
export const settings = () => ask("/frontend/settings");
const post = (path, request, signal) =>
  ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(request), signal });

export const detect = (q, signal) => post("/detect", { q }, signal);
export const translate = (request, signal) => post("/translate", request, signal);
export const summarize = (request, signal) => post("/summarize", request, signal);

export const postEdit = (request, signal) => post("/post-edit", request, signal);

// As a form, so that a picture travels as it is.
export function multimodal(request, signal) {
  const body = new FormData();
  for (const [name, value] of Object.entries(request)) body.append(name, value);
  return ask("/translate/multimodal", { method: "POST", body, signal });
}
