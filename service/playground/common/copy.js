// Buttons that copy text to the clipboard and confirm it in their label.

const CONFIRMATION = 1600; // milliseconds that it is shown

const own = new WeakMap(); // of a button: its own label, and the timer that restores it

export async function copy(button, content) {
  const label = button.querySelector("span");
  if (!own.has(button)) own.set(button, { text: label.textContent });
  const { text, timer } = own.get(button);
  try {
    await navigator.clipboard.writeText(content);
    label.textContent = "Copied";
    button.classList.add("done");
  } catch {
    label.textContent = "Not allowed";
  }
  clearTimeout(timer);
  own.get(button).timer = setTimeout(() => {
    label.textContent = text;
    button.classList.remove("done");
  }, CONFIRMATION);
}
