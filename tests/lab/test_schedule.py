"""The cron line that the watchdog installs, run by real cron beside a real gateway."""

from __future__ import annotations

from . import person
from .waiting import until


def test_real_cron_fires_a_check_that_tells_of_a_stopped_chat(lab):
    it = lab("0.19.0", settings=person.SETTINGS, hurry=("session-stuck",))
    (it.machine.units / "cron.service").write_text(
        "[Unit]\nDefaultDependencies=no\n[Service]\nExecStart=/usr/sbin/cron -f\n"
    )
    it.machine.systemctl("daemon-reload")
    it.gateway.start()
    done = it.watchdog("install", "--cron", "--every", "1m")
    assert done.returncode == 0, done.text
    assert " check " in it.machine.run(["crontab", "-l"]).stdout
    it.machine.systemctl("start", "cron.service")
    it.world.do("llm", "behave", match="never answer", do="hang")
    it.gateway.tell("please never answer")
    until(
        lambda: any("has waited" in text for text in person.messages(it)),
        "cron's check told of the chat",
        within=130,
        every=1,
        explain=lambda: it.machine.run(["journalctl", "-u", "cron", "--no-pager"]).text,
    )
    assert it.watchdog("uninstall").returncode == 0
    assert " check " not in it.machine.run(["crontab", "-l"]).stdout
