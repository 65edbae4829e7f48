"""The rules of tidy.py that look at one parsed source file. Each yields findings; none reads a file."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass

FILE_LINES = 400
FUNCTION_LINES = 70
CLASS_METHODS = 20
VAGUE_WORDS = frozenset({"util", "utils", "helper", "helpers", "manager", "managers", "common", "misc"})
BROAD_ERRORS = frozenset({"Exception", "BaseException"})

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_WORD = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")
_UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")


@dataclass(frozen=True)
class Finding:
    """One breach of one rule. `path`, `rule` and `name` are what an exception refers to, so no line number counts."""

    path: str
    line: int
    rule: str
    name: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: [{self.rule}] {self.text}"


@dataclass(frozen=True)
class Source:
    path: str
    text: str
    tree: ast.Module

    @classmethod
    def parse(cls, path: str, text: str) -> Source:
        return cls(path, text, ast.parse(text, path))


def findings_in(source: Source) -> Iterator[Finding]:
    yield from _long_file(source)
    yield from _vague_path(source)
    yield from _unfinished(source)
    for scope, node in _named(source.tree, ""):
        yield from _vague_name(source, scope, node.name, node.lineno)
        if isinstance(node, ast.ClassDef):
            yield from _big_class(source, scope, node)
        else:
            yield from _long_function(source, scope, node)
            yield from _broad_handlers(source, scope, node)
    for target in module_variables(source.tree):
        yield from _vague_name(source, target.id, target.id, target.lineno)


def _named(node: ast.AST, scope: str) -> Iterator[tuple[str, _Function | ast.ClassDef]]:
    """Every function and class with its dotted name in the module."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _Function | ast.ClassDef):
            name = f"{scope}.{child.name}" if scope else child.name
            yield name, child
            yield from _named(child, name)
        else:
            yield from _named(child, scope)


def _long_file(source: Source) -> Iterator[Finding]:
    lines = source.text.count("\n")
    if lines > FILE_LINES:
        yield Finding(source.path, 1, "long-file", "", f"{lines} lines, at most {FILE_LINES}: split it by noun")


def _long_function(source: Source, scope: str, node: _Function) -> Iterator[Finding]:
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    if lines > FUNCTION_LINES:
        text = f"{scope} has {lines} lines, at most {FUNCTION_LINES}: it must fit on a screen"
        yield Finding(source.path, node.lineno, "long-function", scope, text)


def _big_class(source: Source, scope: str, node: ast.ClassDef) -> Iterator[Finding]:
    methods = sum(isinstance(child, _Function) and not _is_rule(child) for child in node.body)
    if methods > CLASS_METHODS:
        text = f"{scope} has {methods} methods, at most {CLASS_METHODS}: it is two classes"
        yield Finding(source.path, node.lineno, "big-class", scope, text)


def _is_rule(method: _Function) -> bool:
    """Hypothesis wants all rules and invariants of a state machine in one class."""
    called = (decorator.func for decorator in method.decorator_list if isinstance(decorator, ast.Call))
    return any(isinstance(name, ast.Name) and name.id in ("rule", "invariant", "initialize") for name in called)


def _vague_path(source: Source) -> Iterator[Finding]:
    for part in source.path.removesuffix(".py").split("/"):
        if words := _vague_words(part):
            yield Finding(source.path, 1, "vague-name", part, f"'{part}' says {words}: name it after what it holds")


def _vague_name(source: Source, scope: str, name: str, line: int) -> Iterator[Finding]:
    if words := _vague_words(name):
        yield Finding(source.path, line, "vague-name", scope, f"{scope} says {words}: name it after what it does")


def _vague_words(name: str) -> str:
    return ", ".join(word for word in map(str.lower, _WORD.findall(name)) if word in VAGUE_WORDS)


def module_variables(tree: ast.Module) -> Iterator[ast.Name]:
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        yield from (target for target in targets if isinstance(target, ast.Name))


def _broad_handlers(source: Source, scope: str, node: _Function) -> Iterator[Finding]:
    for child in _own_nodes(node):
        if isinstance(child, ast.ExceptHandler) and (caught := _broad(child.type)):
            text = f"{scope} catches {caught}: name the errors that can happen, or let them reach dispatch"
            yield Finding(source.path, child.lineno, "broad-except", scope, text)


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Everything inside, but for what lies in a nested function: that is reported under its own name."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, _Function):
            yield child
            yield from _own_nodes(child)


def _broad(caught: ast.expr | None) -> str:
    if caught is None:
        return "everything"
    kinds = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    names = (kind.id for kind in kinds if isinstance(kind, ast.Name))
    return next((name for name in names if name in BROAD_ERRORS), "")


def _unfinished(source: Source) -> Iterator[Finding]:
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if token.type == tokenize.COMMENT and (match := _UNFINISHED.search(token.string)):
            text = "finish it or open an issue instead of a note"
            yield Finding(source.path, token.start[0], "unfinished", match[1], text)
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Name) and node.id == "NotImplementedError":
            text = "a stub: finish it, or leave it out until it is needed"
            yield Finding(source.path, node.lineno, "unfinished", node.id, text)
