"""The history as one HTML file: a timeline chart, readable on a phone, no script, no request to anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from html import escape

from watchdog.history_report import ITSELF, OPEN, US, Done, Past, Told, outcome, summary
from watchdog.text import clock, harmless, redact, spell

WIDE = 1000.0  # units of the chart, whatever the width of the screen

STYLE = """
:root{--ink:#1d2733;--soft:#5b6b7b;--line:#dde3ea;--paper:#fff;--back:#f4f6f9;--critical:#b3122b;--high:#d9480f;
--medium:#c28a00;--low:#2878b5;--info:#7a8794;--good:#1c7c4a}
@media(prefers-color-scheme:dark){:root{--ink:#e6ebf0;--soft:#9aa8b5;--line:#2d3946;--paper:#17202a;--back:#0f161d;
--critical:#ff5c74;--high:#ff8a4c;--medium:#f0bf3f;--low:#66b2ea;--info:#9aa8b5;--good:#4fc98a}}
*{box-sizing:border-box}body{margin:0;background:var(--back);color:var(--ink);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","Noto Sans CJK SC",sans-serif}
main{max-width:60rem;margin:0 auto;padding:1rem}h1{font-size:1.35rem;line-height:1.25;margin:.5rem 0 .1rem}
h2{font-size:1.05rem;margin:1.8rem 0 .5rem}p{margin:.3rem 0}.soft{color:var(--soft);font-size:.9rem;overflow-wrap:anywhere}
.numbers{display:grid;grid-template-columns:repeat(auto-fit,minmax(7.5rem,1fr));gap:.6rem;margin:1rem 0}
.numbers div{background:var(--paper);border:1px solid var(--line);border-radius:.6rem;padding:.6rem .8rem}
.numbers b{display:block;font-size:1.25rem;line-height:1.2}.card{background:var(--paper);border:1px solid var(--line);
border-radius:.6rem;padding:.7rem .9rem;margin:.6rem 0;overflow-wrap:anywhere}.card p{margin:.15rem 0}
.row{margin:.55rem 0}.row .name{display:flex;justify-content:space-between;gap:.5rem;font-size:.9rem}
.row svg{display:block;width:100%;height:18px;background:var(--back);border-radius:4px}
.axis{display:flex;justify-content:space-between;color:var(--soft);font-size:.8rem;margin-top:.3rem}
.chip{display:inline-block;border-radius:1rem;padding:.05rem .6rem;font-size:.8rem;font-weight:600;color:var(--paper);margin-right:.4rem}
.critical{background:var(--critical);fill:var(--critical)}.high{background:var(--high);fill:var(--high)}
.medium{background:var(--medium);fill:var(--medium)}.low{background:var(--low);fill:var(--low)}
.info{background:var(--info);fill:var(--info)}.blind{fill:var(--soft);opacity:.35}.done{fill:var(--good)}.failed{fill:var(--critical)}
summary{cursor:pointer}summary b{font-weight:600}.open{color:var(--critical);font-weight:600}.healed{color:var(--good);font-weight:600}
code{font:.85em ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}ul{padding-left:1.1rem;margin:.3rem 0}
@media print{body{background:#fff}.card{break-inside:avoid}}
"""


def as_html(past: Past) -> str:
    """The whole page."""
    title = f"Hermes gateway, {clock(past.start)[:10]} to {clock(past.end)[:10]}"
    parts = [
        "<!doctype html>\n<html lang=en>\n<head>\n<meta charset=utf-8>",
        '<meta name=viewport content="width=device-width,initial-scale=1">',
        # The browser itself is told that this page asks nobody for anything.
        "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        f"<title>{_safe(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>",
        f"<h1>{_safe(title)}</h1>\n<p class=soft>{_safe(past.home)}</p>",
        numbers(past),
        *(f"<p>{_safe(line)}</p>" for line in summary(past)),
        chart(past) if past.incidents or past.unseen else "",
        incidents(past.incidents),
        actions(past.actions),
        not_seen(past),
        f"<p class=soft>Made by hermes-watchdog at {_safe(clock(past.end))}. Times are local to the machine.</p>",
        "</main>\n</body>\n</html>\n",
    ]
    return "\n".join(part for part in parts if part)


def numbers(past: Past) -> str:
    cells = [
        ("checks", f"{past.checks:,}"),
        ("incidents", str(len(past.incidents))),
        ("still open", str(past.count(OPEN))),
        ("to notice", _short(past.noticing)),
        ("to heal", _short(past.healing)),
        ("actions", str(sum(one.state in ("done", "failed") for one in past.actions))),
    ]
    return "<div class=numbers>" + "".join(f"<div><b>{_safe(value)}</b>{_safe(name)}</div>" for name, value in cells) + "</div>"


def chart(past: Past) -> str:
    """One row per rule: a bar for each incident, hatched where nothing was seen, a mark for each action."""
    rules = sorted({told.incident.rule for told in past.incidents})
    dark = [one for one in past.unseen if one.what == "everything"]
    rows = ["<h2>Timeline</h2>\n<div class=card>"]
    for rule in rules:
        mine = [told for told in past.incidents if told.incident.rule == rule]
        bars = [_bar(past, one.start, one.end, "blind", f"{one.what}: {one.why}") for one in dark]
        for told in mine:
            one = told.incident
            says = f"{one.severity}: {harmless(one.says, 200)}"
            bars.append(_bar(past, one.opened_at, one.resolved_at or past.end, one.severity, says))
        rows.append(_row(rule, f"{len(mine)}×", bars))
    marks = [one for one in past.actions if one.state in ("done", "failed")]
    if marks:
        rows.append(_row("actions", f"{len(marks)}×", [_mark(past, one) for one in marks]))
    for source in sorted({one.what for one in past.unseen if one.what != "everything"}):
        mine_ = [one for one in past.unseen if one.what == source]
        rows.append(_row(f"{source} not seen", "", [_bar(past, one.start, one.end, "blind", one.why) for one in mine_]))
    rows.append("<div class=axis>" + "".join(f"<span>{_safe(at)}</span>" for at in _axis(past)) + "</div>")
    rows.append(
        "<p class=soft>Grey: no check was made, or it could not see. Green and red marks: actions that helped, or did not.</p>\n</div>"
    )
    return "\n".join(rows)


def _row(name: str, count: str, bars: Sequence[str]) -> str:
    return (
        f"<div class=row><div class=name><span>{_safe(name)}</span><span class=soft>{_safe(count)}</span></div>"
        f'<svg viewBox="0 0 {WIDE:g} 18" preserveAspectRatio=none role=img aria-label="{_safe(name)}">{"".join(bars)}</svg></div>'
    )


def _at(past: Past, at: datetime) -> float:
    share = (at - past.start) / max(past.end - past.start, timedelta(seconds=1))
    return WIDE * min(max(share, 0.0), 1.0)


def _bar(past: Past, start: datetime, end: datetime, kind: str, says: str) -> str:
    left = _at(past, start)
    wide = max(_at(past, end) - left, 5.0)  # a minute in a week must still be seen
    left = min(left, WIDE - wide)
    tip = f"{clock(start)} to {clock(end)}: {says}"
    return f'<rect class={kind} x="{left:.1f}" y="3" width="{wide:.1f}" height="12"><title>{_safe(tip)}</title></rect>'


def _mark(past: Past, one: Done) -> str:
    left = min(_at(past, one.finished_at or one.asked_at), WIDE - 6)
    tip = f"plan {one.number}: {one.title}; {outcome(one)}"
    kind = "done" if one.state == "done" else "failed"
    return f'<rect class={kind} x="{left:.1f}" y="1" width="6" height="16"><title>{_safe(tip)}</title></rect>'


def _axis(past: Past) -> list[str]:
    """Three times: more do not fit on a phone."""
    span = past.end - past.start
    form = "%H:%M" if span <= timedelta(days=1) else "%d %b %H:%M" if span <= timedelta(days=3) else "%d %b"
    return [f"{(past.start + span * share).astimezone():{form}}" for share in (0.0, 0.5, 1.0)]


def incidents(told: Sequence[Told]) -> str:
    if not told:
        return ""
    cards = ["<h2>Incidents</h2>"]
    for each in sorted(told, key=lambda one: (one.healed == OPEN, one.incident.opened_at), reverse=True):
        one = each.incident
        end = {
            OPEN: "<span class=open>still open</span>",
            US: f"<span class=healed>healed by the watchdog</span> after {_safe(spell(each.lasted or timedelta(0)))}",
            ITSELF: f"over by itself after {_safe(spell(each.lasted or timedelta(0)))}",
        }[each.healed]
        noticed = f" · noticed after {_safe(spell(each.to_notice))}" if each.to_notice is not None else ""
        evidence = "".join(f"<li><code>{_safe(event.where)}</code> {_safe(harmless(event.text, 200))}</li>" for event in one.evidence[-3:])
        advice = f"<p>{_safe(one.advice)}</p>" if one.advice else ""
        cards.append(
            f"<details class=card><summary><span class='chip {_safe(one.severity)}'>{_safe(one.severity)}</span>"
            f"<b>{_safe(one.title or one.rule)}</b>"
            f"<p>{_safe(one.says)}</p><p class=soft>{_safe(clock(one.opened_at))} · {end}{noticed}</p></summary>"
            f"<p class=soft><code>{_safe(one.rule)} {_safe(one.key)}</code></p>{advice}<ul class=soft>{evidence}</ul></details>"
        )
    return "\n".join(cards)


def actions(done: Sequence[Done]) -> str:
    if not done:
        return ""
    cards = ["<h2>Actions</h2>"]
    for one in reversed(done):
        cards.append(
            f"<div class=card><p><b>Plan {one.number}</b>: {_safe(one.title)}</p><p>{_safe(outcome(one))}</p>"
            f"<p class=soft>asked {_safe(clock(one.asked_at))}</p></div>"
        )
    return "\n".join(cards)


def not_seen(past: Past) -> str:
    if not past.unseen:
        return ""
    lines = [
        f"<li>{_safe(clock(one.start))} to {_safe(clock(one.end))}: <b>{_safe(one.what)}</b>: {_safe(one.why)}</li>" for one in past.unseen
    ]
    return "<h2>Not seen, and why</h2>\n<div class=card><ul>" + "".join(lines) + "</ul></div>"


def _safe(text: str) -> str:
    return escape(redact(harmless(str(text), 2000)), quote=True)


def _short(span: timedelta | None) -> str:
    """'26 min': a number on a card has little room."""
    if span is None:
        return "–"
    minutes = span.total_seconds() / 60
    return f"{span.total_seconds():.0f} s" if minutes < 2 else f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.0f} h"
