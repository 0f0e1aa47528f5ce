// Runs before the first paint: applies the theme chosen earlier, or else the system's.
try {
  const theme = localStorage.getItem("theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // The page works without storage.
}
