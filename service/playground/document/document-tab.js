// The document tab: a file is chosen or dropped, translated as a job of the service, and downloaded.

import * as api from "../common/api.js";
import { byId, element } from "../common/elements.js";
import { FileJob } from "./file-job.js";

const UNITS = ["bytes", "kB", "MB"];

function sizeOf(bytes) {
  const unit = Math.min(Math.floor(Math.log10(Math.max(bytes, 1)) / 3), UNITS.length - 1);
  return `${(bytes / 1000 ** unit).toLocaleString("en", { maximumFractionDigits: unit ? 1 : 0 })} ${UNITS[unit]}`;
}

const suffixOf = (name) => name.match(/\.[^.]+$/u)?.[0].toLowerCase() ?? "";

export class DocumentTab {
  // `shown()` returns whether the tab is open, `languages()` the selected ones; `announce` is called with news in words,
  // `onProblem` with a message, or with "" once it no longer holds, and with the failure if there is one.
  constructor({ shown, languages, announce, onProblem }) {
    Object.assign(this, { shown, languages, announce, onProblem, file: null, job: null, formats: [] });
    [this.input, this.drop, this.translate, this.cancel, this.save] = ["document", "drop", "translate-file", "cancel-file", "download"].map(byId);
    [this.bar, this.state, this.result] = ["file-progress", "file-state", "file-result"].map(byId);
    byId("choose-file").onclick = () => this.input.click();
    this.input.onchange = () => {
      if (this.input.files[0]) this.choose(this.input.files[0]);
      this.input.value = "";
    };
    this.translate.onclick = () => this.start();
    this.cancel.onclick = () => this.stop();
    this.save.onclick = () => this.download();
    this.acceptDrops(byId("input"));
  }

  acceptDrops(pane) {
    const over = (event, is) => {
      if (!this.shown() || ![...event.dataTransfer.types].includes("Files")) return;
      event.preventDefault();
      pane.classList.toggle("over", is);
    };
    pane.addEventListener("dragover", (event) => over(event, true));
    pane.addEventListener("dragleave", (event) => over(event, false));
    pane.addEventListener("drop", (event) => {
      over(event, false);
      if (this.shown() && event.dataTransfer.files[0]) this.choose(event.dataTransfer.files[0]);
    });
  }

  // Offer these formats: suffixes with their dot.
  offer(formats) {
    this.formats = formats.map((suffix) => (suffix.startsWith(".") ? suffix : `.${suffix}`));
    this.input.accept = this.formats.join(",");
    byId("formats").textContent = this.formats.map((suffix) => suffix.slice(1)).join(", ");
  }

  choose(file) {
    this.stop();
    const suffix = suffixOf(file.name);
    if (!this.formats.includes(suffix)) {
      return this.onProblem(`${suffix ? `Files with the suffix ${suffix}` : "Files without a suffix"} are not translated here, but ${this.formats.join(", ")} are.`);
    }
    this.file = file;
    this.onProblem("");
    byId("file-name").replaceChildren(element("b", { textContent: file.name, dir: "auto" }), ` ${sizeOf(file.size)}`);
    this.drop.classList.add("full");
    byId("choose-file").textContent = "Choose another file";
    this.show({ status: "chosen" });
    this.translate.focus();
  }

  async start() {
    this.onProblem("");
    this.show({ status: "sending" });
    this.announce(`Translating ${this.file.name}`);
    this.job = new FileJob((job) => this.show(job));
    try {
      await this.job.run({ file: this.file, ...this.languages() });
      if (this.job.status === "done") this.save.focus();
    } catch (error) {
      if (!(error instanceof api.Failure)) throw error;
      this.show({ status: "chosen" });
      this.onProblem(error.message, error);
    }
  }

  // Cancel a job that is not finished.
  stop() {
    this.job?.cancel();
    this.job = null;
    if (this.file) this.show({ status: "chosen" });
  }

  show({ status, segments, error, name }) {
    const running = ["sending", "queued", "running"].includes(status);
    byId("no-file").hidden = true;
    this.result.hidden = false;
    this.translate.hidden = running || status === "done";
    this.cancel.hidden = this.bar.hidden = !running;
    this.save.hidden = status !== "done";
    byId("file-name-answer").textContent = name ?? this.file.name;
    const known = segments?.total > 0;
    if (known) [this.bar.max, this.bar.value] = [segments.total, segments.done];
    else this.bar.removeAttribute("value");
    const counted = () => `${segments.done.toLocaleString("en")} of ${segments.total.toLocaleString("en")} segments`;
    this.state.textContent = {
      chosen: "",
      sending: "Sending the file …",
      queued: "Waiting for its turn …",
      running: known ? `Translated ${counted()}` : "Reading the file …",
      done: known ? `Translated ${segments.total.toLocaleString("en")} ${segments.total === 1 ? "segment" : "segments"}.` : "Translated.",
      cancelled: "Cancelled.",
      failed: "",
    }[status];
    if (status === "failed") this.onProblem(api.sentence(error?.detail ?? "the file could not be translated"));
    if (status === "done") this.announce(`${this.file.name} is translated.`);
  }

  async download() {
    try {
      const content = await api.download(this.job.url);
      const link = element("a", { href: URL.createObjectURL(content), download: this.job.fileName(this.file.name, this.languages().target) });
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
    } catch (error) {
      if (!(error instanceof api.Failure)) throw error;
      this.onProblem(error.message, error);
    }
  }
}
