"""How often, how long and by whose leave the watchdog may act: `limits:` and `approval:` of settings.yaml."""

from __future__ import annotations

from datetime import timedelta

from watchdog.config.yaml import Section
from watchdog.values import dataclass

HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class Limits:
    """Every number that keeps the watchdog from doing harm; the defaults are the shipped ones."""

    per_hour: int = 3  # starts and restarts of the gateway, by anyone
    per_day: int = 6  # actions of the watchdog, all recipes together
    grace: timedelta = timedelta(minutes=5)  # after a restart by anyone: wait and see
    longest_pause: timedelta = timedelta(days=1)  # pauses double from a recipe's cooldown up to this
    remember_failures: timedelta = timedelta(days=7)  # a cure that failed for a key is not tried again for it
    wait_for_turns: timedelta = timedelta(minutes=2)  # before stopping a gateway that is answering someone
    free_space: int = 64_000_000  # bytes; with less, restarting makes things worse
    auto: tuple[str, ...] = ()  # recipes that may run without asking
    refused_for: timedelta = timedelta(hours=6)
    wrong_tries: int = 5
    locked_for: timedelta = HOUR
    carry_out_within: timedelta = timedelta(minutes=10)  # an approval that was not taken up by then is void


def read_limits(limits: Section | None, approval: Section | None = None) -> Limits:
    """The two sections of settings.yaml; what is missing keeps its default."""
    given: dict[str, object] = {}
    basic = Limits()
    if limits is not None:
        given |= {
            "per_hour": limits.number("per_hour", basic.per_hour, least=0, most=60),
            "per_day": limits.number("per_day", basic.per_day, least=0, most=1000),
            "grace": limits.duration("grace", basic.grace),
            "longest_pause": limits.duration("longest_pause", basic.longest_pause),
            "remember_failures": limits.duration("remember_failures", basic.remember_failures),
            "wait_for_turns": limits.duration("wait_for_turns", basic.wait_for_turns, least=timedelta(0)),
            "free_space": limits.number("free_space", basic.free_space, most=10**15),
        }
        limits.done()
    if approval is not None:
        given |= {
            "auto": approval.names("auto", ()),
            "refused_for": approval.duration("refused_for", basic.refused_for),
            "wrong_tries": approval.number("wrong_tries", basic.wrong_tries, least=1, most=100),
            "locked_for": approval.duration("locked_for", basic.locked_for),
        }
        approval.done()
    return Limits(**given)  # type: ignore[arg-type]
