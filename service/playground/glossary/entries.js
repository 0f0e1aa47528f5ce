// Entries of a glossary, [source, target], as tables of text: with tabs, or with commas and quotes.

// Read a table. A line without a second column has an empty target; blank lines are left out.
export function parseEntries(text) {
  const separator = text.includes("\t") ? "\t" : /^[^,\n]*;/u.test(text) ? ";" : ",";
  const rows = separator === "\t" ? text.split(/\r\n?|\n/u).map((line) => line.split("\t")) : parseQuoted(text, separator);
  return rows.map(([source = "", target = ""]) => [source.trim(), target.trim()]).filter(([source, target]) => source || target);
}

// Rows of fields that may be in quotes; two quotes in them stand for one.
function parseQuoted(text, separator) {
  const rows = [[""]];
  let quoted = false;
  for (let i = 0; i < text.length; i++) {
    const row = rows.at(-1);
    const character = text[i];
    if (quoted && character === '"' && text[i + 1] === '"') row[row.length - 1] += text[i++];
    else if (character === '"' && (quoted || !row.at(-1).trim())) quoted = !quoted;
    else if (!quoted && character === separator) row.push("");
    else if (!quoted && (character === "\n" || character === "\r")) rows.push([""]);
    else row[row.length - 1] += character;
  }
  return rows;
}

export const writeEntries = (entries) => entries.map((entry) => entry.join("\t")).join("\n");

// Indices of entries whose source has another target in an earlier one: the service refuses them.
export function contradictions(entries) {
  const first = new Map();
  const found = new Set();
  entries.forEach(([source, target], i) => {
    const word = source.trim().toLocaleLowerCase();
    if (!word || !target.trim()) return;
    if (first.has(word) && first.get(word) !== target.trim()) found.add(i);
    else first.set(word, target.trim());
  });
  return found;
}
