"""What pyproject.toml cannot say: its list of modules is compiled by mypyc. See docs/adr/0010-compiled-hot-path.md."""

import sys
import sysconfig
import tomllib
from pathlib import Path

from mypyc.build import mypycify
from setuptools import setup
from setuptools.command.build_ext import build_ext

GROUP = "penstock"
# Types are checked by `make check`; here the packages that Penstock needs are not installed.
MYPY = ["--config-file=", "--ignore-missing-imports", "--follow-imports=silent"]

compiled = tomllib.loads(Path("pyproject.toml").read_text())["tool"]["penstock"]["compiled"]
# What pip asks before it builds, twice: names and versions, no code.
is_asked = not {"egg_info", "dist_info"}.isdisjoint(sys.argv)
try:
    extensions = [] if is_asked else mypycify([*MYPY, *compiled], opt_level="3", debug_level="0", group_name=GROUP)
except SystemExit:
    # mypy does not agree with this Python. It has said why; the modules are run as they are.
    extensions = []
for extension in extensions:
    # So they are where there is no compiler.
    extension.optional = True


class BuildAllOrNone(build_ext):
    """All code is in one library, and what stands for a module hides its source: nothing old, no part, may be left."""

    def run(self):
        # The library comes first, and nothing is tried without it.
        self.parallel = None
        self._remove_built()
        super().run()
        if not all(self._is_built(extension) for extension in extensions):
            for extension in extensions:
                Path(self.get_ext_fullpath(extension.name)).unlink(missing_ok=True)

    def build_extension(self, ext):
        if ext not in extensions or ext is extensions[0] or self._is_built(extensions[0]):
            super().build_extension(ext)

    def _is_built(self, extension):
        return Path(self.get_ext_fullpath(extension.name)).exists()

    def _remove_built(self):
        places = ["src"] if self.inplace or self.editable_mode else []
        for place in (self.build_lib, *places):
            for built in Path(place).rglob(f"*{sysconfig.get_config_var('EXT_SUFFIX')}"):
                built.unlink()


setup(ext_modules=extensions, cmdclass={"build_ext": BuildAllOrNone})
