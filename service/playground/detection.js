// Which language a text is in, and how far that is to be trusted.

const LIKELY = 30; // percent from which another language than those served is named
const MORE_LIKELY = 10; // and so many times likelier it must be
const SURE = 40; // percent from which a language is certain

// What the detector's guesses say of a text that one of `possible` languages is to be read in:
// the language, whether it is certain, and `doubt`: a sentence where it is hardly in that language.
export function judge(text, guesses, possible, name) {
  const { language, confidence, likeliest } = guesses.find((guess) => possible.includes(guess.language));
  const said = { language, certain: confidence >= SURE && !likeliest, doubt: "" };
  if (!/\p{L}/u.test(text)) said.doubt = "There is no word in this text.";
  else if (likeliest?.confidence >= LIKELY && likeliest.confidence > MORE_LIKELY * confidence) {
    // A name that is only a code says nothing to a reader.
    const other = likeliest.name === likeliest.language ? "another language" : likeliest.name;
    said.doubt = `This looks like ${other}. Texts in ${possible.map(name).join(" or ")} are translated here.`;
  }
  return said;
}
