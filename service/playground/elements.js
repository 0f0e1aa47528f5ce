// Making elements. Text is always set as text, never as markup: names and texts come from outside.

export function element(tag, properties = {}, ...children) {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...children);
  return node;
}

// Whether a pointer can leave what it points at without letting go: a finger that is lifted has left nothing.
export const hovers = (event) => event.pointerType === "mouse";

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
