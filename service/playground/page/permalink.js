// The state of the page as a link. The fragment after # is not sent to the server.

// The link of a state, { task, q, mt, source, target, model, beside }; what is absent or empty is left out, except the text.
export function linkOf({ q, ...choices }) {
  const parts = new URLSearchParams({ q });
  for (const [name, value] of Object.entries(choices)) if (value) parts.set(name, value);
  return `${location.origin}${location.pathname}#${parts}`;
}

// The state in the page's own address.
export const linkedState = () => Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
