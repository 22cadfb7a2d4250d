"""The keys of what is said about who runs the gateway; their sentences are in notify/locale/*/gateway.yaml."""

from __future__ import annotations

from enum import StrEnum


class Name(StrEnum):
    """What runs the gateway, in a few words."""

    SYSTEM_UNIT = "supervisor.system-unit"
    USER_UNIT = "supervisor.user-unit"
    CONTAINER = "supervisor.container"
    SERVICE = "supervisor.service"  # of s6
    SERVICE_IN = "supervisor.service-in"  # of s6, in a container
    PROCESS = "supervisor.process"
    UNKNOWN = "supervisor.unknown"
    OUTSIDE = "supervisor.outside"  # in a container, with the number of the process on its host
    INSIDE = "supervisor.inside"  # the same, with the number inside
    SERVICE_AT = "supervisor.service-at"


class Found(StrEnum):
    """By what it was recognised."""

    SETTINGS = "found.settings"
    CGROUP = "found.cgroup"
    UNIT_FILE = "found.unit-file"
    PID_FILE = "found.pid-file"
    MOUNT = "found.mount"
    LAST_LIFE = "found.last-life"
    PARENT = "found.parent"


class MayNot(StrEnum):
    """Why the gateway may not be stopped or started from here, and what to do about it."""

    NOT_LOOKED = "may-not.not-looked"
    NO_SUCH_UNIT = "may-not.no-such-unit"
    SEVERAL = "may-not.several"
    UNIT_NAME = "may-not.unit-name"
    UNIT_OF_OTHER = "may-not.unit-of-other"
    NO_USER_BUS = "may-not.no-user-bus"
    REFUSED = "may-not.refused"
    SUDO_MISSING = "may-not.sudo-missing"
    SUDO_REFUSES = "may-not.sudo-refuses"
    FIRST_PROCESS = "may-not.first-process"
    PROCESS_OF_OTHER = "may-not.process-of-other"
    HOME_OF_OTHER = "may-not.home-of-other"
    HOW_UNKNOWN = "may-not.how-unknown"
    LOCKED_UP = "may-not.locked-up"
    PID_OF_OTHER = "may-not.pid-of-other"
    PID_FILE_OF_OTHER = "may-not.pid-file-of-other"
    PROGRAM_OF_OTHERS = "may-not.program-of-others"
    HOME_OF_OTHERS = "may-not.home-of-others"
    STARTED_BY_GATEWAY = "may-not.started-by-gateway"
    CHILD_OF_GATEWAY = "may-not.child-of-gateway"
    CONTAINER_HIDDEN = "may-not.container-hidden"
    CONTAINER_DOWN = "may-not.container-down"
    CONTAINER_PAUSED = "may-not.container-paused"
    CONTAINER_OTHER = "may-not.container-other"
    CONTAINER_UNKNOWN = "may-not.container-unknown"
    CONTAINER_MANAGED = "may-not.container-managed"
    STOP_DELETES = "may-not.stop-deletes"
    OTHER_NAMESPACE = "may-not.other-namespace"
    ENGINE_MISSING = "may-not.engine-missing"
    ENGINE_SILENT = "may-not.engine-silent"
    ENGINE_REFUSES = "may-not.engine-refuses"
    ENGINE_FAILS = "may-not.engine-fails"
    ENGINE_OTHER = "may-not.engine-other"
    ONLY_RESTARTS = "may-not.only-restarts"


class Warn(StrEnum):
    """What a person should know before approving."""

    STOP_TIMEOUT = "warn.stop-timeout"
    OUTSIDE_UNIT = "warn.outside-unit"
    COPY_OF_HOME = "warn.copy-of-home"
    WILL_LACK = "warn.will-lack"
    OUT_OF_MEMORY = "warn.out-of-memory"
    SHARED_HOME = "warn.shared-home"
    NEW_CONTAINER = "warn.new-container"
    ALSO_RESTARTED = "warn.also-restarted"
    LEFT_ALONE = "warn.left-alone"
    START_LATER = "warn.start-later"  # of a plan that leaves the gateway stopped
