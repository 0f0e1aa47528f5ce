// The API documentation page, rendered from /openapi.json.

import { copy } from "./common/copy.js";
import { byId, element } from "./common/elements.js";

const description = await (await fetch("/openapi.json")).json();
const resolve = (schema) => (schema?.$ref ? schema.$ref.slice(2).split("/").reduce((at, key) => at[key], description) : schema);
const code = (textContent) => element("code", { textContent });

// A description as nodes: text between backticks becomes code, and a single line break becomes a space.
function prose(text) {
  const parts = text.replace(/(\S)\n(?=\S)/g, "$1 ").split("`");
  return parts.map((part, i) => (i % 2 ? code(part) : part));
}

const COPY = "M8.5 7H15A1.5 1.5 0 0 1 16.5 8.5V15A1.5 1.5 0 0 1 15 16.5H8.5A1.5 1.5 0 0 1 7 15V8.5A1.5 1.5 0 0 1 8.5 7ZM4.5 13H3.5V4.5A1 1 0 0 1 4.5 3.5H13V4.5";

// A command with a button that copies it.
function request(command) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 20 20");
  svg.setAttribute("aria-hidden", "true");
  svg.append(document.createElementNS("http://www.w3.org/2000/svg", "path"));
  svg.firstChild.setAttribute("d", COPY);
  const button = element("button", { type: "button", className: "act" }, svg, element("span", { textContent: "Copy" }));
  button.onclick = () => copy(button, command);
  return element("div", { className: "request" }, element("pre", {}, code(command)), button);
}

// Short description of a type and its limits.
function type(given) {
  const schema = resolve(given) ?? {};
  const branches = (schema.anyOf ?? schema.oneOf)?.filter((branch) => branch.type !== "null");
  if (branches) return branches.map(type).join(" or ");
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" or ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  const limits = [
    schema.maxLength && `at most ${schema.maxLength} characters`,
    schema.minimum !== undefined && `from ${schema.minimum}`,
    schema.exclusiveMinimum !== undefined && `over ${schema.exclusiveMinimum}`,
    schema.maximum !== undefined && `to ${schema.maximum}`,
    schema.exclusiveMaximum !== undefined && `below ${schema.exclusiveMaximum}`,
  ].filter(Boolean);
  if (schema.type === "array") return `list${schema.maxItems ? ` of at most ${schema.maxItems}` : ""}: ${type(schema.items)}`;
  const plain = schema.properties ? schema.title : (schema.type ?? "any");
  return limits.length ? `${plain}, ${limits.join(" ")}` : plain;
}

function fields(given) {
  const schema = resolve(given);
  const rows = Object.entries(schema?.properties ?? {}).map(([name, field]) => {
    const required = schema.required?.includes(name);
    const first = element("td", {}, code(name));
    if (required) first.append(element("span", { className: "required", textContent: " *", title: "required" }));
    return element("tr", {}, first, element("td", { textContent: type(field) }), element("td", {}, ...prose(field.description ?? resolve(field).description ?? "")));
  });
  return element("table", {}, element("tbody", {}, ...rows));
}

const JSON_TYPE = "application/json";
const quoted = (text) => (/^[\w.,:@/=-]+$/u.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`); // for a shell

// The options by which curl sends an example of a body: JSON, or a form with its files.
function bodyOptions(body) {
  if (body[JSON_TYPE]) return [`-H 'Content-Type: ${JSON_TYPE}'`, `-d ${quoted(JSON.stringify(body[JSON_TYPE].example))}`];
  const { schema, example } = body["multipart/form-data"];
  const files = Object.entries(resolve(schema).properties).filter(([, field]) => field.format === "binary");
  return [...Object.entries(example), ...files.map(([name]) => [name, "@report.docx"])].map((field) => `-F ${quoted(field.join("="))}`);
}

function curl(method, path, body) {
  const options = [...(method === "delete" ? ["-X DELETE"] : []), `${location.origin}${path}`, ...(body ? bodyOptions(body) : [])];
  return ["curl", ...options].join(" ");
}

// The fields of every JSON response that is no error, each under its heading.
function responses(details) {
  const answers = Object.entries(details.responses).flatMap(([status, { content }]) => {
    const schema = resolve(content?.[JSON_TYPE]?.schema);
    return status < "300" && schema ? [[status, schema]] : [];
  });
  return answers.flatMap(([status, schema]) => {
    const which = answers.length > 1 ? ` (${status})` : "";
    const list = schema.type === "array";
    return [element("h3", { textContent: `Response${which}${list ? ": a list of" : ""}` }), fields(list ? schema.items : schema)];
  });
}

function operation(path, method, details) {
  const body = details.requestBody?.content;
  const headers = (details.parameters ?? []).filter((p) => p.in === "header");
  const parts = [
    element("summary", {}, element("b", { textContent: method.toUpperCase() }), code(path), element("span", {}, ...prose(details.description ?? details.summary))),
    request(curl(method, path, body)),
  ];
  if (body) parts.push(element("h3", { textContent: "Request" }), fields((body[JSON_TYPE] ?? body["multipart/form-data"]).schema));
  if (headers.length)
    parts.push(element("h3", { textContent: "Headers" }), fields({ properties: Object.fromEntries(headers.map((p) => [p.name, { ...p.schema, description: p.description }])) }));
  parts.push(...responses(details));
  const errors = Object.entries(details.responses).filter(([status]) => status >= "400");
  if (errors.length) {
    const rows = errors.map(([status, { description: meaning }]) => element("tr", {}, element("td", {}, code(status)), element("td", {}, ...prose(meaning))));
    parts.push(element("h3", { textContent: "Errors (application/problem+json)" }), element("table", {}, element("tbody", {}, ...rows)));
  }
  return element("details", { className: "card", open: path === "/translate" }, ...parts);
}

const operations = Object.entries(description.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, details]) => operation(path, method, details)),
);
byId("api").append(
  element("h1", { textContent: "The API" }),
  element("p", { className: "lead" }, ...prose(description.info.description)),
  element("p", {}, element("a", { href: "/", textContent: "Playground" }), " · ", element("a", { href: "/openapi.json", textContent: "openapi.json" }), ` · version ${description.info.version}`),
  ...operations,
);
