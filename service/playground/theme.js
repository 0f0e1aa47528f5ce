// Runs before the first paint: applies the theme chosen earlier, or else the system's.
{
  const chosen = localStorage.getItem("theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
}
