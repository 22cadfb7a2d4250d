"""Several incidents → one case: what caused what, and for each whether a restart helps at all."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from watchdog.model import Incident
from watchdog.values import dataclass

MOST = 200  # incidents in one case, causes first: a forged log may name ten thousand chats, and no check ends over them
HELPS, USELESS, REPAIR = "helps", "useless", "repair first"


@dataclass(frozen=True)
class Verdict:
    """Whether a restart of the gateway cures this, and why."""

    restart: str  # HELPS, USELESS, REPAIR
    because: str


@dataclass(frozen=True)
class Case:
    """Open incidents in the order of cause and effect."""

    incidents: tuple[Incident, ...]
    verdicts: tuple[Verdict, ...]
    chain: str
    advice: tuple[str, ...]  # for what no recipe of ours cures
    blocked: str = ""  # why nothing may be restarted at all, whatever the recipes say

    def verdict(self, incident: Incident) -> Verdict:
        return self.verdicts[self.incidents.index(incident)]


# rule: its place in the order of causes, the verdict, the rules that follow from it
_KNOWN: dict[str, tuple[int, Verdict, tuple[str, ...]]] = {
    "database-broken": (
        10,
        Verdict(REPAIR, "the file stays broken through any number of restarts; heal it first"),
        ("crash-loop", "gateway-down", "session-stuck"),
    ),
    "missing-column": (20, Verdict(REPAIR, "the column is still missing after a restart; add it first"), ("crash-loop", "gateway-down")),
    "content-filter-burst": (
        30,
        Verdict(
            USELESS,
            "the provider refuses this content (1027) and will refuse it again; start a new "
            "session in that chat (/new) or use another model",
        ),
        ("session-stuck",),
    ),
    "tls-burst": (
        40,
        Verdict(USELESS, "the connection to the provider is damaged on its way; look at the network, VPN or proxy"),
        ("session-stuck",),
    ),
    "provider-errors": (
        40,
        Verdict(USELESS, "the provider fails, not the gateway; look at its status page, or change the model"),
        ("session-stuck",),
    ),
    "telegram-down": (45, Verdict(HELPS, "a new process connects anew, once the network is back"), ()),
    "qq-resume-loop": (50, Verdict(HELPS, "a new process identifies itself anew instead of resuming a dead session"), ("session-stuck",)),
    "qq-dead": (50, Verdict(HELPS, "QQ gave up for good; only a new process tries again"), ()),
    "gateway-wedged": (60, Verdict(HELPS, "its event loop is frozen and does not come back by itself"), ("session-stuck",)),
    "crash-loop": (
        70,
        Verdict(USELESS, "it is already being restarted over and over; find what kills it"),
        ("gateway-down", "session-stuck"),
    ),
    "gateway-down": (80, Verdict(HELPS, "nothing runs, so starting it is the cure"), ("session-stuck",)),
    "session-stuck": (90, Verdict(HELPS, "the turn that hangs ends with the process"), ()),
}
_OTHER = (55, Verdict(HELPS, "the rule proposes it"), ())

# What a dying gateway or a failing call says of itself. Log text only ever forbids a restart here; it never causes one.
_DEEPER: tuple[tuple[str, re.Pattern[str], str], ...] = (
    (
        "full disk",
        re.compile(r"(?i)no space left on device|disk is full|\bENOSPC\b|disk quota exceeded"),
        "the disk is full: free space first; a restart cannot write its files either",
    ),
    (
        "bad config",
        re.compile(r"(?i)\byaml\.(?:scanner|parser)\b|invalid config|fatal config|config\S* (?:is invalid|could not be parsed)|code 78\b"),
        "config.yaml is wrong: correct it; a restart reads the same file",
    ),
    (
        "quota",
        re.compile(r"(?i)insufficient_quota|quota (?:exceeded|exhausted)|insufficient balance|\b402\b.{0,40}payment|billing"),
        "the provider's quota is used up: top up or change the model; a restart asks the same account",
    ),
    (
        "bad credentials",
        re.compile(
            r"(?i)invalid[ _](?:api[ _]?key|token)|incorrect api key|authentication(?:error| failed)|\b401\b.{0,40}unauthorized"
            r"|unauthorized.{0,20}\b401\b"
        ),
        "the credentials are refused: renew the key or token; a restart sends the same ones",
    ),
    ("content filter", re.compile(r"new_sensitive|\(1027\)"), _KNOWN["content-filter-burst"][1].because),
)
_TELLING = {"session-stuck", "qq-resume-loop", "qq-dead", "gateway-wedged"}  # their cure does not depend on what they say


def make_case(incidents: Iterable[Incident], free: int | None = None, least_free: int = 0, exit_status: int = 0) -> Case:
    """Order them; `free` bytes of the home's disk and the last exit status are measured, the rest is what incidents say."""
    ordered = sorted(incidents, key=lambda one: (_KNOWN.get(one.rule, _OTHER)[0], one.opened_at, one.rule, one.key))[:MOST]
    verdicts = tuple(judge(one) for one in ordered)
    blocked = ""
    if free is not None and free < least_free:
        blocked = f"only {free // 1_000_000} MB are free where the gateway keeps its files: {_DEEPER[0][2]}"
    elif exit_status == 78:  # Hermes' own word for a config that it cannot use
        blocked = f"the gateway ended with code 78: {_DEEPER[1][2]}"
    advice = [verdict.because for one, verdict in zip(ordered, verdicts, strict=True) if verdict.restart == USELESS and not one.recipe]
    advice = [one.advice for one in ordered if one.advice and not one.recipe] or advice
    return Case(tuple(ordered), verdicts, _chain(ordered), tuple(dict.fromkeys([*([blocked] if blocked else []), *advice])), blocked)


def judge(incident: Incident) -> Verdict:
    """Whether a restart helps against this one, by its rule and by what it says of its own cause."""
    known = _KNOWN.get(incident.rule, _OTHER)[1]
    if incident.rule not in _TELLING and known.restart != REPAIR:
        words = " ".join([incident.says, *(f"{event.text} {event.more}" for event in incident.evidence)])[:20_000]
        for _, pattern, because in _DEEPER:
            if pattern.search(words):
                return Verdict(USELESS, because)
    return known


def _chain(ordered: Sequence[Incident]) -> str:
    """'A → B → C; also D': arrows only where one is known to lead to the next."""
    left, parts = list(ordered), []
    while left:
        last = left.pop(0)
        names = [last.title or last.rule]
        while follows := next((one for one in left if one.rule in _KNOWN.get(last.rule, _OTHER)[2]), None):
            left.remove(follows)
            names.append(follows.title or follows.rule)
            last = follows
        parts.append(" → ".join(names))
    return "; also: ".join(dict.fromkeys(parts))
