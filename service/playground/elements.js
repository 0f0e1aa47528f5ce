// Making elements. Text is always set as text, never as markup: names and texts come from outside.

export function element(tag, properties = {}, ...children) {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...children);
  return node;
}

export const byId = (id) => document.getElementById(id);
