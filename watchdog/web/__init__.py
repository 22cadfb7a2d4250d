"""The status page, live, on this machine: GET shows, POST with a plan's code answers. Needs the extra `web`."""

from watchdog.later import lazy
from watchdog.values import TYPE_CHECKING

if TYPE_CHECKING:
    from watchdog.web.app import Door
    from watchdog.web.server import serve
    from watchdog.web.view import View

# Loaded on first use: most hosts have no server, and its libraries are an extra.
__getattr__ = lazy(__name__, app=("Door",), server=("serve",), view=("View",))
