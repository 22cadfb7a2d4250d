// Show the page anew when something changed, but never under the hands of a person who types.
const shown = document.body.dataset.version;
const busy = () => {
  const typed = document.querySelector("#code");
  return document.hidden || (typed && (typed.value || document.activeElement === typed));
};
if (shown) setInterval(async () => {
  if (busy()) return;
  try {
    const answer = await fetch("/version", { cache: "no-store" });
    const { version } = await answer.json();
    // Asked again: the answer took its time. Not a reload, which would send a form again.
    if (version && version !== shown && !busy()) location.replace(location.pathname + location.search);
  } catch {}
}, 5000);
