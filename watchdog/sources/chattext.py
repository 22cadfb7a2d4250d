"""Chat text is cut out of a record before any pattern sees it; a record that imitates log fields is ambiguous.

Hermes writes `user=%s chat=%s msg=%r`: the message is a Python literal, the name is raw. So whoever chooses a name can
write fields, and even whole lines, into the log. What does not parse exactly as Hermes writes it is not believed.
"""

from __future__ import annotations

from watchdog.pattern import own

_LITERAL = r"""(?:'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*")"""
_INBOUND = own(
    rf"(?s)inbound message: platform=(?P<platform>\S+) user=(?P<user>.*?) chat=(?P<chat>\S+) msg=(?P<msg>{_LITERAL})"
    rf"(?: reply_to_id=\S+ reply_to_text={_LITERAL})?$"
)
# The same without anything odd in it, which most are: nothing in such a name can imitate a field.
_PLAIN = own(
    r"inbound message: platform=([\w-]+) user=([^=\n]*) chat=([^\s=]+) msg='([^'\\\n]*)'"
    r"(?: reply_to_id=[^\s=]+ reply_to_text='[^'\\\n]*')?$"
)
_FORGED = own(r"(?:^|\s)(?:platform|user|chat|msg)=")
_TURN = own(rf"(?s)(conversation turn: .*? history=\d+) msg=(?P<msg>{_LITERAL})$")
_SAID = own(r"'([^'\\]*)'$")  # the usual case of a literal
_QUOTED = own(r"\s(?:msg|content|text|preview|reply_to_text|query|prompt)=['\"]")
_TAIL = own(rf"(?m) chat=\S+ msg={_LITERAL}(?: reply_to_id=\S+ reply_to_text={_LITERAL})?\r?$".encode())
# An inbound record without anything odd in it, in bytes: the quick way to see that nothing is forged.
HONEST = own(
    rb"(inbound message: platform=[\w-]+ user=[^=\n]* chat=[!-<>-~]+) msg='([^'\\\n]*)'"
    rb"(?: reply_to_id=[!-<>-~]+ reply_to_text='[^'\\\n]*')?\r?\n"
)
_TAILS = (b"\n", b" reply_to_id=None reply_to_text=''\n")  # of most inbound records
MEMORY = 2000  # chats remembered
_MARKED = ("inbound message: ", "conversation turn: ")


def end_of_inbound(block: bytes, start: int, stop: int) -> int:
    """Where an inbound record ends at last, however many line breaks the name in it holds; 0 when not in there."""
    found = _TAIL.search(block, start, stop)
    return found.end() if found else 0


def may_quote(text: str) -> bool:
    """Whether a record can hold chat text at all; the rest is let through untouched."""
    return "='" in text or '="' in text or text.startswith(_MARKED)


def cut(text: str) -> tuple[str, dict[str, str], str]:
    """(the record without chat text, digests of what was cut for linking, why it is ambiguous or '')."""
    if text.startswith("inbound message: "):
        if found := _PLAIN.match(text):
            platform, user, chat, said = found.groups()
            tail = "" if said else " msg=''"
            text = f"inbound message: platform={platform} user=… chat={chat}{tail}"
            return text, {"said": _digest(said), "user": digest_of(user)}, ""
        found = _INBOUND.match(text)
        if not found:
            return "inbound message: ", {}, "an inbound message whose fields do not parse"
        if _FORGED.search(found["user"]):
            return "inbound message: ", {}, "a user name that imitates log fields"
        # What nobody typed keeps its empty msg='', so that rules can tell it from a message.
        tail = " msg=''" if len(found["msg"]) == 2 else ""
        text = f"inbound message: platform={found['platform']} user=… chat={found['chat']}{tail}"
        return text, {"said": _digest(found["msg"][1:-1]), "user": digest_of(found["user"])}, ""
    if text.startswith("conversation turn: "):
        head, _, rest = text.partition(" msg=")
        if head.rpartition(" history=")[2].isdecimal() and (found := _SAID.match(rest)):
            return head, {"said": _digest(found[1])}, ""
        found = _TURN.match(text)
        return (found[1], {"said": _digest(found["msg"][1:-1])}, "") if found else ("conversation turn: ", {}, "")
    found = _QUOTED.search(text)
    return (text[: found.end() - 1] + "…", {}, "") if found else (text, {}, "")


def _digest(said: str) -> str:
    # The turn line cuts at 80 characters and adds dots, the inbound line only cuts.
    said = said.removesuffix("...")[:60]
    return digest_of(said) if said else ""


def digest_of(text: str) -> str:
    """A short stand-in for words that nobody but the chat should read; good for this run only."""
    return f"{hash(text):x}"


class Inbounds:
    """cut() for inbound records that are honest: who writes from where comes again and again, only the words differ."""

    def __init__(self) -> None:
        self.known: dict[bytes, tuple[str, str]] = {}  # platform, name and chat as logged → the record without the words, who

    def cut(self, block: bytes, start: int, stop: int) -> tuple[str, dict[str, str]] | None:
        """As cut() does it, of the record in these bytes; None when that must look closer."""
        who = block.find(b" msg='", start, stop)
        begins, ends = who + 6, block.find(b"'", who + 6, stop)
        known = self.known.get(block[start:who]) if who >= 0 else None
        if known is None or block[ends + 1 : stop] not in _TAILS or block.find(b"\\", begins, ends) >= 0 or block.find(b"\n", begins, ends) >= 0:
            found = HONEST.match(block, start)
            if found is None or found.end() != stop:
                return None
            begins, ends = found.span(2)
            known = self._meet(found[1])
        if known is None or begins == ends:
            return None
        text, user = known
        return text, {"said": _digest(str(block[begins:ends], "utf-8", "replace")), "user": user}

    def _meet(self, who: bytes) -> tuple[str, str] | None:
        text, facts, why = cut(f"{str(who, 'utf-8', 'replace')} msg='…'")
        if why:
            return None
        if len(self.known) > MEMORY:
            self.known.clear()
        known = self.known[who] = text, facts["user"]
        return known
