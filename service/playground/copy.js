// Copying to the clipboard, which a button says of itself.

const SAID = 1600; // milliseconds

export async function copy(button, content) {
  const label = button.querySelector("span");
  const before = (button.before ??= label.textContent);
  try {
    await navigator.clipboard.writeText(content);
    label.textContent = "Copied";
    button.classList.add("done");
  } catch {
    label.textContent = "Not allowed";
  }
  clearTimeout(button.timer);
  button.timer = setTimeout(() => {
    label.textContent = before;
    button.classList.remove("done");
  }, SAID);
}
