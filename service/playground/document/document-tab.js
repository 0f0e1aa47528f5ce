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
  // `shown()` returns whether the tab is open, `settings()` the fields of a request; `retried(ask)` asks once more where a
  // model is no longer served; `announce` is called with news in words, `onRefused` with a message if the API key is refused.
  constructor({ shown, settings, retried, announce, onRefused }) {
    Object.assign(this, { shown, settings, retried, announce, onRefused, file: null, job: null, startedWith: "", formats: [] });
    [this.input, this.drop, this.translate, this.cancel, this.save] = ["document", "drop", "translate-file", "cancel-file", "download"].map(byId);
    [this.bar, this.state, this.result, this.problem] = ["file-progress", "file-state", "file-result", "file-problem"].map(byId);
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
    const suffix = suffixOf(file.name);
    if (!this.formats.includes(suffix)) {
      return this.showProblem(`${suffix ? `A file with the suffix ${suffix}` : "A file without a suffix"} cannot be translated here. Choose one of: ${this.formats.join(", ")}.`);
    }
    this.stop();
    this.file = file;
    this.showProblem("");
    byId("file-name").replaceChildren(element("b", { textContent: file.name, dir: "auto" }), ` ${sizeOf(file.size)}`);
    this.drop.classList.add("full");
    byId("choose-file").textContent = "Choose another file";
    this.show({ status: "chosen" });
    this.translate.focus();
  }

  showProblem(message) {
    this.problem.textContent = message;
    this.problem.hidden = !message;
    if (message) byId("no-file").hidden = true;
  }

  showFailure(error) {
    if (!(error instanceof api.Failure)) throw error;
    if (error.unauthorized) this.onRefused(error.message);
    else this.showProblem(error.message);
  }

  // A translated document can be translated again once languages, model or glossary have changed; until then its
  // translation stays.
  settingsChanged() {
    if (this.job?.status === "done") this.translate.hidden = this.startedWith === JSON.stringify(this.settings());
  }

  async start() {
    this.showProblem("");
    this.show({ status: "sending" });
    this.announce(`Translating ${this.file.name}`);
    const job = (this.job = new FileJob((state) => this.show(state)));
    try {
      await this.retried(() => this.run(job));
      if (job.status === "done" && this.shown()) this.save.focus();
    } catch (error) {
      if (this.job !== job) return; // it was cancelled, and another one may have been started
      this.show({ status: "chosen" });
      this.showFailure(error);
    }
  }

  async run(job) {
    await this.file.slice(0, 1).arrayBuffer().catch(() => { throw new api.Failure("The file cannot be read any more. Choose it again."); });
    const settings = this.settings();
    this.startedWith = JSON.stringify(settings);
    await job.run({ file: this.file, ...settings });
  }

  // Cancel a job that is not finished.
  stop() {
    this.job?.cancel();
    this.job = null;
    if (this.file) this.show({ status: "chosen" });
  }

  show({ status, segments, error, untranslated, warnings = [] }) {
    const running = ["sending", "queued", "running"].includes(status);
    byId("no-file").hidden = true;
    this.result.hidden = false;
    this.translate.hidden = running || status === "done";
    this.cancel.hidden = this.bar.hidden = !running;
    this.save.hidden = status !== "done";
    byId("file-name-answer").textContent = status === "done" ? this.job.fileName : this.file.name;
    const known = segments?.total > 0;
    if (known) [this.bar.max, this.bar.value] = [segments.total, segments.done];
    else this.bar.removeAttribute("value");
    const counted = () => `${segments.done.toLocaleString("en")} of ${segments.total.toLocaleString("en")} texts`;
    this.state.textContent = {
      chosen: "",
      sending: "Sending the file …",
      queued: "Waiting for its turn …",
      running: known ? `Translated ${counted()}` : "Reading the file …",
      done: ["Translated.", ...(untranslated ? [`${untranslated} ${untranslated === 1 ? "sentence stays as it is" : "sentences stay as they are"}, because the model cannot read them.`] : []), ...warnings].join("\n"),
      cancelled: "Cancelled.",
      failed: "",
    }[status];
    if (status === "failed") this.showProblem(api.sentence(error?.detail ?? "the file could not be translated"));
    if (status === "done") this.announce(`${this.file.name} is translated.`);
  }

  async download() {
    try {
      const content = await api.download(this.job.url);
      const href = URL.createObjectURL(content);
      element("a", { href, download: this.job.fileName }).click();
      setTimeout(() => URL.revokeObjectURL(href), 60_000);
    } catch (error) {
      this.showFailure(error);
    }
  }
}
