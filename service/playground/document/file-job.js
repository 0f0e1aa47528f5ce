// A file's translation as a job of the service, asked for its state until it ends.

import * as api from "../common/api.js";

const POLL_INTERVAL = 400; // milliseconds
const ENDED = ["done", "failed", "cancelled"];

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

export class FileJob {
  // `onState` is called with each state of the job: { status, segments: { done, total }, untranslated, warnings, error }.
  constructor(onState) {
    Object.assign(this, { onState, id: null, status: "sending", url: "", controller: new AbortController() });
  }

  get ended() {
    return ENDED.includes(this.status);
  }

  // Send a file, { file, source, target, ... }, and follow the job until it ends. Throws a Failure, or an AbortError once it
  // is cancelled.
  async run(request) {
    this.fileName = translatedName(request.file.name, request.target);
    let state = await api.translateFile(request, this.controller.signal);
    this.id = state.id;
    for (;;) {
      [this.status, this.url] = [state.status, state.translatedFileUrl ?? ""];
      this.onState(state);
      if (this.ended) return;
      await pause(POLL_INTERVAL);
      state = await this.next();
    }
  }

  // The next state; while the service does not answer, the one after.
  async next() {
    for (;;) {
      try {
        return await api.fileJob(this.id, this.controller.signal);
      } catch (error) {
        if (!error.retryAfter) throw error;
        await pause(1000 * error.retryAfter);
      }
    }
  }

  cancel() {
    this.controller.abort();
    if (this.id && !this.ended) this.remove();
  }

  // A job that cannot be cancelled ends by itself, and the service forgets it.
  remove() {
    api.cancelFileJob(this.id).catch(() => {});
  }
}

// The name under which the translation of a file is saved: report.docx becomes report.en.docx.
function translatedName(name, target) {
  const dot = name.lastIndexOf(".");
  return `${name.slice(0, dot)}.${target}${name.slice(dot)}`;
}
