// The API documentation page, rendered from /openapi.json.

import { byId, element } from "./common/elements.js";
import { trial } from "./docs-trial.js";

const description = await (await fetch("/openapi.json")).json();
const resolve = (schema) => (schema?.$ref ? schema.$ref.slice(2).split("/").reduce((at, key) => at[key], description) : schema);
const code = (textContent) => element("code", { textContent });

// A description as nodes: text between backticks becomes code, and a single line break becomes a space.
function prose(text) {
  const parts = text.replace(/(\S)\n(?=\S)/g, "$1 ").split("`");
  return parts.map((part, i) => (i % 2 ? code(part) : part));
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
    ...trial(path, method, details, resolve),
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
