// Start page: example texts of a model, with their images.

import { byId, element } from "../common/elements.js";

const IMAGE = "image/jpeg"; // what the images of examples are, in base64

// An image as a file, as if the user had chosen it.
const asFile = (base64) => new File([Uint8Array.from(atob(base64), (byte) => byte.charCodeAt(0))], "example.jpg", { type: IMAGE });

// Offer a model's examples; `onSelect` is called with the selected one: its texts by source, and its image as a file.
export function drawExamples(model, onSelect) {
  const examples = model?.examples ?? [];
  byId("try").hidden = !examples.length;
  byId("examples").replaceChildren(
    ...examples.map((example) => {
      const isImage = ([name]) => name in model.accepts.images;
      const texts = Object.entries(example).filter((entry) => !isImage(entry));
      const [image] = Object.entries(example).filter(isImage).map(([, base64]) => base64);
      const [[first, text]] = texts;
      const button = element("button", { type: "button", lang: model.languages[first] ?? "", dir: "auto" });
      button.append(...(image ? [element("img", { src: `data:${IMAGE};base64,${image}`, alt: "" })] : []), text);
      button.onclick = () => onSelect(Object.fromEntries(texts), image ? asFile(image) : null);
      return element("li", {}, button);
    }),
  );
}
