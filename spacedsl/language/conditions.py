"""Conditions: expressions of the syntax to formulas of the typed space.

In: an expression and the variables in scope. Out: a `space.Formula`, or None where something was wrong, which
has been reported. Formulas keep the nesting that was written; the compiler makes clauses of them.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TypeGuard

from spacedsl.diagnostics import Span
from spacedsl.language import space, syntax
from spacedsl.language.expressions import GREATEST_INTEGER
from spacedsl.language.formulas import MIRRORED
from spacedsl.language.headers import CounterHeader, QuantityHeader, Valued
from spacedsl.language.host import HostExpression, host_expression
from spacedsl.language.names import Names, Scope
from spacedsl.language.ordered import compare, order_of
from spacedsl.language.remarks import truth
from spacedsl.language.report import Report

_UPPER_LIMITS = (space.Comparison.LT, space.Comparison.LE)


class Purpose(enum.Enum):
    """Why a condition is asked: what it needs to know of counters depends on it."""

    ENFORCED = "enforced"  # required to hold
    OBSERVED = "observed"  # waited for until it is certain: `when`, triggers, quotients


@dataclass(slots=True)
class Conditions:
    """Translates the conditions of one declaration."""

    names: Names
    scope: Scope
    purpose: Purpose = Purpose.ENFORCED
    position: int | None = None
    """Of the counter that the condition belongs to: it may look at counters declared before only."""
    within_branch: bool = False
    """Whether it stands in a branch of a quantity, which may not exist."""

    @property
    def report(self) -> Report:
        return self.names.report

    def truth(self, formula: space.Formula) -> bool | None:
        """Whether the condition holds, or fails, for all kernels."""
        enums = {n: c.full for n, c in self.names.choices.items() if isinstance(c, space.EnumChoice)}
        return truth(formula, enums)

    def formula(self, expression: syntax.Expression, negated: bool = False) -> space.Formula | None:
        """`negated`: whether an odd number of negations stands around it."""
        match expression:
            case syntax.Group(operand):
                return self.formula(operand, negated)
            case syntax.Truth(value):
                return space.Constant(value)
            case syntax.Host():
                host = self.names.host(expression, self.scope)
                return None if host is None else space.Host(host, expression.span)
            case syntax.Either(operands):
                parts = self._formulas(operands, negated)
                return None if parts is None else space.Or(parts)
            case syntax.Both(operands):
                parts = self._formulas(operands, negated)
                return None if parts is None else space.And(parts)
            case syntax.Negated(operand):
                inner = self.formula(operand, not negated)
                return None if inner is None else space.Not(inner)
            case syntax.Implies(left, right):
                premise, conclusion = self.formula(left, not negated), self.formula(right, negated)
                return (
                    None
                    if premise is None or conclusion is None
                    else space.Or((space.Not(premise), conclusion))
                )
            case syntax.OneOf():
                return self._one_of(expression)
            case syntax.Compared():
                return self._compared(expression, negated)
            case _:
                self._no_condition(expression)
                return None

    def _use(self, use: syntax.Use) -> tuple[space.Use, Valued] | None:
        return self.names.use(use, self.scope, self.within_branch)

    def _formulas(
        self, operands: tuple[syntax.Expression, ...], negated: bool
    ) -> tuple[space.Formula, ...] | None:
        parts = [self.formula(operand, negated) for operand in operands]
        complete = tuple(p for p in parts if p is not None)
        return complete if len(complete) == len(parts) else None

    def _no_condition(self, expression: syntax.Expression) -> None:
        match expression:
            case syntax.Use():
                found = self._use(expression)
                if found is not None:
                    example = "is VALUE" if isinstance(found[1], space.EnumChoice) else "<= 4"
                    hint = f"say what must hold of it: `{expression.span.text} {example}`"
                    self.report.error("SP050", "a choice is not a condition", expression.span, hint)
            case syntax.Conditional():
                hint = "of conditions, write `(a => b) && (a || c)` for `a ? b : c`"
                self.report.error("SP050", "a value is not a condition", expression.span, hint)
            case syntax.Application() | syntax.Aggregate() | syntax.Case():
                hint = "compare its value with something, in a quantity"
                self.report.error("SP050", "a value is not a condition", expression.span, hint)
            case syntax.ValueUse():
                hint = f"say of which choice: `choice($x) is {expression.name.text}`"
                self.report.error("SP050", "a value is not a condition", expression.span, hint)
            case _:
                self.report.error(
                    "SP050", "a number is not a condition", expression.span, "compare it with something"
                )

    # Membership

    def _one_of(self, test: syntax.OneOf) -> space.Formula | None:
        subject = _ungroup(test.subject)
        if not isinstance(subject, syntax.Use):
            self.report.error(
                "SP051", "`is` needs a choice in front of it", test.subject.span, "`choice($x) is VALUE`"
            )
            return None
        found = self._use(subject)
        if found is None:
            return None
        use, choice = found
        if not isinstance(choice, space.EnumChoice):
            message = f"`{use.choice}` is {_kind(choice)}: `is` asks for values of an enum"
            self.report.error("SP051", message, subject.span, "compare it: == != < <= > >=")
            return None
        mask = self.names.value_mask(choice, test.values)
        if mask is None:
            return None
        return space.Is(use, choice.full & ~mask if test.negated else mask, test.span)

    # Comparisons

    def _compared(self, test: syntax.Compared, negated: bool) -> space.Formula | None:
        left, right = _ungroup(test.left), _ungroup(test.right)
        op = space.Comparison(test.operator.text)
        if self._is_map(left) and self._is_map(right):
            return self._same_object(test, left, op, right)
        if order_of(self.names, left) is not None or order_of(self.names, right) is not None:
            mixed = [s for s in (left, right) if self._is_enum(s) and order_of(self.names, s) is None]
            if not mixed:
                return compare(self.names, self.scope, test, left, right, self.within_branch)
        enums = [side for side in (left, right) if self._is_enum(side)]
        if len(enums) == 2:
            return self._same_enum(test, left, op, right)
        if enums or isinstance(left, syntax.ValueUse) or isinstance(right, syntax.ValueUse):
            self._enum_with_other(test, left, right)
            return None
        a, b = self._affine(left), self._affine(right)
        if a is None or b is None:
            return None
        if a.use is None and b.use is None:
            hint = 'write all of it in one string, such as "$x.size < 4"'
            self.report.error("SP054", "this comparison has no choice in it", test.span, hint)
            return None
        if not self._visible(a, op, b, negated, test.span):
            return None
        if a.use is None:
            a, op, b = b, MIRRORED[op], a
        return space.Compare(a, op, b, test.span)

    def _is_map(self, side: syntax.Expression) -> TypeGuard[syntax.Use]:
        return isinstance(side, syntax.Use) and isinstance(self.names.choices.get(side.name.text), space.Map)

    def _same_object(
        self, test: syntax.Compared, left: syntax.Use, op: space.Comparison, right: syntax.Use
    ) -> space.Formula | None:
        """Whether two maps give one object, which is settled before any decision."""
        found = self.names.arguments((left, right), self.scope, self.within_branch)
        if op not in (space.Comparison.EQ, space.Comparison.NE):
            hint = "only `==` and `!=` compare objects; what has an order is an attribute, in double quotes"
            self.report.error("SP052", f"`{op.value}` between two objects", test.operator.span, hint)
            return None
        if found is None:
            return None
        if found[0] == found[1]:
            return space.Constant(op is space.Comparison.EQ)
        expression = host_expression(f"$left {op.value} $right", test.span)
        return space.Host(expression.about({"left": found[0], "right": found[1]}), test.span)

    def _is_enum(self, side: syntax.Expression) -> bool:
        return isinstance(side, syntax.Use) and isinstance(
            self.names.choices.get(side.name.text), space.EnumChoice
        )

    def _same_enum(
        self, test: syntax.Compared, left: syntax.Expression, op: space.Comparison, right: syntax.Expression
    ) -> space.Formula | None:
        assert isinstance(left, syntax.Use) and isinstance(right, syntax.Use)
        a, b = self._use(left), self._use(right)
        if op not in (space.Comparison.EQ, space.Comparison.NE):
            hint = "only `==` and `!=` compare enums that have no order"
            self.report.error("SP052", f"`{op.value}` between two enums", test.operator.span, hint)
            return None
        if a is None or b is None:
            return None
        (a_use, a_choice), (b_use, b_choice) = a, b
        assert isinstance(a_choice, space.EnumChoice) and isinstance(b_choice, space.EnumChoice)
        if set(a_choice.values) != set(b_choice.values):
            message = f"`{a_choice.name}` and `{b_choice.name}` do not have the same values"
            self.report.error("SP053", message, test.span, "compare them value by value, with `is`")
            return None
        translate = tuple(b_choice.values.index(v) for v in a_choice.values)
        return space.SameEnum(a_use, b_use, op is space.Comparison.EQ, translate, test.span)

    def _enum_with_other(
        self, test: syntax.Compared, left: syntax.Expression, right: syntax.Expression
    ) -> None:
        uses = [side for side in (left, right) if isinstance(side, syntax.Use)]
        if any(side.name.text not in self.names.choices and self._use(side) is None for side in uses):
            return
        for side, other in ((left, right), (right, left)):
            if isinstance(side, syntax.Use) and isinstance(other, syntax.ValueUse):
                if test.operator.text not in ("==", "!="):
                    message = f"the values of `{side.name.text}` have no order"
                    hint = f"declare `choice ordered enum {side.name.text}`"
                    self.report.error("SP052", message, test.operator.span, hint)
                    return
                word = "is not" if test.operator.text == "!=" else "is"
                hint = f"write `{side.span.text} {word} {other.name.text}`"
                self.report.error("SP052", "a choice is compared with a value by `is`", test.span, hint)
                return
        message = "an enum can only be compared with an enum of the same values"
        self.report.error("SP052", message, test.span, "ask for its values: `choice($x) is VALUE`")

    def _visible(
        self, left: space.Affine, op: space.Comparison, right: space.Affine, negated: bool, span: Span
    ) -> bool:
        """Whether the counters involved show enough for this comparison."""
        for side, other in ((left, "right"), (right, "left")):
            choice = None if side.use is None else self.names.choices[side.use.choice]
            if not isinstance(choice, CounterHeader) or choice.visibility is space.Visibility.FULL:
                continue
            word = choice.visibility.value
            if self.purpose is Purpose.OBSERVED and choice.visibility is space.Visibility.HALF:
                message = f"`{choice.name}` is a half counter: its greatest value is not known"
                self.report.error("SP044", message, span, "declare it without `half`")
                return False
            factor_ok = isinstance(side.factor, int) and side.factor > 0
            if other == "left" or negated or op not in _UPPER_LIMITS or not factor_ok:
                message = f"`{choice.name}` is {_article(word)} counter: it can only be limited from above"
                hint = f"write `{choice.name}(..) <= limit`, or declare it without `{word}`"
                self.report.error("SP044", message, span, hint)
                return False
        return True

    # Arithmetic

    def _affine(self, expression: syntax.Expression) -> space.Affine | None:
        """A sum with at most one choice in it."""
        use: space.Use | None = None
        factor: int | HostExpression = 1
        offsets: list[tuple[int, int | HostExpression]] = []
        ok = True
        for sign, term in _terms(expression, 1):
            scaled = self._term(term)
            if scaled is None:
                ok = False
            elif scaled.use is None:
                offsets.append((sign, scaled.factor))
            elif use is not None:
                hint = "move it to the other side, or declare a `quantity` for the sum and compare that"
                self.report.error("SP055", "a second choice on this side", term.span, hint)
                ok = False
            elif sign < 0:
                hint = "move it to the other side of the comparison"
                self.report.error("SP055", "a choice with a minus sign", term.span, hint)
                ok = False
            else:
                use, factor = scaled.use, scaled.factor
        return space.Affine(use, factor, tuple(offsets)) if ok else None

    def _term(self, term: syntax.Expression) -> _Scaled | None:
        """A number, a host value, or one of them times a choice."""
        factors = [_ungroup(f) for f in term.factors] if isinstance(term, syntax.Product) else [term]
        number = 1
        hosts: list[HostExpression] = []
        uses: list[space.Use] = []
        for factor in factors:
            match factor:
                case syntax.Number(value):
                    number *= value
                case syntax.Host():
                    host = self.names.host(factor, self.scope)
                    if host is None:
                        return None
                    hosts.append(host)
                case syntax.Use():
                    found = self._integer(factor)
                    if found is None:
                        return None
                    uses.append(found)
                case _:
                    self._not_affine(factor)
                    return None
        if number > GREATEST_INTEGER:
            hint = "the greatest integer is 2**63 - 1"
            self.report.error("SP006", "this product of numbers is too large", term.span, hint)
            return None
        if len(uses) > 1 or len(hosts) > 1 or (hosts and number != 1):
            hint = 'write numbers and objects\' attributes in one string: `"2 * $x.size" * choice($y)`'
            message = "a product of two choices" if len(uses) > 1 else "a product of two constants"
            if len(uses) > 1:
                hint = "declare a `quantity` for the product, and compare that"
            self.report.error("SP055", message, term.span, hint)
            return None
        return _Scaled(uses[0] if uses else None, hosts[0] if hosts else number)

    def _integer(self, factor: syntax.Use) -> space.Use | None:
        found = self._use(factor)
        if found is None:
            return None
        use, choice = found
        if isinstance(choice, space.EnumChoice) or order_of(self.names, factor) is not None:
            message = f"`{use.choice}` is {_kind(choice)}: it has no number"
            self.report.error(
                "SP052", message, factor.span, f"ask for its values: `{factor.span.text} is VALUE`"
            )
            return None
        if isinstance(choice, CounterHeader) and not self.declared_before(choice):
            message = f"`{use.choice}` is declared after the counter that looks at it"
            self.report.error(
                "SP040", message, factor.span, "move its declaration up", (choice.span, "declared here")
            )
            return None
        return use

    def declared_before(self, counter: CounterHeader) -> bool:
        return self.position is None or counter.position < self.position

    def _not_affine(self, expression: syntax.Expression) -> None:
        match expression:
            case syntax.Conditional() | syntax.Application() | syntax.Aggregate() | syntax.Case():
                hint = "declare it: `quantity NAME(..) = ..`, and compare that"
                message = "an operator of quantities in a comparison"
                self.report.error("SP055", message, expression.span, hint)
            case syntax.Total():
                hint = "multiply each term by itself"
                self.report.error("SP055", "a product with a sum in it", expression.span, hint)
            case _:
                message = "a condition stands where a number is needed"
                self.report.error(
                    "SP055", message, expression.span, "a number, a choice or a quoted expression"
                )


@dataclass(frozen=True, slots=True)
class _Scaled:
    """factor * use, or the factor alone."""

    use: space.Use | None
    factor: int | HostExpression


def _ungroup(expression: syntax.Expression) -> syntax.Expression:
    while isinstance(expression, syntax.Group):
        expression = expression.operand
    return expression


def _terms(expression: syntax.Expression, sign: int) -> list[tuple[int, syntax.Expression]]:
    """The signed terms of a sum, through parentheses and signs."""
    match _ungroup(expression):
        case syntax.Total(terms):
            return [term for s, inner in terms for term in _terms(inner, sign * s)]
        case syntax.Negative(operand):
            return _terms(operand, -sign)
        case other:
            return [(sign, other)]


def _kind(choice: Valued) -> str:
    match choice:
        case space.EnumChoice():
            return "an enum"
        case space.IntegerChoice():
            return "an integer choice"
        case QuantityHeader():
            return "a quantity"
        case CounterHeader():
            return "a counter"


def _article(word: str) -> str:
    return f"an {word}" if word[0] in "aeiou" else f"a {word}"
