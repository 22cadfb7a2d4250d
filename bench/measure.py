"""Run commands and tell their CPU time and peak memory: python -I -S bench/measure.py, one Python list of
words per line on stdin.

Peak memory as wait4 tells it is never below that of the process that forked, so this one imports next to
nothing.
"""

import os
import sys


def run(command):
    """(exit code, user + system seconds, peak RSS in MB) of one run, its own children included."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        os.dup2(writer, 1)  # a pipe: some tools stop at the first match when they see /dev/null
        os.dup2(os.open("/dev/null", os.O_WRONLY), 2)
        os.environ.clear()
        os.environ.update(
            {
                "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
                "HOME": "/nonexistent",
                "LC_ALL": "C.UTF-8",
                "TZ": "UTC",
            }
        )
        try:
            os.execvp(command[0], command)
        finally:
            os._exit(127)
    os.close(writer)
    while os.read(reader, 1 << 16):
        pass
    os.close(reader)
    _, status, used = os.wait4(pid, 0)
    return os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


if __name__ == "__main__":
    for line in sys.stdin:
        print(*run(eval(line)), flush=True)  # the words come from bench/run.py alone
