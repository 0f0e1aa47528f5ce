// Which parts of the page a tab has.

import { byId } from "../common/elements.js";
import { DOCUMENT } from "./tasks.js";

export function showParts(name, { terms = false }, { hasLanguages, compares, starts }) {
  const file = name === DOCUMENT;
  const parts = {
    "text-input": !file,
    "text-output": !file,
    "file-input": file,
    "file-output": file,
    "image-input": name === "multimodal",
    draft: name === "post-edit",
    given: !hasLanguages,
    written: !hasLanguages,
    compare: !file && compares,
    start: !file && starts,
    "glossary-button": terms,
  };
  for (const [id, shown] of Object.entries(parts)) byId(id).hidden = !shown;
}
