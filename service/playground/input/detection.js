// Interpretation of the detected language and its confidence.

const LIKELY = 30; // percent from which a language that is not served is reported
const MORE_LIKELY = 10; // times as probable as the best served language, for the same
const CERTAIN = 40; // percent from which a language counts as certain

// Evaluate the detector's guesses for a text that should be in one of the `possible` languages:
// the language, whether it is certain, and `doubt`: a sentence if the text is probably in another language.
export function assessDetection(text, guesses, possible, name) {
  const { language, confidence, likeliest } = guesses.find((guess) => possible.includes(guess.language));
  const result = { language, certain: confidence >= CERTAIN && !likeliest, doubt: "" };
  if (!/\p{L}/u.test(text)) result.doubt = "There is no word in this text.";
  else if (likeliest?.confidence >= LIKELY && likeliest.confidence > MORE_LIKELY * confidence) {
    // If only the code of a language is known, the sentence does not name it.
    const other = likeliest.name === likeliest.language ? "another language" : likeliest.name;
    result.doubt = `This looks like ${other}. Texts in ${possible.map(name).join(" or ")} are translated here.`;
  }
  return result;
}
