// Values in the browser's storage, as JSON, or as text. Where storage is full or not allowed, nothing is kept.

// Functions, because where storage is not allowed its very mention throws.
const local = () => localStorage;
export const session = () => sessionStorage; // of this tab, until it is closed

export function readStored(key, otherwise, storage = local) {
  try {
    return JSON.parse(storage().getItem(key)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

// Store a value; null removes it.
export const store = (key, value, storage = local) => storeText(key, value === null ? null : JSON.stringify(value), storage);

export function storeText(key, text, storage = local) {
  try {
    if (text === null) storage().removeItem(key);
    else storage().setItem(key, text);
  } catch {
    // The page works without storage.
  }
}
