"""How questions end: answered and done, answered elsewhere, run out of time, or no longer needed."""

from __future__ import annotations

from watchdog.asking import close
from watchdog.hearing import headed
from watchdog.message import Setting, result
from watchdog.model import Outcome
from watchdog.outgoing import fit
from watchdog.store import Store, messages
from watchdog.store import plans as rows
from watchdog.store.messages import Question
from watchdog.store.plans import Stored
from watchdog.targets import NotifySettings

OVER = ("done", "failed", "abandoned", "interrupted")


def standing(store: Store, question: Question) -> Stored | None:
    """What the record of the approval says about a question; the chat side only repeats it."""
    return rows.get(store, question.plan.id)


def outcome_of(stored: Stored | None) -> tuple[Outcome, ...]:
    """How a plan ended that somebody else carried out, such as `approve` on the host."""
    if stored is None or stored.state not in OVER:
        return ()
    return (Outcome(stored.plan.digest, stored.plan.title, stored.state == "done", stored.says or stored.state),)


def answer_of(stored: Stored | None, at: Setting) -> str:
    """Who answered, how and when, in the reader's words."""
    if stored is None or stored.answered_at is None or stored.answered_via == "auto":
        return ""
    key = "answer.refused" if stored.state == "refused" else "answer.approved"
    via = stored.answered_via.partition("/")[0]
    by = fit(stored.answered_by, 40)
    return at.words(key, by=by, via=at.words.phrase(via), at=at.words.at(stored.answered_at, at.now))


def close_questions(
    store: Store, outcomes: tuple[Outcome, ...], settings: NotifySettings, at: Setting
) -> tuple[list[tuple[Question, tuple[Outcome, ...]]], list[str]]:
    """Tell the end of each question that has one to the places that were asked; gives those carried out, and notes."""
    notes: list[str] = []
    done: list[tuple[Question, tuple[Outcome, ...]]] = []
    words = at.words
    for question in messages.open_questions(store):
        stored = standing(store, question)
        state = stored.state if stored else "lapsed"
        answer = answer_of(stored, at) or question.answer
        own = tuple(one for one in outcomes if one.plan_digest == question.plan.digest) or outcome_of(stored)
        if own and state != "lapsed":
            key = "answer.told_done" if own[-1].ok else "answer.told_failed"
            text = words(key, answer=answer, result=result(own, question.plan, words))
            done.append((question, own))
        elif state == "expired":
            text = words("answer.told_expired", at=words.at(question.expires_at, at.now))
        elif state in ("lapsed", "superseded"):
            why = fit(stored.says) if stored and stored.says else "the plan changed"
            text = words("answer.told_lapsed", why=words.phrase(why))
        elif state == "refused" and stored and stored.answered_at:
            via = words.phrase(stored.answered_via.partition("/")[0])
            when = words.at(stored.answered_at, at.now)
            text = words("answer.told_refused", by=fit(stored.answered_by, 40), via=via, at=when)
        else:
            continue
        notes += close(store, question, headed(question, words, text), settings, at.now, answer)
    return done, notes
