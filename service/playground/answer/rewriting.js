// Rewriting: the user chooses another word in a translation, and the rest of its sentence is written anew. The search
// is given the beginning of the translation, and its candidates differ in the word after it.

import * as api from "../common/api.js";
import { byId } from "../common/elements.js";
import { identity } from "../common/models.js";
import { firstWord } from "../common/words.js";
import { doubtsWithin } from "../explanation/doubtful-words.js";
import { sentenceAt, spliceExplanation } from "../explanation/splice.js";
import { WordMenu } from "./word-menu.js";

const OTHERS = 5; // words offered beside the present one
const PROBABLE = 0.01; // least probability of a word that is offered

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
    const prefix = written.slice(begin, answer.explanations[0].target[index].start).join("").trimEnd();
    const present = written.slice(begin, sentence.characters[1][1]).join("");
    words.pin(index);
    this.menu.open(node, {
      load: async (signal) => {
        const { translatedText, alternatives = [] } = await this.search(answer, sentence, prefix, OTHERS, signal);
        return wordsOffered(prefix, [present, translatedText, ...alternatives], answer.languages[1]);
      },
      onChoose: ({ beginning }) => this.rewrite(answer, sentence, beginning, index),
      onClose: () => words.unpin(),
    });
  }

  // Search a sentence of an answer, beginning with `prefix`, with the settings of the answer's request.
  search(answer, sentence, prefix, alternatives, signal) {
    const q = [...answer.given].slice(...sentence.characters[0]).join("");
    const by = answer.model.pivot ? {} : { model: identity(answer.model) }; // two models cannot be named
    const own = { q, source: answer.languages[0], ...by, target_prefix: prefix, alternatives, min_alternative_expansion_prob: PROBABLE };
    return api.translateOnce({ ...answer.request, ...own, explain: !alternatives }, signal);
  }

  async rewrite(answer, sentence, beginning, index) {
    this.request?.abort();
    const { signal } = (this.request = new AbortController());
    const started = performance.now();
    try {
      const response = await this.search(answer, sentence, beginning, 0, signal);
      if (signal.aborted) return;
      this.onRewrite(spliceAnswer(answer, sentence, response, index, performance.now() - started));
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

// The words that candidates have after the prefix, each once: what follows each, and the beginning of the sentence with it.
function wordsOffered(prefix, candidates, language) {
  const offers = new Map();
  for (const text of candidates) {
    const { space, word } = firstWord(text.slice(prefix.length), language);
    const beginning = prefix + space + word;
    if (word && !offers.has(word)) offers.set(word, { word, beginning, rest: text.slice(beginning.length) });
  }
  return [...offers.values()];
}

// The answer with one sentence's translation replaced. The alternatives were those of the whole text before.
function spliceAnswer(answer, sentence, response, index, milliseconds) {
  const [explanation] = answer.explanations;
  const characters = [...answer.text];
  const [start, end] = sentence.characters[1];
  const part = { ...response.explanations[0], doubts: doubtsAfter(explanation, sentence, response.explanations[0], index) };
  return {
    ...answer,
    selected: 0,
    milliseconds,
    text: [...characters.slice(0, start), response.translatedText, ...characters.slice(end)].join(""),
    alternatives: undefined,
    scores: undefined,
    explanations: [spliceExplanation(explanation, sentence, part, [...response.translatedText].length)],
    before: answer,
  };
}

// The doubts about a rewritten sentence. A word that the user chose is improbable, but not doubtful; those before it are as
// doubtful as they were.
function doubtsAfter(explanation, { words: [[s, sEnd], [t, tEnd]] }, part, index) {
  const before = doubtsWithin(explanation.doubts, [s, t], sEnd - s, tEnd - t) ?? [];
  const said = (doubts, doubt) => doubts.some((one) => one.side === "target" && one.word === doubt.word && one.reason === doubt.reason);
  const chosen = ({ side, reason, word }) => side === "target" && reason === "low_probability" && word <= index - t;
  return (part.doubts ?? []).filter((doubt) => !chosen(doubt) || (doubt.word < index - t && said(before, doubt)));
}
