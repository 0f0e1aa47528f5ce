// Buttons that copy text to the clipboard and confirm it in their label.

const CONFIRMATION = 1600; // milliseconds that it is shown

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
  }, CONFIRMATION);
}
