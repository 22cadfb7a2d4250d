"""Open incidents in the order of cause and effect, and for each whether a restart helps at all."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from watchdog.gateway.machine import Machine
from watchdog.model import RULE_ADVICE, RULE_TITLE, SEVERITIES, Incident, Reason, Rule
from watchdog.model.plan_reasons import Cause, Chain
from watchdog.values import dataclass

# incidents in one diagnosis, causes first: a forged log may name ten thousand chats, and no check ends over them
MOST = 200
HELPS, USELESS = "helps", "useless"  # values of a rule's `restart:`; the third is unknown


@dataclass(frozen=True)
class Diagnosis:
    """Open incidents, causes before their effects."""

    incidents: tuple[Incident, ...]
    rules: Mapping[str, Rule]
    blocked: Reason | None = None  # why nothing may be restarted at all, whatever the recipes say

    def why_no_restart(self, incident: Incident) -> Reason | None:
        """Why restarting the gateway is useless against this incident; None when it may help."""
        return self.blocked or _useless(incident, _rule_of(incident, self.rules))

    def advice(self, restarts: bool) -> tuple[Reason, ...]:
        """What helps against incidents without a recipe.

        Beside a plan that restarts, advice that speaks against restarting would only confuse.
        """
        found = [self.blocked] if self.blocked else []
        for incident in self.incidents:
            rule = _rule_of(incident, self.rules)
            if (
                incident.advice
                and not incident.recipe
                and not (restarts and rule and rule.restart == USELESS)
            ):
                found.append(_advice(incident, incident.advice))
        return tuple(reason for number, reason in enumerate(found) if reason not in found[:number])

    def chains(self, treated: Collection[str]) -> tuple[Reason | None, tuple[Reason, ...]]:
        """(what led to the treated incidents ("rule key") and what followed, everything else that is open)."""
        concerned: list[Reason] = []
        others: list[Reason] = []
        for links in _chains(self.incidents, self.rules):
            chain = _title(links[-1])
            for incident in reversed(links[:-1]):
                chain = Reason(Chain.LEADS_TO, {"cause": _title(incident), "effect": chain})
            group = concerned if any(incident.name in treated for incident in links) else others
            if chain not in group:
                group.append(chain)
        if not concerned:
            return None, tuple(others)
        first = concerned[-1]
        for chain in reversed(concerned[:-1]):
            first = Reason(Chain.AND, {"first": chain, "second": first})
        return first, tuple(others)


# What a dying gateway or a failing call says of itself. Log text only ever forbids a restart here; it never
# causes one.
_TELLING: tuple[tuple[Cause, re.Pattern[str]], ...] = (
    (
        Cause.FULL_DISK,
        re.compile(r"(?i)no space left on device|disk is full|\bENOSPC\b|disk quota exceeded"),
    ),
    (
        Cause.BAD_CONFIG,
        re.compile(
            r"(?i)\byaml\.(?:scanner|parser)\b|invalid config|fatal config|config\S* (?:is invalid|could not be parsed)|code 78\b"
        ),
    ),
    (
        Cause.QUOTA,
        re.compile(
            r"(?i)insufficient_quota|quota (?:exceeded|exhausted)|insufficient balance|\b402\b.{0,40}payment|billing"
        ),
    ),
    (
        Cause.CREDENTIALS,
        re.compile(
            r"(?i)invalid[ _](?:api[ _]?key|token)|incorrect api key|authentication(?:error| failed)|\b401\b.{0,40}unauthorized"
            r"|unauthorized.{0,20}\b401\b"
        ),
    ),
    (Cause.CONTENT_FILTER, re.compile(r"new_sensitive|\(1027\)")),
)


def diagnose(incidents: Iterable[Incident], rules: Mapping[str, Rule], machine: Machine) -> Diagnosis:
    """Causes first; why nothing may be restarted is measured, the rest is what incidents and rules say."""
    ordered = sorted(
        incidents,
        key=lambda incident: (
            -_depth(incident.rule, rules),
            -SEVERITIES.index(incident.severity),
            incident.opened_at,
            incident.name,
        ),
    )[:MOST]
    blocked = None
    if machine.free is not None and machine.free < machine.limits.free_space:
        blocked = Reason(
            Cause.LITTLE_SPACE, {"free": machine.free // 1_000_000, "why": Reason(Cause.FULL_DISK)}
        )
    elif machine.supervisor.exit_status == 78:  # Hermes' own word for a config that it cannot use
        blocked = Reason(Cause.EXIT_78, {"why": Reason(Cause.BAD_CONFIG)})
    return Diagnosis(tuple(ordered), rules, blocked)


def _useless(incident: Incident, rule: Rule | None) -> Reason | None:
    """Why a restart is useless, by the incident's rule or by what it says of its own cause."""
    if rule is not None and rule.restart == HELPS:
        return None
    text = " ".join([incident.says, *(f"{event.text} {event.more}" for event in incident.evidence)])[:20_000]
    for cause, pattern in _TELLING:
        if pattern.search(text):
            return Reason(cause)
    if rule is None or rule.restart != USELESS:
        return None
    return _advice(incident, rule.advice) if rule.advice else Reason(Cause.RULE_SAYS, {"rule": rule.id})


def _rule_of(incident: Incident, rules: Mapping[str, Rule]) -> Rule | None:
    """The incident's rule, as it is for the incident's cause."""
    rule = rules.get(incident.rule)
    return rule.for_cause(incident.fields) if rule is not None else None


def _advice(incident: Incident, advice: str) -> Reason:
    fields = {"rule": incident.rule, "advice": advice}
    return Reason(
        RULE_ADVICE, fields | ({"cause": incident.fields["cause"]} if "cause" in incident.fields else {})
    )


def _depth(name: str, rules: Mapping[str, Rule]) -> int:
    """How many effects follow from a rule one after the other: the deepest cause has the most."""
    effects = rules[name].causes if name in rules else ()
    return max((1 + _depth(effect, rules) for effect in effects), default=0)


def _chains(ordered: Sequence[Incident], rules: Mapping[str, Rule]) -> list[list[Incident]]:
    """Each incident once, behind the one that is known to lead to it."""
    left, chains = list(ordered), []
    while left:
        links = [left.pop(0)]
        while rule := rules.get(links[-1].rule):
            effect = next((incident for incident in left if incident.rule in rule.causes), None)
            if effect is None:
                break
            left.remove(effect)
            links.append(effect)
        chains.append(links)
    return chains


def _title(incident: Incident) -> Reason:
    return Reason(RULE_TITLE, {"rule": incident.rule, "title": incident.title or incident.rule})
