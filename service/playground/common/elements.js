// Helpers that create elements. Text is set as text, never as markup, because it comes from users and the service.

export function element(tag, properties = {}, ...children) {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...children);
  return node;
}

// Whether the pointer can hover. A lifted finger also fires leave events, but what it touched stays selected.
export const hovers = (event) => event.pointerType === "mouse";

const MAX_CHARACTERS = 24; // of a displayed word

// The word as displayed: a very long one is shortened to its beginning and end.
export function shorten(word) {
  const characters = [...word];
  return characters.length <= MAX_CHARACTERS ? word : [...characters.slice(0, MAX_CHARACTERS - 8), "…", ...characters.slice(-7)].join("");
}

// Set a word as a node's text; if it is shortened, the tooltip has the full word.
export function setWord(node, word) {
  node.textContent = shorten(word);
  if (node.textContent !== word) node.title = word;
  return node;
}

// A probability as text.
export const percent = (probability) => (probability < 0.005 ? "under 1 %" : `${Math.round(100 * probability)} %`);

export const byId = (id) => document.getElementById(id);

// A group of toggle buttons, one pressed; `titles` maps values to labels. Empty if there is only one value.
export function segments(group, titles, chosen, choose) {
  const buttons = Object.entries(titles).map(([value, textContent]) => {
    const button = element("button", { type: "button", textContent, ariaPressed: String(value === chosen) });
    button.onclick = () => {
      for (const other of buttons) other.ariaPressed = String(other === button);
      choose(value);
    };
    return button;
  });
  group.replaceChildren(...(buttons.length > 1 ? buttons : []));
}
