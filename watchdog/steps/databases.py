"""What the steps on databases share: which file is meant, and that it is one of this home's."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

from watchdog.config.yaml import Section
from watchdog.errors import WatchdogError
from watchdog.model import Outcome, Reason, Sentence, plain
from watchdog.model.plan_reasons import Describe, Failed
from watchdog.steps.common import check_holes, failed, written
from watchdog.values import dataclass


class NotTouched(Sentence):
    """Why a file is not touched as a database of this home."""

    # fmt: off
    OUTSIDE = "untouched.outside", "{name} is outside {home}; only databases of this home are touched"
    NO_NAME = "untouched.no-name", "{name} is not the name of a database in {home}"
    GONE = "untouched.gone", "{path} is not there any more"
    LINK = "untouched.link", "{path} is a symbolic link; it could lead anywhere, so it is not touched"
    NO_FILE = "untouched.no-file", "{path} is not a plain file"
    # fmt: on


@dataclass(frozen=True)
class DatabaseArgs:
    database: str
    undo: bool = False


def read_database(section: Section) -> DatabaseArgs:
    """`database: X` to do it, `undo: X` to take it back."""
    undo = section.has("undo")
    args = DatabaseArgs(section.text("undo" if undo else "database"), undo)
    section.done()
    check_holes(section, args)
    return args


def own_command(verb: str, path: Path, *options: str) -> Reason:
    """`hermes-watchdog db VERB FILE` as a person can type it; how our program is called is told by the reader's words."""
    return Reason(Describe.OWN, {"verb": verb, "path": written([str(path), *options])})


def attempt(what: Reason, work: Callable[[], Outcome], key: Failed = Failed.FILE_UNTOUCHED) -> Outcome:
    """What came of the work; `key` says what an error of the system means for the file."""
    try:
        return work()
    except WatchdogError as error:
        return failed(what, plain(str(error)))
    except OSError as error:
        return failed(what, Reason(key, {**what.fields, "error": str(error)}))


def database(name: str, home: Path, there: bool = True) -> Path:
    """A plain database file inside this home, reached through no symbolic link; WatchdogError otherwise."""
    root = Path(os.path.realpath(home))
    path = Path(name) if os.path.isabs(name) else root / name
    try:
        inside = path.relative_to(home if path.is_relative_to(home) else root)
    except ValueError:
        raise WatchdogError(NotTouched.OUTSIDE(name=name, home=str(home))) from None
    if ".." in inside.parts or not inside.parts or not inside.name.endswith(".db"):
        raise WatchdogError(NotTouched.NO_NAME(name=name, home=str(home)))
    walked = root
    for part in inside.parts:
        walked = walked / part
        try:
            mode = os.lstat(walked).st_mode
        except FileNotFoundError:
            if there:
                raise WatchdogError(NotTouched.GONE(path=str(walked))) from None
            return root / inside
        if stat.S_ISLNK(mode):
            raise WatchdogError(NotTouched.LINK(path=str(walked)))
        if walked == root / inside and not stat.S_ISREG(mode):
            raise WatchdogError(NotTouched.NO_FILE(path=str(walked)))
    return root / inside
