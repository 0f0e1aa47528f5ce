// What the page can do: a tab for each, with the task of its models, its request, and the text of its answer.

import * as api from "../common/api.js";

export const DOCUMENT = "document";

// The tabs by name; the names are those in links. `text` and `mt` are the text areas, `image` the image input.
export function tasks({ text, mt, image }, selectedLanguages) {
  const given = () => text.value.trim();
  return {
    translation: {
      title: "Text",
      models: "translation",
      terms: true, // requests may have a glossary
      rewrites: true, // another word of the answer can be chosen
      send: api.translate,
      text: (answer) => answer.translatedText,
      request: () => given() && { q: text.value, ...selectedLanguages() },
    },
    [DOCUMENT]: { title: "Document", models: "translation", terms: true, request: () => null },
    multimodal: {
      title: "Image",
      models: "multimodal",
      send: api.multimodal,
      text: (answer) => answer.translatedText,
      request: () => (given() || image.file) && {
        ...(given() && { q: text.value }),
        ...(image.file && { image: image.file }),
        ...selectedLanguages(),
      },
    },
    "post-edit": {
      title: "Edit",
      models: "post-edit",
      send: api.postEdit,
      text: (answer) => answer.editedText,
      request: () => mt.value.trim() && {
        translation: mt.value,
        ...(given() && { source_text: text.value }),
        ...selectedLanguages(),
      },
    },
    summarization: {
      title: "Summary",
      models: "summarization",
      send: api.summarize,
      text: (answer) => answer.summaries,
      request: () => given() && { text: text.value, long: "lead" },
    },
  };
}
