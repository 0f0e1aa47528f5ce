// Words in a text, by the rules of its language.

const WORD = "word";
const segmenters = new Map();

function segmenter(language) {
  if (!segmenters.has(language)) {
    let made;
    try {
      made = new Intl.Segmenter(language || undefined, { granularity: WORD });
    } catch {
      made = new Intl.Segmenter(undefined, { granularity: WORD }); // the code is no language tag
    }
    segmenters.set(language, made);
  }
  return segmenters.get(language);
}

const RIGHT_TO_LEFT = new Set(["Adlm", "Arab", "Hebr", "Mand", "Nkoo", "Rohg", "Samr", "Syrc", "Thaa"]); // scripts, ISO 15924

// Whether text of a language, by its code, is written from right to left.
export function runsRightToLeft(language) {
  try {
    return RIGHT_TO_LEFT.has(new Intl.Locale(language).maximize().script);
  } catch {
    return false; // the code is no language tag
  }
}

// The first word of a text with the white space before it, or else its first character that is no white space.
export function firstWord(text, language) {
  const space = text.match(/^\s*/u)[0];
  for (const { segment } of segmenter(language).segment(text.slice(space.length))) return { space, word: segment };
  return { space, word: "" };
}

// The selection from `start` to `end`, extended to whole words, without white space around it.
export function wholeWords(text, start, end, language) {
  let [from, to] = [start, end];
  for (const { index, segment, isWordLike } of segmenter(language).segment(text)) {
    const last = index + segment.length;
    if (!isWordLike || last <= start || index >= end) continue;
    [from, to] = [Math.min(from, index), Math.max(to, last)];
  }
  return text.slice(from, to).trim();
}

const isWordCharacter = (character) => character !== undefined && /[\p{L}\p{M}\p{N}_]/u.test(character);

// Where `part` stands in a text, at the bounds of words: [start, end) in UTF-16 code units.
export function occurrences(text, part) {
  const found = [];
  for (let at = text.indexOf(part); part && at >= 0; at = text.indexOf(part, at + part.length)) {
    const [before, after] = [text.slice(0, at), text.slice(at + part.length)].map((rest) => [...rest]);
    const joined = (isWordCharacter(before.at(-1)) && isWordCharacter([...part][0])) || (isWordCharacter(after[0]) && isWordCharacter([...part].at(-1)));
    if (!joined) found.push([at, at + part.length]);
  }
  return found;
}
