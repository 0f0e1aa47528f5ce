// Rewriting: the user chooses another word in a translation, and the rest of its sentence is written anew. The search
// is given the beginning of the translation, and its candidates differ in the word after it.

import * as api from "../common/api.js";
import { byId } from "../common/elements.js";
import { identity } from "../common/models.js";
import { firstWord } from "../common/words.js";
import { sentenceAt, spliceExplanation } from "../explanation/splice.js";
import { WordMenu } from "./word-menu.js";

const OTHERS = 5; // words offered beside the present one

export class Rewriting {
  // `onRewrite` is called with the new answer.
  constructor(output, onRewrite) {
    Object.assign(this, { output, onRewrite, menu: new WordMenu(byId("answer")), request: null });
    byId("undo").onclick = () => {
      this.onRewrite(this.output.explained.before);
      this.focus(0);
    };
  }

  // Close the menu, and forget a word that was chosen for an answer that is no longer shown.
  stop() {
    this.menu.close();
    this.request?.abort();
    this.request = null;
  }

  // Offer other words for the one with this index in the explained answer.
  open(index, node) {
    const answer = this.output.explained;
    const words = this.output.explainedWords;
    const sentence = sentenceAt(answer.explanations[0], index);
    const [written, begin] = [[...answer.text], sentence.characters[1][0]];
    const prefix = written.slice(begin, answer.explanations[0].target[index].start).join("");
    words.pin(index);
    this.menu.open(node, {
      load: async (signal) => wordsOffered(prefix, await this.search(answer, sentence, prefix, signal), answer.languages[1]),
      onChoose: ({ beginning }) => this.rewrite(answer, sentence, beginning, index),
      onClose: () => words.unpin(),
    });
  }

  // Candidates for a sentence of an answer that begin with `prefix`, with the settings of the answer's request.
  search(answer, sentence, prefix, signal) {
    const { alternatives: _, ...settings } = answer.request;
    const q = [...answer.given].slice(...sentence.characters[0]).join("");
    const request = { ...settings, q, source: answer.languages[0], model: identity(answer.model), alternatives: OTHERS, explain: true };
    if (prefix.trim()) request.target_prefix = prefix.trimEnd();
    return api.translateOnce(request, signal);
  }

  async rewrite(answer, sentence, beginning, index) {
    this.request?.abort();
    const { signal } = (this.request = new AbortController());
    const started = performance.now();
    try {
      const response = await this.search(answer, sentence, beginning, signal);
      if (signal.aborted) return;
      this.onRewrite(spliceAnswer(answer, sentence, response, performance.now() - started));
      this.focus(index);
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof api.Failure)) throw error;
      this.output.showProblem(error.message);
    }
  }

  focus(index) {
    const { nodes } = this.output.explainedWords;
    nodes[Math.min(index, nodes.length - 1)]?.focus({ preventScroll: true });
  }
}

// The words that candidates have after the prefix, each once, the present one first: what follows each, and the
// beginning of the sentence with it.
function wordsOffered(prefix, { translatedText, alternatives = [] }, language) {
  const offers = new Map();
  for (const text of [translatedText, ...alternatives]) {
    if (!text.startsWith(prefix.trimEnd())) continue;
    const { space, word } = firstWord(text.slice(prefix.trimEnd().length), language);
    const beginning = prefix.trimEnd() + space + word;
    if (word && !offers.has(word)) offers.set(word, { word, beginning, rest: text.slice(beginning.length) });
  }
  return [...offers.values()];
}

// The answer with one sentence's translation replaced. Alternatives and scores are those of a whole text: a text of
// several sentences has none then.
function spliceAnswer(answer, sentence, response, milliseconds) {
  const [explanation] = answer.explanations;
  const characters = [...answer.text];
  const [start, end] = sentence.characters[1];
  const single = (explanation.sentences?.length ?? 1) === 1;
  return {
    ...answer,
    milliseconds,
    text: [...characters.slice(0, start), response.translatedText, ...characters.slice(end)].join(""),
    alternatives: single ? response.alternatives : undefined,
    scores: single ? response.scores : undefined,
    explanations: [spliceExplanation(explanation, sentence, response.explanations[0], [...response.translatedText].length)],
    before: answer,
  };
}
