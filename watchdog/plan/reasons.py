"""The keys of what the planner decides; their sentences are in notify/locale/*/plan.yaml."""

from __future__ import annotations

from enum import StrEnum


class Wait(StrEnum):
    """Why a plan must wait."""

    DISARMED = "hold.disarmed"
    UNFINISHED = "hold.unfinished"
    NEEDS_SUDOERS = "hold.needs-sudoers"
    GATEWAY_UNSEEN = "hold.gateway-unseen"
    MAINTENANCE = "hold.maintenance"
    RULE_HOLDS = "hold.rule-holds"
    RULE_BLIND = "hold.rule-blind"
    REFUSED = "hold.refused"
    COOLING_DOWN = "hold.cooling-down"
    RECIPE_SPENT = "hold.recipe-spent"
    DAY_SPENT = "hold.day-spent"
    HOUR_SPENT = "hold.hour-spent"
    STARTS_SPENT = "hold.starts-spent"
    JUST_STARTED = "hold.just-started"
    CLOCK_WENT_BACK = "hold.clock-went-back"


class Refuse(StrEnum):
    """Why nothing is proposed at all; no waiting changes it."""

    TRIED = "refusal.tried"
    ADVICE_ONLY = "refusal.advice-only"
    RESTART_USELESS = "refusal.restart-useless"
    NO_EXACT_COMMAND = "refusal.no-exact-command"


class Cause(StrEnum):
    """Why a restart does not help."""

    FULL_DISK = "cause.full-disk"
    BAD_CONFIG = "cause.bad-config"
    QUOTA = "cause.quota"
    CREDENTIALS = "cause.credentials"
    CONTENT_FILTER = "cause.content-filter"
    LITTLE_SPACE = "cause.little-space"
    EXIT_78 = "cause.exit-78"
    RULE_SAYS = "cause.rule-says"


class Chain(StrEnum):
    """What followed from what."""

    LEADS_TO = "chain.leads-to"
    AND = "chain.and"
    ALSO_OPEN = "chain.also-open"


class Cost(StrEnum):
    """What a plan costs the people who chat."""

    REPLIES = "cost.replies"
    NO_REPLY = "cost.no-reply"


class Disarm(StrEnum):
    """Why the watchdog stops acting."""

    DOES_NOT_LAST = "disarm.does-not-last"
