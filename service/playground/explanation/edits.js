// Edits of a machine translation: deletions struck through, insertions underlined.

import { byId, element } from "../common/elements.js";

export function drawEdits(operations, language) {
  const section = byId("edited");
  section.hidden = !operations;
  if (!operations) return;
  const text = byId("edits");
  text.lang = language;
  text.replaceChildren(
    ...operations.flatMap(({ op, from, to }) => [
      ...(op === "keep" ? [from] : []),
      ...(op === "delete" || op === "replace" ? [element("del", { textContent: from, title: "deleted" })] : []),
      ...(op === "insert" || op === "replace" ? [element("ins", { textContent: to, title: "inserted" })] : []),
    ]),
  );
  const changes = operations.filter(({ op }) => op !== "keep").length;
  byId("changes").textContent = changes ? `${changes} ${changes === 1 ? "change" : "changes"}` : "no changes";
}
