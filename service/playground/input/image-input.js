// Input of the image that belongs to a text: by file dialog, drop or paste, with a preview.

import { byId } from "../common/elements.js";

export class ImageInput {
  // `onChange` is called when an image is added or removed, `onRefused` with a message where one is too large; `accepts()`
  // returns whether the task accepts images.
  constructor(accepts, onChange, onRefused) {
    Object.assign(this, { accepts, onChange, onRefused, file: null, url: "", maxBytes: Infinity });
    const [file, field] = [byId("file"), byId("input")];
    byId("add").onclick = () => file.click();
    byId("remove").onclick = () => { this.set(null); byId("add").focus(); };
    file.onchange = () => { this.set(file.files[0] ?? null); file.value = ""; };
    const first = ({ files }) => [...files].find(({ type }) => type.startsWith("image/"));
    const over = (event, is) => {
      if (!accepts() || ![...event.dataTransfer.types].includes("Files")) return;
      event.preventDefault();
      field.classList.toggle("over", is);
    };
    field.addEventListener("dragover", (event) => over(event, true));
    field.addEventListener("dragleave", (event) => over(event, false));
    field.addEventListener("drop", (event) => {
      over(event, false);
      if (accepts() && first(event.dataTransfer)) this.set(first(event.dataTransfer));
    });
    addEventListener("paste", (event) => {
      const pasted = accepts() && first(event.clipboardData);
      if (!pasted) return;
      event.preventDefault();
      this.set(pasted);
    });
  }

  set(file) {
    // The service may end the connection of an upload that is too large, and its answer be lost.
    if (file?.size > this.maxBytes) return this.onRefused(`The image must not be larger than ${this.maxBytes.toLocaleString("en")} bytes.`);
    this.file = file;
    this.url = "";
    byId("preview").hidden = true;
    byId("add").textContent = file ? "Another image" : "Add an image";
    if (!file) return this.onChange();
    const reader = new FileReader(); // the content security policy allows data: URLs, but not blob: URLs
    reader.onload = () => {
      if (this.file !== file) return;
      this.url = reader.result;
      byId("preview-image").src = this.url;
      byId("name").textContent = file.name;
      byId("preview").hidden = false;
      this.onChange();
    };
    reader.readAsDataURL(file);
  }
}
