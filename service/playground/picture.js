// Input of the picture that belongs to a text: chosen, dropped or pasted, with a preview.

import { byId } from "./elements.js";

export class Picture {
  // `changed` is called when a picture is added or removed; `taken()` returns whether the task accepts pictures.
  constructor(taken, changed) {
    this.file = null;
    this.address = "";
    this.taken = taken;
    this.changed = changed;
    const [file, field] = [byId("file"), byId("given-pane")];
    byId("add").onclick = () => file.click();
    byId("remove").onclick = () => { this.take(null); byId("add").focus(); };
    file.onchange = () => { this.take(file.files[0] ?? null); file.value = ""; };
    const first = ({ files }) => [...files].find(({ type }) => type.startsWith("image/"));
    const over = (event, is) => {
      if (!taken() || ![...event.dataTransfer.types].includes("Files")) return;
      event.preventDefault();
      field.classList.toggle("over", is);
    };
    field.addEventListener("dragover", (event) => over(event, true));
    field.addEventListener("dragleave", (event) => over(event, false));
    field.addEventListener("drop", (event) => {
      over(event, false);
      if (taken() && first(event.dataTransfer)) this.take(first(event.dataTransfer));
    });
    addEventListener("paste", (event) => {
      const pasted = taken() && first(event.clipboardData);
      if (!pasted) return;
      event.preventDefault();
      this.take(pasted);
    });
  }

  take(file) {
    this.file = file;
    this.address = "";
    byId("preview").hidden = true;
    byId("add").textContent = file ? "Another picture" : "Add a picture";
    if (!file) return this.changed();
    const reader = new FileReader(); // the content security policy allows data: URLs, but not blob: URLs
    reader.onload = () => {
      if (this.file !== file) return;
      this.address = reader.result;
      byId("seen").src = this.address;
      byId("name").textContent = file.name;
      byId("preview").hidden = false;
      this.changed();
    };
    reader.readAsDataURL(file);
  }
}
