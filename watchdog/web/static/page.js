// Load the page again when something changed, but never under the hands of a person who types.
let shown = null;
setInterval(async () => {
  const typed = document.querySelector("#code");
  if (document.hidden || (typed && (typed.value || document.activeElement === typed))) return;
  try {
    const answer = await fetch("/version", { cache: "no-store" });
    const { version } = await answer.json();
    if (shown !== null && version !== shown) location.reload();
    shown = version;
  } catch {}
}, 5000);
