"""A choice → a title for the lock screen and a body, in the reader's language, fit for any chat program."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from watchdog.model import Notice, Outcome, Plan
from watchdog.notices import Choice, Thing, notice_of, worst
from watchdog.outgoing import exact, fit
from watchdog.values import dataclass, field
from watchdog.words import Words

TITLE = 90  # characters; a lock screen shows about as many
BODY = 3500  # characters; ntfy and Telegram cut at 4,096 bytes or characters
SHOWN = 8  # things in one message
CODE = "    "  # a line that begins so is a command or a quote, to be shown letter for letter


@dataclass(frozen=True)
class Setting:
    """What a message needs to know besides the news itself."""

    now: datetime
    host: str
    words: Words
    quote_logs: bool = False
    per_hour: int = 6
    says: Mapping[str, str] = field(default_factory=dict)  # rule id -> its English template
    titles: Mapping[str, str] = field(default_factory=dict)  # English title of a rule -> its id
    advices: Mapping[str, str] = field(default_factory=dict)  # English advice of a rule -> its id


def compose(choice: Choice, at: Setting) -> Notice:
    """The message for one choice; without the codes, which differ for each reader."""
    build = _BODIES.get(choice.reason, _problem)
    title, lines = build(choice, at)
    body = "\n".join([*lines, _footer(choice, at)])
    return notice_of(choice, fit(at.words("prefix") + title, TITLE), cut(body))


def how_to_answer(words: Words, code: str, expires: datetime, now: datetime, waits: timedelta, way: str) -> list[str]:
    """The last lines of a question, for one reader with one code."""
    lines = [words("answer.by", at=words.at(expires, now)), words(f"answer.{way}")]
    if way == "shell":
        lines += [f"{CODE}hermes-watchdog approve {code}", f"{CODE}hermes-watchdog refuse {code}"]
    else:
        lines += [CODE + words("answer.approve", code=code), CODE + words("answer.refuse", code=code)]
        # Under cron nobody listens between two checks; the reader should know when the tap will count.
        lines.append(words("answer.waits", span=words.span(waits)) if waits else words("answer.next"))
    return lines


def render(body: str, form: str) -> str:
    """The plain body as Markdown or HTML; commands become code, everything else is escaped."""
    if form == "markdown":
        # A tick in a command would end the code, and what follows would be markup.
        code = str.maketrans("`", "'")
        lines = [f"`{line[4:].translate(code)}`" if line.startswith(CODE) else _MARKUP.sub(r"\\\g<0>", line) for line in body.split("\n")]
        return "  \n".join(lines)
    if form == "html":
        lines = [html.escape(line) for line in body.split("\n")]
        return "<br/>\n".join(f"<code>{line[4:]}</code>" if line.startswith(CODE) else line for line in lines)
    return body


def cut(body: str, limit: int = BODY) -> str:
    """At most so long, cut at the end of a line."""
    if len(body) <= limit:
        return body
    return body[: limit - 2].rsplit("\n", 1)[0] + "\n…"


_MARKUP = re.compile(r"[\\`*_\[\]<>~|]|^#+|^(?=\d+\.)|^[-+]")


def _problem(choice: Choice, at: Setting) -> tuple[str, list[str]]:
    words, first = at.words, _lead(choice)
    key = {"worse": "worse", "approval needed": "ask", "flapping": "flapping", "passed": "passed"}.get(choice.reason, "first")
    if key == "first" and choice.again:
        key = "again"
    what = _says(first, at) if first else _titled(choice.case.plan, words) if choice.case else ""
    if choice.reason == "reminder":
        title = words("title.remind", left=choice.case.left if choice.case else "", what=_short(what))
    elif len(choice.things) > 1 and not choice.case:
        title = words("title.many", count=len(choice.things), what=_short(what))
    else:
        title = words(f"title.{key}", what=_short(what))
    lines = _things(choice, at)
    if choice.reason == "flapping":
        lines.append(words("line.flapping", times=choice.again + 1))
    elif choice.again:
        lines.append(words("line.seen_again", times=choice.again))
    if choice.case:
        lines += _plan(choice.case.plan, at)
    return title, lines


def _healed(choice: Choice, at: Setting) -> tuple[str, list[str]]:
    words, first = at.words, choice.things[0]
    if first.rule in ("blind", "target"):
        line = words("line.sighted" if first.rule == "blind" else "line.target_well", key=fit(first.key, 60))
        return words("ok") + " · " + line, [line]
    if len(choice.things) > 1:
        title = words("title.many_healed", count=len(choice.things))
    else:
        title = words("title.calm" if choice.again else "title.healed", what=_short(_name(first, at)))
    return title, _things(choice, at)


def _blind(choice: Choice, at: Setting) -> tuple[str, list[str]]:
    keys = ", ".join(fit(thing.key, 60) for thing in choice.things)
    lines = [at.words("line.blind", key=fit(thing.key, 60), why=at.words.phrase(fit(thing.says))) for thing in choice.things]
    return at.words("title.blind", key=keys), lines


def _disarmed(choice: Choice, at: Setting) -> tuple[str, list[str]]:
    why = at.words.phrase(fit(choice.things[0].says))
    return at.words("title.disarmed"), [at.words("line.disarmed", why=why), f"{CODE}hermes-watchdog arm"]


def _target(choice: Choice, at: Setting) -> tuple[str, list[str]]:
    thing = choice.things[0]
    return at.words("title.target", key=fit(thing.key, 60)), [_says(thing, at)]


def _done(choice: Choice, at: Setting) -> tuple[str, list[str]]:
    """Good news in its classic form: what was done, what that ended."""
    words, case = at.words, choice.case
    assert case is not None
    stuck = sum(name.split(" ")[0] == "session-stuck" for name in case.plan.incidents)
    did = [_did(recipe, case.plan, words) for recipe in case.plan.recipes] or [_did("", case.plan, words)]
    if stuck:
        did.append(words("cleared.session-stuck") if stuck == 1 else words("cleared.many_sessions", count=stuck))
    title = did[0]
    for part in did[1:]:
        title = words("did.and", first=title, second=part)
    return title, _outcome(choice, at)


def _unproven(choice: Choice, at: Setting) -> tuple[str, list[str]]:
    """What was done, and that nobody could see with all of its rules whether it helped."""
    assert choice.case is not None
    return at.words("title.unproven", what=_short(_titled(choice.case.plan, at.words))), _outcome(choice, at)


def _failed(choice: Choice, at: Setting) -> tuple[str, list[str]]:
    assert choice.case is not None
    what = _titled(choice.case.plan, at.words)
    return at.words("title.failed", what=_short(what)), [*_outcome(choice, at), at.words("line.still")]


def _digest(choice: Choice, at: Setting) -> tuple[str, list[str]]:
    words = at.words
    if len(choice.things) == 1 and len(choice.parts) == 1:
        return _BODIES.get(choice.parts[0].reason, _problem)(choice.parts[0], at)
    kinds = {"first seen": "first", "worse": "worse", "healed by itself": "healed", "passed": "passed",
             "flapping": "flapping", "healed by us": "done", "not verified": "unproven", "not healed": "failed"}  # fmt: skip
    entries: list[str] = []
    for part in choice.parts:
        mark = words(f"digest.{kinds.get(part.reason, part.reason)}")
        if part.case and part.case.outcomes:
            entries.append(f"• {mark}: {_titled(part.case.plan, words)}")
        else:
            entries += [f"• {mark}: {_says(thing, at)}" for thing in part.things]
    lines = [words("line.digest", limit=at.per_hour), *entries[: 2 * SHOWN]]
    if len(entries) > 2 * SHOWN:
        lines.append(words("line.more", count=len(entries) - 2 * SHOWN))
    return words("title.digest", count=len(entries)), lines


_BODIES = {
    "healed by itself": _healed,
    "blind": _blind,
    "disarmed": _disarmed,
    "target": _target,
    "healed by us": _done,
    "not verified": _unproven,
    "not healed": _failed,
    "digest": _digest,
}


def daily(open_now: Sequence[Thing], opened: int, closed: int, actions: int, at: Setting) -> Notice:
    """The optional word once a day that the watchdog is there."""
    words = at.words
    counts = words("line.daily", opened=opened, closed=closed, actions=actions)
    lines = [counts if opened or closed or actions else words("line.daily_quiet")]
    lines += [f"• {_says(thing, at)}" for thing in open_now[:SHOWN]]
    title = words("title.daily_open", count=len(open_now)) if open_now else words("ok")
    body = "\n".join([*lines, words("line.footer", host=at.host)])
    return Notice("daily", fit(words("prefix") + title, TITLE), cut(body), "info")


def test_message(at: Setting) -> Notice:
    """What `notify --test` sends."""
    words = at.words
    return Notice("test", words("prefix") + words("title.test"), words("line.test", host=at.host), "info")


def result(outcomes: Sequence[Outcome], plan: Plan, words: Words) -> str:
    """One sentence about how a plan ended, for those who were asked."""
    if outcomes and not outcomes[-1].ok:
        bad = next(outcome for outcome in outcomes if not outcome.ok)
        return _step(bad, words) if len(outcomes) > 1 else words.phrase(fit(bad.says))
    did = [_did(recipe, plan, words) for recipe in plan.recipes] or [_did("", plan, words)]
    checked = next((outcome for outcome in outcomes if outcome.step == "verify"), None)
    return " · ".join([*did, words.phrase(fit(checked.says))] if checked else did)


def _step(outcome: Outcome, words: Words) -> str:
    return words.phrase(fit(f"{outcome.step}: {outcome.says}" if outcome.step else outcome.says))


def _titled(plan: Plan, words: Words) -> str:
    return words.plan(plan.recipes, fit(plan.title))


def _chain(chain: str, at: Setting) -> str:
    """The cause and what followed from it, each link by the title of its rule."""
    parts = re.split(r"( → |; also: )", fit(chain, 600))
    said = [at.words.title(at.titles.get(part, ""), part) for part in parts]
    return "".join(at.words("line.also") if part == "; also: " else part for part in said)


def _did(recipe: str, plan: Plan, words: Words) -> str:
    if words.has(f"did.{recipe}"):
        return words(f"did.{recipe}")
    return words("did.other", title=_titled(plan, words))


def _lead(choice: Choice) -> Thing | None:
    """What the title is about: the gravest, and of those the one nearest to the cause."""
    if choice.case:
        names = {thing.name: thing for thing in choice.things}
        ordered = [names[name] for name in choice.case.plan.incidents if name in names]
        gravest = worst(thing.severity for thing in ordered)
        return next((thing for thing in ordered if thing.severity == gravest), None)
    return choice.things[0] if choice.things else None


def _says(thing: Thing, at: Setting) -> str:
    if thing.rule == "blind":
        return at.words("line.blind", key=fit(thing.key, 60), why=at.words.phrase(fit(thing.says)))
    # Made fit in English, where the words around an id are known, then said in the reader's language.
    return at.words.sentence(thing.rule, at.says.get(thing.rule, ""), fit(thing.says))


def _name(thing: Thing, at: Setting) -> str:
    return at.words.title(thing.rule, fit(thing.title)) or _says(thing, at)


def _short(text: str) -> str:
    """A sentence without what it says in brackets at its end."""
    return re.sub(r"\s*[(（][^()（）]*[)）]\s*$", "", text)


def _things(choice: Choice, at: Setting) -> list[str]:
    words, now = at.words, at.now
    things = list(choice.things)
    if choice.case:  # the cause first
        order = choice.case.plan.incidents
        things.sort(key=lambda thing: order.index(thing.name) if thing.name in order else len(order))
    lines: list[str] = []
    many = len(things) > 1
    for thing in things[:SHOWN]:
        lines.append(("• " if many else "") + _says(thing, at))
        if thing.over_at:
            span = words.span(thing.over_at - thing.since)
            lines.append(words("line.was", start=words.at(thing.since, now), end=words.at(thing.over_at, now), span=span))
        else:
            lines.append(words("line.since", at=words.at(thing.since, now), span=words.span(now - thing.since)))
        if thing.advice and not thing.over_at and not (choice.case and choice.case.plan.words):
            lines.append(words("line.advice", advice=_advice(thing.advice, at)))
    if len(things) > SHOWN:
        lines.append(words("line.more", count=len(things) - SHOWN))
    if at.quote_logs and not all(thing.over_at for thing in things):
        quotes = [CODE + fit(quote, 160) for thing in things[:SHOWN] for quote in thing.quotes[:3]]
        lines += [words("line.quote"), *quotes[:6]] if quotes else []
    return lines


def _plan(plan: Plan, at: Setting) -> list[str]:
    words = at.words
    lines = [words("line.cause", chain=_chain(plan.chain, at))] if " → " in plan.chain or "; also" in plan.chain else []
    lines += [words("line.advice", advice=_advice(text, at)) for text in plan.advice]
    if plan.words:
        lines.append(words("line.proposed", title=_titled(plan, words)))
        known = [step for step in plan.words if not step.rstrip().endswith((":", ": nothing tells how"))]  # the hold says why
        lines += [CODE + exact(line) for step in known for line in words.phrase(step, exact=True).split("\n")]
    if plan.costs:
        lines.append(words("line.cost", costs=words.phrase(fit(plan.costs))))
    lines += [words("line.warning", warning=words.phrase(fit(text))) for text in plan.warnings]
    if plan.hold:
        reason, _, sudoers = plan.hold.reason.partition("; add this line with visudo: ")
        why = words.phrase(fit(reason))
        if plan.hold.until:
            lines.append(words("line.waits_until", at=words.at(plan.hold.until, at.now), why=why))
        else:
            lines.append(words("line.waits", why=why))
        if sudoers:
            lines += [words("line.sudoers"), CODE + exact(sudoers)]
    return lines


def _advice(text: str, at: Setting) -> str:
    """A rule's advice, found by its English words, or a reason of the planner."""
    safe = fit(text, 600)
    return at.words.phrase(at.words.advice(at.advices.get(safe, ""), safe))


def _outcome(choice: Choice, at: Setting) -> list[str]:
    words, case = at.words, choice.case
    assert case is not None
    # The last one is the whole, which the title says already, unless it is all there is.
    steps = case.outcomes[:-1] or case.outcomes
    lines = [f"• {_step(outcome, words)}" for outcome in steps if outcome.says][:SHOWN]
    took = sum((outcome.took for outcome in steps), timedelta(0))
    if took >= timedelta(seconds=1):
        lines.append(words("line.took", span=words.span(took)))
    return ([case.answer] if case.answer else []) + lines


def _footer(choice: Choice, at: Setting) -> str:
    if choice.case and choice.case.plan.id:
        return at.words("line.footer_plan", host=at.host, id=choice.case.plan.id)
    ids = [thing.incident for thing in choice.things if thing.incident]
    if len(ids) == 1:
        return at.words("line.footer_incident", host=at.host, id=ids[0])
    return at.words("line.footer", host=at.host)
