"""Finds in the source of the torch glue what it uses of torch."""

from __future__ import annotations

import ast
from pathlib import Path

TENSOR = "torch.Tensor()"

# What calls answer with, where the glue goes on to use that.
RETURNS = {
    "torch.empty": TENSOR,
    "torch.empty_strided": TENSOR,
    "torch.frombuffer": TENSOR,
    "torch.Tensor().as_strided": TENSOR,
    "torch.Tensor().clone": TENSOR,
    "torch.Tensor().untyped_storage": "torch.UntypedStorage()",
}
# What the glue calls torch and tensors that it is given.
NAMES = {"torch": "torch", "tensor": TENSOR, "_access.module()": "torch", "_torch()": "torch"}

Shape = tuple[int, tuple[str, ...]]


class Uses:
    """What was found."""

    def __init__(self) -> None:
        self.calls: dict[str, set[Shape]] = {}
        """How each name is called, by its path; `()` stands for an object of a class."""
        self.needed: set[str] = set()
        """What is used without a way out where it is missing."""

    def add(self, path: str, optional: bool = False) -> None:
        self.calls.setdefault(path, set())
        if not optional:
            self.needed.add(path)

    def result(self) -> tuple[dict[str, tuple[Shape, ...]], set[str]]:
        """The names with their calls, and those that are optional."""
        paths = set(self.calls)
        ends = {p for p in paths if not any(other.startswith(f"{p}.") for other in paths)}
        optional = {p for p in ends if not self._is_needed(p)}
        return {path: tuple(sorted(self.calls[path])) for path in sorted(ends)}, optional

    def _is_needed(self, path: str) -> bool:
        """Whether it is, and so is all that it is part of."""
        parts = path.split(".")
        steps = {".".join(parts[: i + 1]) for i in range(1, len(parts))}
        return all(step in self.needed for step in steps if step in self.calls)


class Scan(ast.NodeVisitor):
    """One file."""

    def __init__(self, uses: Uses) -> None:
        self.uses = uses
        self.known: dict[str, str] = dict(NAMES)
        self.texts: dict[str, list[str]] = {}
        self.functions: list[str] = []

    def path(self, node: ast.AST | None) -> str | None:
        """Which part of torch an expression is, if it is one."""
        if isinstance(node, ast.Name):
            return self.known.get(node.id)
        if isinstance(node, ast.Attribute):
            base = self.path(node.value)
            return f"{base}.{node.attr}" if base else self.known.get(ast.unparse(node))
        if isinstance(node, ast.IfExp):
            return self.path(node.body) or self.path(node.orelse)
        if isinstance(node, ast.Call):
            return self._called(node)
        return None

    def _called(self, node: ast.Call) -> str | None:
        said = ast.unparse(node)
        if said == "sys.modules.get('torch')":
            return "torch"
        if isinstance(node.func, ast.Name) and node.func.id == "getattr":
            paths = self._getattr(node)
            return paths[0] if paths else None
        if ours := self.known.get(ast.unparse(node.func) + "()"):
            return ours
        function = self.path(node.func)
        return function and RETURNS.get(function, f"{function}()")

    def _getattr(self, node: ast.Call) -> list[str]:
        base, name = self.path(node.args[0]), node.args[1]
        if base is None:
            return []
        if isinstance(name, ast.Constant):
            return [f"{base}.{name.value!s}"]
        assert isinstance(name, ast.Name), f"unreadable: {ast.unparse(node)}"
        assert name.id in self.texts, f"unreadable: {ast.unparse(node)}"
        return [f"{base}.{text}" for text in self.texts[name.id]]

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        outside = set(self.known)
        self.functions.append(node.name)
        self.generic_visit(node)
        self.functions.pop()
        # Its names are its own, but for attributes and what is known of functions.
        for name in set(self.known) - outside:
            if name.isidentifier():
                del self.known[name]

    def visit_Return(self, node: ast.Return) -> None:
        self.generic_visit(node)
        if self.functions and (path := self.path(node.value)):
            self.known[self.functions[-1] + "()"] = path

    def visit_Assign(self, node: ast.Assign) -> None:
        self.generic_visit(node)
        if path := self.path(node.value):
            for target in node.targets:
                self.known[ast.unparse(target)] = path

    def visit_For(self, node: ast.For) -> None:
        if isinstance(node.iter, ast.Tuple) and isinstance(node.target, ast.Name):
            values = [one.value for one in node.iter.elts if isinstance(one, ast.Constant)]
            self.texts[node.target.id] = [value for value in values if isinstance(value, str)]
        self.generic_visit(node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        # Our own module of that name.
        if node.level and any(alias.name == "torch" for alias in node.names):
            del self.known["torch"]

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if base := self.path(node.value):
            self.uses.add(f"{base}.{node.attr}")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "getattr":
            for path in self._getattr(node):
                self.uses.add(path, optional=len(node.args) > 2)
        elif function := self.path(node.func):
            keywords = tuple(sorted(word.arg for word in node.keywords if word.arg))
            self.uses.add(function, optional=True)
            self.uses.calls[function].add((len(node.args), keywords))


def uses_of(files: list[Path]) -> tuple[dict[str, tuple[Shape, ...]], set[str]]:
    """What these files use of torch: names with their calls, and which are optional."""
    uses = Uses()
    for file in files:
        tree = ast.parse(file.read_text(encoding="utf-8"))
        first = Scan(Uses())
        first.visit(tree)
        # Again: functions that stand further down are known now.
        scan = Scan(uses)
        if "torch" in first.known:
            scan.known.update(first.known)
        scan.visit(tree)
    return uses.result()
