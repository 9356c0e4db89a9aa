"""Which Python a host expression may contain, and its rewriting into guarded Python.

In: the text of an expression, which `host_parser.py` reads. Out: the tree of a function of its variables in
which every operation that could reach or cost too much is a call of a guard (`host_runtime.py`), and all
problems with their places. Nothing is evaluated here.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from spacedsl.language.host_parser import Problem, VariableUse, character, parse, variable_uses
from spacedsl.language.host_runtime import BUILTINS, KEYWORDS

_OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%"}
_GUARDED = {
    ast.Add: "add",
    ast.Mult: "multiply",
    ast.Div: "divide",
    ast.FloorDiv: "floor_divide",
    ast.Mod: "remainder",
}
"""Operators that can cost much, and the guards that limit them."""

_UNARY = (ast.Not, ast.USub, ast.UAdd)

_WORDS: dict[type[ast.AST], str] = {
    ast.Lambda: "`lambda`",
    ast.NamedExpr: "`:=`",
    ast.Await: "`await`",
    ast.Yield: "`yield`",
    ast.YieldFrom: "`yield from`",
    ast.Starred: "`*` in front of an argument",
    ast.JoinedStr: "a formatted string",
    ast.Dict: "a dictionary",
    ast.DictComp: "a dictionary",
    ast.Pow: "`**`",
    ast.LShift: "`<<`",
    ast.RShift: "`>>`",
    ast.BitOr: "`|`",
    ast.BitAnd: "`&`",
    ast.BitXor: "`^`",
    ast.MatMult: "`@`",
    ast.Invert: "`~`",
}


@dataclass(frozen=True, slots=True)
class Translation:
    """`function` is None where there are problems; its parameters are the runtime and `parameters`."""

    function: ast.Expression | None
    parameters: tuple[str, ...]
    """Variables in alphabetical order, without `$`."""
    uses: tuple[VariableUse, ...]
    problems: tuple[Problem, ...]


def translate(text: str, *, is_callback: bool) -> Translation:
    """Checks and rewrites an expression; a callback is one call of a method of an object."""
    uses = variable_uses(text)
    parameters = tuple(sorted({use.name for use in uses}))
    tree = parse(text)
    if isinstance(tree, Problem):
        return Translation(None, parameters, uses, (tree,))
    rewriter = _Rewriter(text, parameters)
    body = rewriter.callback(tree) if is_callback else rewriter.visit(tree)
    if rewriter.problems:
        return Translation(None, parameters, uses, tuple(rewriter.problems))
    arguments = [ast.arg("g_run"), *(ast.arg(f"v_{name}") for name in parameters)]
    function = ast.Lambda(
        ast.arguments(posonlyargs=[], args=arguments, kwonlyargs=[], kw_defaults=[], defaults=[]), body
    )
    return Translation(ast.fix_missing_locations(ast.Expression(function)), parameters, uses, ())


class _Rewriter:
    """One method for each kind of node that is allowed; each returns the guarded node."""

    def __init__(self, text: str, parameters: tuple[str, ...]) -> None:
        self.text = text
        self.parameters = parameters
        self.problems: list[Problem] = []
        self.targets: list[str] = []
        """Names bound by the comprehensions around the current node."""

    def visit(self, node: ast.expr) -> ast.expr:
        method = getattr(self, f"_{type(node).__name__}", None)
        if method is None:
            return self._refuse(node, f"{_WORDS.get(type(node), type(node).__name__)} is not allowed")
        rewritten: ast.expr = method(node)
        return rewritten

    def callback(self, node: ast.expr) -> ast.expr:
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name() as value, attr=name), args=args, keywords=[]):
                return self._guard(
                    node, "g_call_back", self.visit(value), ast.Constant(name), *map(self.visit, args)
                )
        return self._refuse(
            node, "a trigger calls one method of the backbone", 'such as "$kernel.lower($lhs, $rhs)"'
        )

    # Plain nodes

    def _Constant(self, node: ast.Constant) -> ast.expr:  # noqa: N802 -- named as the node
        if node.value is not None and not isinstance(node.value, bool | int | float | str):
            return self._refuse(
                node, "this literal is not allowed", "numbers, strings, True, False and None are"
            )
        return node

    def _Name(self, node: ast.Name) -> ast.expr:  # noqa: N802
        if node.id.startswith("_"):
            if node.id[1:] in self.parameters and self._text(node).startswith("$"):
                return ast.copy_location(ast.Name(f"v_{node.id[1:]}", ast.Load()), node)
            return self._refuse(node, f"unknown name `{node.id}`")
        if node.id in self.targets:
            return ast.copy_location(ast.Name(f"c_{node.id}", ast.Load()), node)
        if node.id in BUILTINS:
            return self._refuse(node, f"`{node.id}` is a function: it needs arguments")
        return self._refuse(node, f"unknown name `{node.id}`", self._name_hint(node.id))

    def _name_hint(self, name: str) -> str:
        if name in ("gpu", "device", "cpu", "target"):
            return "the device is `$device`"
        if name in ("kernel", "fun"):
            return "the kernel is `$kernel`"
        if name in ("true", "false"):
            return f"in Python it is `{name.capitalize()}`"
        if name.isupper():
            return f"a text stands in single quotes: `'{name}'`"
        return f"variables begin with `$`; functions are {', '.join(sorted(BUILTINS))}"

    def _Tuple(self, node: ast.Tuple | ast.List | ast.Set) -> ast.expr:  # noqa: N802
        elements = [self.visit(e) for e in node.elts]
        display = ast.copy_location(ast.Tuple(elements, ast.Load()), node)
        if isinstance(node, ast.Set):
            return self._builtin(node, "set", display)
        is_plain = all(isinstance(e, ast.Constant) for e in elements)
        return display if is_plain else self._run(node, "weighed", display)

    _List = _Set = _Tuple

    def _IfExp(self, node: ast.IfExp) -> ast.expr:  # noqa: N802
        rewritten = ast.IfExp(self.visit(node.test), self.visit(node.body), self.visit(node.orelse))
        return ast.copy_location(rewritten, node)

    def _BoolOp(self, node: ast.BoolOp) -> ast.expr:  # noqa: N802
        return ast.copy_location(ast.BoolOp(node.op, [self.visit(v) for v in node.values]), node)

    def _UnaryOp(self, node: ast.UnaryOp) -> ast.expr:  # noqa: N802
        if not isinstance(node.op, _UNARY):
            return self._refuse(node, f"{_WORDS[type(node.op)]} is not allowed")
        return ast.copy_location(ast.UnaryOp(node.op, self.visit(node.operand)), node)

    def _BinOp(self, node: ast.BinOp) -> ast.expr:  # noqa: N802
        left, right = self.visit(node.left), self.visit(node.right)
        if type(node.op) not in _OPERATORS:
            return self._refuse(node, f"{_WORDS[type(node.op)]} is not allowed", "there are + - * / // %")
        guard = _GUARDED.get(type(node.op))
        if guard is not None:
            return self._run(node, guard, left, right)
        return ast.copy_location(ast.BinOp(left, node.op, right), node)

    def _Compare(self, node: ast.Compare) -> ast.expr:  # noqa: N802
        left, operands = self.visit(node.left), [self.visit(c) for c in node.comparators]
        membership = [op for op in node.ops if isinstance(op, ast.In | ast.NotIn)]
        if not membership:
            return ast.copy_location(ast.Compare(*self._weighed(node.ops, left, operands)), node)
        if len(node.ops) > 1:
            return self._refuse(node, "`in` is part of a chain of comparisons", "write `a in b and b == c`")
        inside = self._run(node, "contains", left, operands[0])
        if isinstance(membership[0], ast.NotIn):
            return ast.copy_location(ast.UnaryOp(ast.Not(), inside), node)
        return inside

    def _weighed(
        self, operators: list[ast.cmpop], left: ast.expr, operands: list[ast.expr]
    ) -> tuple[ast.expr, list[ast.cmpop], list[ast.expr]]:
        """A comparison that pays for the sequences in it; with a literal, or by identity, it is cheap."""
        all_of_them = [left, *operands]
        is_cheap = len(operands) == 1 and any(isinstance(e, ast.Constant) for e in all_of_them)
        if is_cheap or all(isinstance(op, ast.Is | ast.IsNot) for op in operators):
            return left, operators, operands
        first, *rest = (self._run(e, "weighed", e) for e in all_of_them)
        return first, operators, list(rest)

    # Objects

    def _Attribute(self, node: ast.Attribute) -> ast.expr:  # noqa: N802
        return self._guard(node, "g_attribute", self.visit(node.value), self._attribute_name(node))

    def _attribute_name(self, node: ast.Attribute) -> ast.expr:
        if node.attr.startswith("_"):
            return self._refuse(node, f"`{node.attr}` is private")
        return ast.copy_location(ast.Constant(node.attr), node)

    def _Subscript(self, node: ast.Subscript) -> ast.expr:  # noqa: N802
        return self._run(node, "item", self.visit(node.value), self._index(node.slice))

    def _index(self, node: ast.expr) -> ast.expr:
        if not isinstance(node, ast.Slice):
            return self.visit(node)
        ends = [
            ast.Constant(None) if e is None else self.visit(e) for e in (node.lower, node.upper, node.step)
        ]
        return self._guard(node, "g_slice", *ends)

    def _Call(self, node: ast.Call) -> ast.expr:  # noqa: N802
        args = self._arguments(node)
        match node.func:
            case ast.Attribute() as method:
                if node.keywords:
                    return self._refuse(node.keywords[0], "methods take no keyword arguments here")
                return self._guard(
                    node, "g_call_method", self.visit(method.value), self._attribute_name(method), *args
                )
            case ast.Name(id=name) if name in BUILTINS and name not in self.targets:
                return self._builtin_call(node, name, args)
            case ast.Name(id=name):
                return self._refuse(
                    node.func, f"unknown function `{name}`", f"there are {', '.join(sorted(BUILTINS))}"
                )
        return self._refuse(node, "this cannot be called")

    def _arguments(self, node: ast.Call) -> list[ast.expr]:
        if (
            len(node.args) == 1
            and isinstance(node.args[0], ast.GeneratorExp)
            and isinstance(node.func, ast.Name)
        ):
            return [self._comprehension(node.args[0])]
        return [self.visit(a) for a in node.args]

    def _builtin_call(self, node: ast.Call, name: str, args: list[ast.expr]) -> ast.expr:
        if name == "sum" and len(args) != 1:
            return self._refuse(node, "`sum` takes one argument here")
        keywords = []
        for keyword in node.keywords:
            if keyword.arg not in KEYWORDS.get(name, frozenset()):
                return self._refuse(keyword, f"`{name}` takes no argument `{keyword.arg or '**'}` here")
            keywords.append(ast.keyword(keyword.arg, self.visit(keyword.value)))
        call = self._builtin(node, name, *args)
        call.keywords = keywords
        return call

    # Comprehensions

    def _GeneratorExp(self, node: ast.GeneratorExp) -> ast.expr:  # noqa: N802
        return self._refuse(
            node, "a generator stands only inside a call such as `sum(..)`", "write [ ] around it"
        )

    def _ListComp(self, node: ast.ListComp | ast.SetComp) -> ast.expr:  # noqa: N802
        name = "set" if isinstance(node, ast.SetComp) else "tuple"
        return self._builtin(node, name, self._comprehension(node))

    _SetComp = _ListComp

    def _comprehension(self, node: ast.GeneratorExp | ast.ListComp | ast.SetComp) -> ast.expr:
        generators = []
        before = len(self.targets)
        for generator in node.generators:
            if generator.is_async:
                return self._refuse(node, "`async` is not allowed")
            source = self._run(generator.iter, "iterate", self.visit(generator.iter))
            target = self._target(generator.target)
            conditions = [self.visit(c) for c in generator.ifs]
            generators.append(ast.comprehension(target, source, conditions, 0))
        element = self.visit(node.elt)
        del self.targets[before:]
        return ast.copy_location(ast.GeneratorExp(element, generators), node)

    def _target(self, node: ast.expr) -> ast.expr:
        match node:
            case ast.Name(id=name) if not name.startswith("_") and name not in BUILTINS:
                self.targets.append(name)
                return ast.copy_location(ast.Name(f"c_{name}", ast.Store()), node)
            case ast.Tuple(elts=elements):
                return ast.copy_location(ast.Tuple([self._target(e) for e in elements], ast.Store()), node)
        return self._refuse(
            node, "a comprehension binds plain names", "without `$`, and not the name of a function"
        )

    # Building blocks

    def _guard(self, node: ast.expr, guard: str, *args: ast.expr) -> ast.expr:
        return ast.copy_location(ast.Call(ast.Name(guard, ast.Load()), list(args), []), node)

    def _run(self, node: ast.expr, method: str, *args: ast.expr) -> ast.Call:
        function = ast.Attribute(ast.Name("g_run", ast.Load()), method, ast.Load())
        return ast.copy_location(ast.Call(function, list(args), []), node)

    def _builtin(self, node: ast.expr, name: str, *args: ast.expr) -> ast.Call:
        return self._run(node, "builtin", ast.Constant(name), *args)

    def _text(self, node: ast.expr) -> str:
        return self.text[
            character(self.text, node.col_offset) : character(self.text, node.end_col_offset or 0)
        ]

    def _refuse(self, node: ast.expr | ast.keyword, message: str, hint: str | None = None) -> ast.expr:
        start = character(self.text, node.col_offset)
        end = character(self.text, node.end_col_offset or 0)
        self.problems.append(Problem(message, start, max(end, start + 1), hint))
        return ast.Constant(None)
