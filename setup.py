"""What pyproject.toml cannot say: its list of modules is compiled by mypyc. See docs/adr/0010-compiled-hot-path.md."""

import tomllib
from pathlib import Path

from mypyc.build import mypycify
from setuptools import setup
from setuptools.command.build_ext import build_ext

GROUP = "penstock"
# Types are checked by `make check`; here the packages that Penstock needs are not installed.
MYPY = ["--config-file=", "--ignore-missing-imports", "--follow-imports=silent"]

compiled = tomllib.loads(Path("pyproject.toml").read_text())["tool"]["penstock"]["compiled"]
extensions = mypycify([*MYPY, *compiled], opt_level="3", debug_level="0", group_name=GROUP)
for extension in extensions:
    # Where there is no compiler the modules are run as they are.
    extension.optional = True


class BuildAllOrNone(build_ext):
    """All code is in one library. Without it, what stands for each module would only keep its source from being run."""

    def build_extension(self, ext):
        if ext in extensions and ext.name != f"{GROUP}__mypyc" and not self._is_built(f"{GROUP}__mypyc"):
            return
        super().build_extension(ext)

    def _is_built(self, name):
        return Path(self.get_ext_fullpath(name)).exists()


setup(ext_modules=extensions, cmdclass={"build_ext": BuildAllOrNone})
