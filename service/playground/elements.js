// Making elements. Text is always set as text, never as markup: names and texts come from outside.

export function element(tag, properties = {}, ...children) {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...children);
  return node;
}

// Whether a pointer can leave what it points at without letting go: a finger that is lifted has left nothing.
export const hovers = (event) => event.pointerType === "mouse";

const LONGEST = 24; // characters of a word that are shown

// A word as it is shown: of a very long one its begin and end.
export function short(word) {
  const characters = [...word];
  return characters.length <= LONGEST ? word : [...characters.slice(0, LONGEST - 8), "…", ...characters.slice(-7)].join("");
}

// Give a node a word as its text, the whole of a shortened one as its tooltip.
export function named(node, word) {
  node.textContent = short(word);
  if (node.textContent !== word) node.title = word;
  return node;
}

export const byId = (id) => document.getElementById(id);

// A group of buttons of which one is pressed, by `titles` of values; empty where there is no choice.
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
