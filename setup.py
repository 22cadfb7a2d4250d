"""What pyproject.toml cannot say: rules/ travels in the wheel as watchdog/shipped."""

from pathlib import Path
from shutil import copytree

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithRules(build_py):
    def run(self) -> None:
        super().run()
        if not self.editable_mode:  # a checkout uses its rules/ as they are
            copytree("rules", Path(self.build_lib, "watchdog", "shipped"), dirs_exist_ok=True)


setup(cmdclass={"build_py": BuildWithRules})
