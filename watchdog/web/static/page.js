// Show the page anew when something changed, but never under the hands of a person who types.
const shown = document.body.dataset.version;
if (shown) setInterval(async () => {
  const typed = document.querySelector("#code");
  if (document.hidden || (typed && (typed.value || document.activeElement === typed))) return;
  try {
    const answer = await fetch("/version", { cache: "no-store" });
    const { version } = await answer.json();
    // Not a reload, which would send a form again.
    if (version && version !== shown) location.replace(location.pathname + location.search);
  } catch {}
}, 5000);
