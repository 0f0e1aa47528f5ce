// Differences of two texts, word by word.

// For each of two lists, which items are not in their longest common subsequence.
function inOneOnly(one, other) {
  const longest = Array.from({ length: one.length + 1 }, () => new Uint16Array(other.length + 1));
  for (let i = one.length - 1; i >= 0; i--) {
    for (let j = other.length - 1; j >= 0; j--) {
      longest[i][j] = one[i] === other[j] ? longest[i + 1][j + 1] + 1 : Math.max(longest[i + 1][j], longest[i][j + 1]);
    }
  }
  const differs = [one.map(() => true), other.map(() => true)];
  for (let i = 0, j = 0; i < one.length && j < other.length; ) {
    if (one[i] === other[j]) differs[0][i++] = differs[1][j++] = false;
    else if (longest[i + 1][j] >= longest[i][j + 1]) i++;
    else j++;
  }
  return differs;
}

// A text split at white space, which is kept: [{ text, differs }].
export const splitPieces = (text) => (text.match(/\s+|\S+/gu) ?? []).map((piece) => ({ text: piece, differs: false }));

// Two texts split in this way, with the words that only one of them has marked as different.
export function compare(one, other) {
  const both = [splitPieces(one), splitPieces(other)];
  const words = both.map((pieces) => pieces.filter(({ text }) => text.trim()));
  inOneOnly(...words.map((list) => list.map(({ text }) => text))).forEach((differs, side) => {
    differs.forEach((is, i) => (words[side][i].differs = is));
  });
  return both;
}
