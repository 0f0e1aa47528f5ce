// Sends the input to the models, and shows the answers, or why there is none.

import { requestAnswers } from "../answer/answers.js";
import * as api from "../common/api.js";
import { byId } from "../common/elements.js";
import { assessDetection } from "../input/detection.js";

const ALTERNATIVES = 3;
const FADE_AFTER = 200; // milliseconds of waiting before the old answer is faded
const MAX_RETRY_AFTER = 120; // seconds; with a longer Retry-After the request is not repeated automatically

export class Answering {
  // `parts` are those of the page that it uses: output, choices, comparison, glossary, image, service, text, and `access`,
  // the API key; `tab()` returns the open tab, `retried(ask)` asks once more where a model is no longer served, `clear` clears
  // the answer, `show` is called with one answer or two.
  constructor(parts, { tab, retried, clear, show }) {
    Object.assign(this, parts, { tab, retried, clear, show, detection: null });
  }

  // Send the input once; `schedule` repeats the request where the service says when.
  async send(signal, schedule) {
    const { output, choices, access } = this;
    if (access.problem) return access.require(access.problem);
    const begins = performance.now();
    const waiting = setTimeout(() => output.fade(true), FADE_AFTER);
    try {
      const detection = await this.detect(signal);
      if (detection?.doubt) return this.showDoubt(detection.doubt);
      this.detection = detection;
      const onPrefix = (beginning) => {
        if (performance.now() - begins <= FADE_AFTER || signal.aborted) return;
        this.showDoubt("");
        output.showPrefix(beginning);
      };
      const answers = await this.retried(() => this.ask(signal, onPrefix));
      if (signal.aborted) return; // a newer request has replaced this one
      this.showDoubt("");
      this.service.showReady(choices.served.length);
      access.accept();
      this.show(...answers);
    } catch (error) {
      if (!signal.aborted) this.showFailure(error, signal, schedule);
    } finally {
      clearTimeout(waiting);
      output.endPrefix();
    }
  }

  // Ask the models; `onPrefix` is called with the output so far where one of them answers alone.
  ask(signal, onPrefix) {
    const requests = this.requests();
    const context = { pair: (found) => this.choices.pair(found), imageUrl: this.image.url };
    return requestAnswers(this.tab(), requests, context, signal, requests.length > 1 ? () => {} : onPrefix);
  }

  // The requests for the input: one for each model that answers.
  requests() {
    const { choices, comparison, glossary } = this;
    const tab = this.tab();
    if (choices.hasLanguages) glossary.show(choices.likelyPair(this.detection?.language), choices.names);
    const request = { ...tab.request(), ...choices.modelField, ...(tab.terms && glossary.fields), explain: true };
    const maxBeam = Math.max(...choices.models.map((m) => m.accepts.beam_size));
    if (maxBeam > 1) request.alternatives = Math.min(ALTERNATIVES, maxBeam - 1);
    return [request, ...(comparison.model ? [{ ...request, model: comparison.model }] : [])];
  }

  showFailure(error, signal, schedule) {
    const { output, service } = this;
    output.markOutdated();
    if (!(error instanceof api.Failure)) throw error;
    if (error.unavailable) service.showUnavailable();
    else service.showReady(this.choices.served.length);
    if (error.unauthorized) this.access.require(error.message);
    else if (error.retryAfter && error.retryAfter <= MAX_RETRY_AFTER)
      schedule.retry(error.retryAfter, signal, (seconds) => output.showProblem(`${error.message} Trying again in ${seconds} s.`));
    else output.showProblem(error.message);
  }

  // Detect the language of the text, if requested. If the text is already in the target language, swap the languages
  // if a model supports that.
  async detect(signal) {
    const { choices, text } = this;
    if (!choices.detects || !text.value.trim()) return null;
    const guesses = await api.detect(text.value, signal);
    const [{ language: likeliest, likeliest: other }] = guesses; // `other`: one that is not served is more probable
    const back = choices.pairs.find(({ source }) => source === likeliest);
    if (choices.task === "translation" && likeliest === choices.target.value && back && !other) {
      choices.target.value = back.target;
      choices.offerComparison();
    }
    return assessDetection(text.value, guesses, choices.possible, (code) => choices.name(code));
  }

  // Explain why a text is not translated automatically, and offer to translate it.
  showDoubt(doubt) {
    byId("doubt").hidden = true;
    if (!doubt) return;
    this.clear();
    this.service.showReady(this.choices.served.length);
    byId("doubt").hidden = false;
    byId("doubt").firstChild.textContent = doubt;
    byId("anyway").textContent = `Translate it as ${this.choices.possible.map((code) => this.choices.name(code)).join(" or ")}`;
  }
}
