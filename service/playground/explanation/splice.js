// Replaces a sentence's translation within the explanation of a text: words, offsets, matrices, links.

// The sentence with the target word `index`: its words [from, to) on each side, and its characters.
export function sentenceAt(explanation, index) {
  const { source, target, sentences = [[source.length, target.length]] } = explanation;
  let [s, t] = [0, 0];
  for (const [place, [sources, targets]] of sentences.entries()) {
    if (index < t + targets) {
      const words = [[s, s + sources], [t, t + targets]];
      const characters = [source, target].map((spans, side) => [spans[words[side][0]]?.start ?? 0, spans[words[side][1] - 1]?.end ?? 0]);
      return { place, words, characters };
    }
    [s, t] = [s + sources, t + targets];
  }
  throw new RangeError(`there is no target word ${index}`);
}

// The explanation with that sentence's part replaced by `part`, the explanation of the sentence alone.
export function spliceExplanation(explanation, { place, words: [[s, sEnd], [t, tEnd]], characters }, part, length) {
  const grown = length - (characters[1][1] - characters[1][0]); // characters that the translation is longer
  const [moreSource, moreTarget] = [part.source.length - (sEnd - s), part.target.length - (tEnd - t)];
  const move = (spans, by) => spans.map((span) => ({ ...span, start: span.start + by, end: span.end + by }));
  const cut = (list, own) => list && own && [...list.slice(0, t), ...own, ...list.slice(tEnd)];
  const zeros = (count) => new Array(count).fill(0);
  const matrix = (rows, own) => cut(
    rows.map((row) => [...row.slice(0, s), ...zeros(part.source.length), ...row.slice(sEnd)]),
    own.map((row) => [...zeros(s), ...row, ...zeros(explanation.source.length - sEnd)]),
  );
  // Words of other sentences by their new indices, and those of this one by their place in the text.
  const within = (word, from, to) => word >= from && word < to;
  const after = (word, to, more) => (word >= to ? word + more : word);
  const pairs = (all, own, read, write) => [
    ...all.filter((one) => !within(read(one)[1], t, tEnd) && !within(read(one)[0], s, sEnd))
      .map((one) => write(one, after(read(one)[0], sEnd, moreSource), after(read(one)[1], tEnd, moreTarget))),
    ...own.map((one) => write(one, read(one)[0] + s, read(one)[1] + t)),
  ];
  const sentences = explanation.sentences && explanation.sentences.map((counts, i) => (i === place ? [part.source.length, part.target.length] : counts));
  return {
    ...explanation,
    source: [...explanation.source.slice(0, s), ...move(part.source, characters[0][0]), ...explanation.source.slice(sEnd)],
    target: [...explanation.target.slice(0, t), ...move(part.target, characters[1][0]), ...move(explanation.target.slice(tEnd), grown)],
    matrices: Object.fromEntries(Object.entries(explanation.matrices).map(([kind, rows]) => [kind, matrix(rows, part.matrices[kind])])),
    alignment: pairs(explanation.alignment, part.alignment, (pair) => pair, (_, source, target) => [source, target]),
    ...(explanation.links && part.links && {
      links: pairs(explanation.links, part.links, (link) => [link.source, link.target], (link, source, target) => ({ ...link, source, target })),
    }),
    confidence: cut(explanation.confidence, part.confidence),
    gate: cut(explanation.gate, part.gate),
    doubts: spliceDoubts(explanation.doubts, part.doubts, { s, sEnd, t, tEnd, moreSource, moreTarget }),
    terms: spliceTerms(explanation.terms, part.terms, characters, grown),
    sentences,
  };
}

function spliceDoubts(all = [], own = [], { s, sEnd, t, tEnd, moreSource, moreTarget }) {
  const bounds = { source: [s, sEnd, moreSource], target: [t, tEnd, moreTarget] };
  const others = all.filter(({ side, word }) => word < bounds[side][0] || word >= bounds[side][1]);
  const moved = (doubt, by) => ({ ...doubt, word: doubt.word + by(doubt.side, doubt.word), ...("earlier" in doubt && { earlier: doubt.earlier + by("target", doubt.earlier) }) });
  return [
    ...others.map((doubt) => moved(doubt, (side, word) => (word >= bounds[side][1] ? bounds[side][2] : 0))),
    ...own.map((doubt) => moved(doubt, (side) => bounds[side][0])),
  ];
}

function spliceTerms(all = [], own = [], [source, target], grown) {
  const moved = ([start, end], by) => [start + by, end + by];
  const terms = [
    ...all.filter(({ source: [start] }) => start < source[0]),
    ...own.map((term) => ({ source: moved(term.source, source[0]), target: moved(term.target, target[0]) })),
    ...all.filter(({ source: [start] }) => start >= source[1]).map((term) => ({ ...term, target: moved(term.target, grown) })),
  ];
  return terms.length ? terms : undefined;
}
