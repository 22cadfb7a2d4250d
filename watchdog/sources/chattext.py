"""Chat text is cut out of a record before any pattern sees it; a record that imitates log fields is ambiguous.

Hermes writes `user=%s chat=%s msg=%r`: the message is a Python literal, the name is raw. So whoever chooses a name can
write fields, and even whole lines, into the log. What does not parse exactly as Hermes writes it is not believed.
"""

from __future__ import annotations

import re

_LITERAL = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_INBOUND = re.compile(
    rf"inbound message: platform=(?P<platform>\S+) user=(?P<user>.*?) chat=(?P<chat>\S+) msg=(?P<msg>{_LITERAL})"
    rf"(?: reply_to_id=\S+ reply_to_text={_LITERAL})?$",
    re.DOTALL,
)
_FORGED = re.compile(r"(?:^|\s)(?:platform|user|chat|msg)=")
_TURN = re.compile(rf"(conversation turn: .*? history=\d+) msg=(?P<msg>{_LITERAL})$", re.DOTALL)
_QUOTED = re.compile(r"\s(?:msg|content|text|preview|reply_to_text|query|prompt)=['\"]")
# How every inbound record ends, in bytes: where a name that holds line breaks is over at last.
TAIL = re.compile(rf" chat=\S+ msg={_LITERAL}(?: reply_to_id=\S+ reply_to_text={_LITERAL})?\r?$".encode(), re.MULTILINE)
# An inbound record without anything odd in it, in bytes: the quick way to see that nothing is forged.
HONEST = re.compile(
    rb"inbound message: platform=[\w-]+ user=[^=\n]* chat=[^\s=]+ msg='[^'\\\n]*'"
    rb"(?: reply_to_id=[^\s=]+ reply_to_text='[^'\\\n]*')?\r?\n?\Z"
)
_MARKED = ("inbound message: ", "conversation turn: ")


def may_quote(text: str) -> bool:
    """Whether a record can hold chat text at all; the rest is let through untouched."""
    return "='" in text or '="' in text or text.startswith(_MARKED)


def cut(text: str) -> tuple[str, dict[str, str], str]:
    """(the record without chat text, digests of what was cut for linking, why it is ambiguous or '')."""
    if text.startswith("inbound message: "):
        found = _INBOUND.match(text)
        if not found:
            return "inbound message: ", {}, "an inbound message whose fields do not parse"
        if _FORGED.search(found["user"]):
            return "inbound message: ", {}, "a user name that imitates log fields"
        # What nobody typed keeps its empty msg='', so that rules can tell it from a message.
        tail = " msg=''" if len(found["msg"]) == 2 else ""
        text = f"inbound message: platform={found['platform']} user=… chat={found['chat']}{tail}"
        return text, {"said": _digest(found["msg"]), "user": digest_of(found["user"])}, ""
    if text.startswith("conversation turn: "):
        found = _TURN.match(text)
        return (found[1], {"said": _digest(found["msg"])}, "") if found else ("conversation turn: ", {}, "")
    found = _QUOTED.search(text)
    return (text[: found.end() - 1] + "…", {}, "") if found else (text, {}, "")


def _digest(literal: str) -> str:
    # The turn line cuts at 80 characters and adds dots, the inbound line only cuts.
    said = literal[1:-1].removesuffix("...")[:60]
    return digest_of(said) if said else ""


def digest_of(text: str) -> str:
    """A short stand-in for words that nobody but the chat should read."""
    from _blake2 import blake2s  # as hashlib's, which would load all of OpenSSL

    return blake2s(text.encode("utf-8", "replace"), digest_size=6).hexdigest()
