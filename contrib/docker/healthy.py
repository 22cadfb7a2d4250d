"""Whether the watchdog in this container works: a check was made within the last hour. What the gateway does is not asked."""

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta

shown = subprocess.run(["hermes-watchdog", "status", "--json"], capture_output=True, text=True, timeout=50)
try:
    status = json.loads(shown.stdout)
    last = status["last_check"]
    late = not last or datetime.now(UTC) - datetime.fromisoformat(last) > timedelta(hours=1)
    problem = (
        status["store_error"]
        or status["last_error"]
        or (f"the last check was at {last or 'no time yet'}" if late else "")
    )
except (ValueError, KeyError, TypeError):
    problem = shown.stderr or "status gave no answer"
print(problem or "well")
sys.exit(1 if problem else 0)
