"""Letters to targets: today's, and those that could not be delivered before."""

from __future__ import annotations

from collections.abc import Sequence

from watchdog import notify
from watchdog.asking import shell_lines
from watchdog.message import Setting
from watchdog.model import Notice
from watchdog.notify import Letter
from watchdog.store import Store, messages
from watchdog.store.messages import TargetState
from watchdog.targets import NotifySettings, Target

SEPARATE = 3  # owed messages that are still sent one by one


def deliver(store: Store, settings: NotifySettings, queue: Sequence[tuple[int, Notice, list[str]]], at: Setting) -> list[str]:
    """Send what is new and what is owed to every target that may be tried; lines about what failed."""
    states, owed = messages.targets(store), messages.owed(store, at.now)
    letters: dict[Target, list[Letter]] = {}
    covers: dict[tuple[str, int], tuple[int, ...]] = {}  # one letter may carry several owed messages
    for target in settings.targets:
        new = [(number, notice, more) for number, notice, more in queue if notify.wants(target, notice, settings)]
        late = owed.get(target.name, [])
        if not notify.due(states.get(target.name), at.now):
            for number, _, _ in new:
                messages.owe(store, number, target.name, at.now)
            continue
        own = [notify.letter(number, notice, more) for number, notice, more in new]
        if late:
            own = [*_late(store, target, late, covers, at), *own]
        for number, _, _ in new:
            messages.owe(store, number, target.name, at.now)  # until it is known to be there
        if own:
            letters[target] = own
    if not letters:
        return []
    notes: dict[str, str] = {}
    for sent in notify.send(letters):
        if sent.ok:
            for number in covers.get((sent.target, sent.id), (sent.id,)):
                messages.delivered(store, number, sent.target)
        elif sent.target not in notes:
            notes[sent.target] = sent.says
    for target in letters:
        state = notify.after(
            states.get(target.name, TargetState(target.name)),
            target.name not in notes,
            notes.get(target.name, ""),
            at.now,
        )
        messages.fared(store, state)
    return [f"target {name}: not sent: {says}" for name, says in notes.items()]


def _late(store: Store, target: Target, late: list[int], covers: dict[tuple[str, int], tuple[int, ...]], at: Setting) -> list[Letter]:
    """Owed messages: a few one by one, many as one."""
    found = [(number, notice) for number in late if (notice := messages.notice(store, number))]
    if len(found) <= SEPARATE:
        letters = []
        for number, notice in found:
            written = messages.written(store, number)
            more = [at.words("line.delayed", at=at.words.at(written, at.now))] if written else []
            asked = messages.question(store, plan=notice.plan) if notice.plan else None
            if asked and asked.closed_at is None and asked.expires_at > at.now:
                more += shell_lines(store, notice.plan, asked.expires_at, at)
            letters.append(notify.letter(number, notice, more))
        return letters
    first = found[0][0]
    covers[target.name, first] = tuple(number for number, _ in found)
    title = at.words("line.delayed_many", count=len(found))
    body = "\n".join(f"• {notice.title.removeprefix(at.words('prefix'))}" for _, notice in found)
    worst = max((notice for _, notice in found), key=lambda notice: messages.SEVERITIES.index(notice.severity)).severity
    return [notify.letter(first, Notice("digest", at.words("prefix") + title.rstrip(":："), body, worst))]
