// A request of the API documentation: as a command to copy, and with fields to change it and to send it.

import { key, storeKey } from "./common/api.js";
import { copy } from "./common/copy.js";
import { element } from "./common/elements.js";

const COPY = "M8.5 7H15A1.5 1.5 0 0 1 16.5 8.5V15A1.5 1.5 0 0 1 15 16.5H8.5A1.5 1.5 0 0 1 7 15V8.5A1.5 1.5 0 0 1 8.5 7ZM4.5 13H3.5V4.5A1 1 0 0 1 4.5 3.5H13V4.5";
const JSON_TYPE = "application/json";
const SHOWN = 20_000; // characters of an answer
const quoted = (text) => (/^[\w.,:@/=-]+$/u.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`); // for a shell
const authorization = () => (key() ? { Authorization: `Bearer ${key()}` } : {});

const labelled = (name, field) => element("label", {}, element("span", { textContent: name }), field);

// The command's line, with a button that copies it.
function commandLine() {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 20 20");
  svg.setAttribute("aria-hidden", "true");
  svg.append(document.createElementNS("http://www.w3.org/2000/svg", "path"));
  svg.firstChild.setAttribute("d", COPY);
  const button = element("button", { type: "button", className: "act" }, svg, element("span", { textContent: "Copy" }));
  const line = element("code");
  button.onclick = () => copy(button, line.textContent);
  return { line, node: element("div", { className: "request" }, element("pre", {}, line), button) };
}

// The body of a request in fields: JSON as a text, or a form with its files. `options()`: what curl sends; `body()`: what
// fetch does, with its media type.
function jsonBody({ example }) {
  const text = JSON.stringify(example, null, 2);
  const field = element("textarea", { value: text, rows: text.split("\n").length, spellcheck: false, ariaLabel: "Body" });
  const compact = () => {
    try {
      return JSON.stringify(JSON.parse(field.value));
    } catch {
      return field.value; // not JSON: the service says why
    }
  };
  const options = () => [`-H 'Content-Type: ${JSON_TYPE}'`, `-d ${quoted(compact())}`];
  return { nodes: [field], options, body: () => ({ body: field.value, headers: { "Content-Type": JSON_TYPE } }) };
}

function formBody({ schema, example }, resolve) {
  const files = Object.entries(resolve(schema).properties).filter(([, { format }]) => format === "binary").map(([name]) => name);
  const texts = Object.entries(example).map(([name, value]) => [name, element("input", { value })]);
  const chosen = files.map((name) => [name, element("input", { type: "file" })]);
  const options = () => [
    ...texts.map(([name, { value }]) => `-F ${quoted(`${name}=${value}`)}`),
    ...chosen.map(([name, field]) => `-F ${quoted(`${name}=@${field.files[0]?.name ?? "report.docx"}`)}`),
  ];
  const body = () => {
    const form = new FormData();
    for (const [name, { value }] of texts) form.append(name, value);
    for (const [name, field] of chosen) if (field.files[0]) form.append(name, field.files[0]);
    return { body: form, headers: {} };
  };
  return { nodes: [...texts, ...chosen].map(([name, field]) => labelled(name, field)), options, body };
}

// An answer as text: JSON indented, and of what is no text its size.
async function written(response) {
  const type = response.headers.get("Content-Type") ?? "";
  if (!/json|text/.test(type)) return `${(await response.blob()).size.toLocaleString("en")} bytes, ${type || "empty"}`;
  const text = await response.text();
  const readable = type.includes("json") ? JSON.stringify(JSON.parse(text), null, 2) : text;
  return readable.length > SHOWN ? `${readable.slice(0, SHOWN)} …` : readable;
}

// The nodes of one operation: its command, and a form to try it.
export function trial(path, method, { parameters = [], requestBody, security }, resolve) {
  const content = requestBody?.content;
  const sent = !content ? null : content[JSON_TYPE] ? jsonBody(content[JSON_TYPE]) : formBody(content["multipart/form-data"], resolve);
  const inPath = parameters.filter((one) => one.in === "path").map(({ name }) => [name, element("input", { required: true })]);
  const address = () => inPath.reduce((at, [name, { value }]) => at.replace(`{${name}}`, (braced) => (value ? encodeURIComponent(value) : braced)), path);
  const { line, node } = commandLine();
  const show = () => {
    const options = [...(method === "delete" ? ["-X DELETE"] : []), `${location.origin}${address()}`, ...(sent?.options() ?? [])];
    line.textContent = ["curl", ...options].join(" ");
  };
  const status = element("p", { className: "how", role: "status" });
  const answer = element("pre", { hidden: true, tabIndex: 0, ariaLabel: "Answer" });
  const form = element("form", {}, ...inPath.map(([name, field]) => labelled(name, field)), ...(sent?.nodes ?? []));
  if (security) {
    const field = element("input", { value: key(), autocomplete: "off", spellcheck: false, className: "secret" });
    field.onchange = () => storeKey(field.value.trim());
    form.append(labelled("API key", field));
  }
  form.append(element("div", { className: "send" }, element("button", { className: "quiet", textContent: "Send" }), status));
  form.oninput = show;
  form.onsubmit = async (event) => {
    event.preventDefault();
    const { body, headers } = sent?.body() ?? {};
    const started = performance.now();
    status.textContent = "…";
    try {
      const response = await fetch(address(), { method: method.toUpperCase(), body, headers: { ...headers, ...authorization() } });
      answer.textContent = await written(response);
      status.textContent = `${response.status} ${response.statusText} · ${Math.round(performance.now() - started)} ms`;
    } catch {
      answer.textContent = "";
      status.textContent = "The service cannot be reached.";
    }
    answer.hidden = !answer.textContent;
  };
  show();
  return [node, element("details", { className: "try", open: path === "/translate" }, element("summary", { textContent: "Try it" }), form, answer)];
}
