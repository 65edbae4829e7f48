"""What a module that mypyc compiles must not hold, as far as a source shows it; the rest is in docs/adr/0010."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

from tools.tidy_rules import Finding, Source


def compiled_modules(root: Path) -> frozenset[str]:
    return frozenset(tomllib.loads((root / "pyproject.toml").read_text())["tool"]["penstock"]["compiled"])


def findings_in_compiled(source: Source) -> Iterator[Finding]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Raise) and _has_cause(node):
            text = "what is raised by compiled code forgets its cause: raise it where code is interpreted"
            yield Finding(source.path, node.lineno, "compiled-cause", "", text)
        elif isinstance(node, ast.ClassDef):
            yield from _in_class(source, node)


def weak_references(source: Source) -> Iterator[Finding]:
    """In all of the product: one to a compiled object corrupts memory, and nobody sees which objects are compiled."""
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        modules = [each.name for each in node.names] if isinstance(node, ast.Import) else [node.module]
        if "weakref" in modules:
            text = "a weak reference to a compiled object corrupts memory: hold it, and let it go where it ends"
            yield Finding(source.path, node.lineno, "weak-reference", "", text)


def _has_cause(node: ast.Raise) -> bool:
    return node.cause is not None and not (isinstance(node.cause, ast.Constant) and node.cause.value is None)


def _in_class(source: Source, node: ast.ClassDef) -> Iterator[Finding]:
    for each in node.body:
        if isinstance(each, ast.FunctionDef) and each.name == "__del__":
            text = f"{node.name} has a finalizer, which may see an attribute that is being replaced: do not compile it"
            yield Finding(source.path, each.lineno, "compiled-finalizer", node.name, text)
