// The terms that an answer has: parts of it that a glossary prescribed, or that stay as they are in the text.

const inside = ({ start, end }, [from, to]) => start < to && end > from;

// For each word of a term in the answer, by index, what the term is: a tooltip.
export function termWords({ target, terms = [] }, { given, text }) {
  const [source, written] = [given, text].map((whole) => [...whole]);
  const words = new Map();
  for (const term of terms) {
    const [from, into] = [source.slice(...term.source).join(""), written.slice(...term.target).join("")];
    const meaning = from === into ? "stays as it is" : `glossary: ${from} → ${into}`;
    target.forEach((span, index) => inside(span, term.target) && words.set(index, meaning));
  }
  return words;
}
