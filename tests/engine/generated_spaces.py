"""Random small spaces with the objects to try them on.

In: a source of random choices (`random.Random`, or hypothesis's, which shrinks). Out: the text of a `.space`
file that uses any of the language's constructs, and a backbone of plain objects, so small that all of its
solutions can be listed. What the text means is not known here.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field

from tests.engine.generated_formulas import Declared
from tests.engine.generated_objects import Backbone
from tests.engine.generated_terms import Terms

MOST_ASSIGNMENTS = 3000
"""Of the decisions alone, before any requirement and any trigger."""


@dataclass(frozen=True, slots=True)
class GeneratedSpace:
    text: str
    backbone: Backbone

    def __str__(self) -> str:
        return f"{self.backbone}\n{self.text}"


def generate_space(rng: random.Random) -> GeneratedSpace:
    """A space whose decisions alone have at most `MOST_ASSIGNMENTS` assignments on its backbone."""
    return _Author(rng).write()


ORDER = ("LOW", "MID", "TOP")
SETS = """\
set Items: iterator = "$kernel.items" end
set Reds subsetof Items: iterator = "$kernel.reds" end
set Blues subsetof Items: iterator = "$kernel.blues" end
set Near($centre in Items) subsetof Items: iterator = "$centre.near" end
map next($x in Items) in Items = "$x.next"
"""


@dataclass(slots=True)
class _Author(Terms):
    lines: list[str] = field(default_factory=list)
    quotients: list[str] = field(default_factory=list)
    local_quotients: list[str] = field(default_factory=list)
    """Those of the items near another one."""
    room: float = math.log(MOST_ASSIGNMENTS)
    backbone: Backbone = field(init=False)

    def write(self) -> GeneratedSpace:
        triggers = self._between(1, 2) if self._chance(30) else 0
        self.backbone = self._backbone(triggers)
        if triggers:
            self.room = math.log(MOST_ASSIGNMENTS) / 2
            self._unary(over="Items")
        for _ in range(self._between(1, 4)):
            kinds = [self._unary, self._unary, self._binary, self._binary, self._integer, self._integer]
            self._pick([*kinds, self._ordered])()
        if not self.choices:
            self._unary(over=self._set())
        for _ in range(triggers):
            self._trigger()
        for _ in range(self._between(0, 4)):
            self._pick([self._counter, self._counter, self._quotient, self._quotient, self._quantity])()
        for _ in range(self._between(0, 3)):
            self._requirement()
        return GeneratedSpace(SETS + "\n" + "\n\n".join(self.lines) + "\n", self.backbone)

    # ---- Objects ----

    def _backbone(self, triggers: int) -> Backbone:
        count = self._between(2, 3 if triggers else 4)
        universe = self._one(["0 1 2", "1 2 4", "1 2 3", "2 4", "1 2 3 6", "0 5"])
        numbers = tuple(int(n) for n in universe.split())
        sizes = tuple(
            tuple(n for n in numbers if self._chance(80)) or (numbers[self.rng.randrange(len(numbers))],)
            for _ in range(count)
        )
        reds = self._some(count)
        blues = tuple(i for i in range(count) if i not in reds) if self._chance(50) else self._some(count)
        near = tuple(tuple(j for j in self._some(count, 50) if j != i) for i in range(count))
        weights = tuple(self._between(1, 3) for _ in range(count))
        return Backbone(sizes, weights, reds, blues, near)

    def _members(self, name: str) -> tuple[int, ...]:
        everything = tuple(range(len(self.backbone.sizes)))
        return {"Reds": self.backbone.reds, "Blues": self.backbone.blues}.get(name, everything)

    def _pairs(self, left: str, right: str) -> int:
        if right == "Near($x)":
            return sum(len(self.backbone.near[a]) for a in self._members(left))
        return sum(a != b for a in self._members(left) for b in self._members(right))

    def _set(self) -> str:
        return self._one(["Items", "Items", "Items", "Reds", "Blues"])

    def _binder(self, variables: dict[str, str]) -> str:
        """A set for a further variable, often one that belongs to an earlier variable."""
        around = [v for v in variables if self._chance(30)]
        if around:
            return self._one([f"Near(${around[0]})", *(f"{q}(${around[0]})" for q in self.local_quotients)])
        return self._one(["Items", "Items", "Items", "Reds", "Blues", "Near", *self.quotients * 4])

    # ---- Choices ----

    def _fits(self, assignments: float) -> bool:
        """Whether so many times more assignments still fit; takes the room if so."""
        if math.log(assignments) > self.room:
            return False
        self.room -= math.log(assignments)
        return True

    def _values(self, count: int) -> tuple[str, ...]:
        return ("P", "Q", "R", "S", "T")[:count]

    def _unary(self, over: str = "") -> None:
        """`over`: a set that there has to be such a choice over."""
        sure = bool(over)
        over = over or self._set()
        values = self._values(self._between(2, 3))
        if not sure and not self._fits(float(len(values)) ** len(self._members(over))):
            return
        name = f"kind{len(self.choices)}"
        body = [f"choice enum {name}($x in {over}):"]
        choice = Declared(name, (over,), values)
        for value in values:
            body.append(f"  value {value}:")
            if self._chance(20):
                body.append(f"    requires {self._formula({'x': over}, depth=1)}")
        if len(values) > 2 and self._chance(40):
            body.append("  alias PQ = P | Q:")
            choice = Declared(name, (over,), (*values, "PQ"))
        self.lines.append("\n".join([*body, "end"]))
        self.choices.append(choice)

    def _binary(self) -> None:
        symmetry = self._one(["", "symmetric", "symmetric", "antisymmetric"])
        left = self._set()
        right = left if symmetry else self._one([self._set(), "Near($x)"])
        values = self._values(self._between(2, 4 if symmetry == "antisymmetric" else 3))
        pairs = self._pairs(left, right) // (2 if symmetry else 1)
        if not self._fits(float(len(values)) ** pairs):
            return
        name = f"pair{len(self.choices)}"
        body = [f"choice enum {name}($x in {left}, $y in {right}):"]
        if symmetry == "symmetric":
            body.append("  symmetric")
        elif symmetry:
            body += ["  antisymmetric:", "    P -> Q"] + (["    R -> S"] if len(values) > 3 else [])
        body += [f"  value {value}:" for value in values]
        self.lines.append("\n".join([*body, "end"]))
        self.choices.append(Declared(name, (left, right), values, symmetry=symmetry or "none"))

    def _ordered(self) -> None:
        over = self._set()
        if not self._fits(3.0 ** len(self._members(over))):
            return
        name = f"rank{len(self.choices)}"
        self.lines.append(f"choice ordered enum {name}($x in {over}): LOW < MID < TOP end")
        self.choices.append(Declared(name, (over,), ORDER, is_ordered=True))

    def _integer(self) -> None:
        over = self._set()
        universe = self._one(["$x.sizes", "$x.sizes", "$x.sizes", "range(1, $x.weight + 2)", "[1, 2, 3]"])
        offered = {
            "$": [len(sizes) for sizes in self.backbone.sizes],
            "r": [weight + 1 for weight in self.backbone.weights],
            "[": [3 for _ in self.backbone.sizes],
        }[universe[0]]
        if not self._fits(math.prod(float(offered[i]) for i in self._members(over))):
            return
        name = f"size{len(self.choices)}"
        self.lines.append(f'choice integer {name}($x in {over}): "{universe}" end')
        self.choices.append(Declared(name, (over,)))

    # ---- What follows from choices ----

    def _counter(self) -> None:
        variables: dict[str, str] = {}
        params = ""
        over = self._set()
        if self._chance(60):
            variables["p"] = over
            params = f"$p in {over}"
        head = f"({params}):"
        foralls = ""
        for index in range(self._between(1, 2)):
            binder = variables[f"v{index}"] = self._binder(variables)
            filtered = self._one([*variables, "device"])
            test = "limit < 3" if filtered == "device" else "is_odd"
            where = f' where "${filtered}.{test}"' if self._chance(20) else ""
            foralls += f"  forall $v{index} in {binder}{where}:\n"
        kind = self._one(["", "", "half ", "internal "])
        product = self._chance(40)
        value = self._amount(variables, product, hidden=kind == "half ")
        if value is None:
            return
        base = f"  base {self._one(['0', '1', '2', chr(34) + '$kernel.few' + chr(34)])}\n"
        base = base if self._chance(30) and not (product and "base 0" in base) else ""
        conditions = [self._formula(variables, depth=1) for _ in range(self._between(0, 2))]
        when = "".join(f"\n    {c}" for c in conditions)
        name = f"count{len(self.choices)}"
        operation = "mul" if product else "sum"
        self.lines.append(
            f"choice {kind}counter {name}{head}\n{base}{foralls}  {operation} {value} when:{when}\nend"
        )
        counted = Declared(
            name, (over,) if params else (), visible=not kind, is_sum=not product, is_product=product
        )
        self.choices.append(counted)
        if self._chance(80):
            self._limit(counted)

    def _quantity(self) -> None:
        """Of integers, or of an order; mostly with a limit."""
        over = self._set()
        variables = {"p": over} if self._chance(70) else {}
        head = f"($p in {over})" if variables else "()"
        ranks = [c for c in self.choices if c.is_ordered]
        name = f"value{len(self.choices)}"
        is_ordered = bool(ranks) and self._chance(30)
        body = self.places(variables, ORDER) if is_ordered else self.term(variables, depth=3)
        self.lines.append(f"quantity {name}{head} =\n  {body}")
        params = (over,) if variables else ()
        derived = Declared(name, params, ORDER if is_ordered else (), is_ordered=is_ordered, is_quantity=True)
        self.choices.append(derived)
        if self._chance(70) and not is_ordered:
            self._limit(derived)

    def _limit(self, counter: Declared) -> None:
        prefix = f"forall $p in {counter.params[0]}: " if counter.params else ""
        use = f"{counter.name}({'$p' if counter.params else ''})"
        operator = self._one(["<=", "<=", "<", ">=", "!=", "!="] if counter.visible else ["<=", "<"])
        bounds = ["2", "3"] if operator in ("==", ">=") else ["3", "4", "6", "9", '"$kernel.few * 3"']
        bound = self._one([*bounds, '"$device.limit"'])
        self.lines.append(f"require {prefix}{use} {operator} {bound}")

    def _amount(self, variables: dict[str, str], product: bool, hidden: bool) -> str | None:
        """What a counter adds up: a number, a host value, an integer choice or a counter that fits."""
        options = ["1", "2"] if not product else ["2", "3"]
        options += [f'"${v}.weight"' for v in variables]
        for choice in self.choices:
            if (
                choice.values
                or choice.is_quantity
                or (choice.is_sum and product)
                or (not choice.visible and not hidden)
            ):
                continue
            if product and not choice.is_product and self._may_be_zero(choice):
                continue
            options += [u for u in [self._use(choice, variables)] if u is not None] * 4
        return self._one(options)

    def _may_be_zero(self, choice: Declared) -> bool:
        return any(0 in self.backbone.sizes[i] for i in self._members(choice.params[0]))

    def _quotient(self) -> None:
        relations = [c for c in self.choices if c.symmetry == "symmetric" and len(c.values) > 1]
        if not relations:
            self._counter()
            return
        relation = relations[self.rng.randrange(len(relations))]
        over = relation.params[0]
        is_local = over == "Items" and self._chance(30)
        number = len(self.quotients) + len(self.local_quotients)
        name, representative = f"Classes{number}", f"is_class{number}"
        variables = {"q": "Near($p)", "p": "Items"} if is_local else {"q": over}
        self.may_apply_maps = False
        condition = self._formula(variables, depth=1) if self._chance(80) else "true"
        self.may_apply_maps = True
        head = f"{name}($p in Items) of $q in Near($p)" if is_local else f"{name} of $q in {over}"
        self.lines.append(
            f"quotient {head}:\n"
            f"  {representative} = {condition} / {relation.name} is {self._one(relation.values)}\nend"
        )
        params = ("Items", "Near($x)") if is_local else (over,)
        self.choices.append(Declared(representative, params, ("FALSE", "TRUE")))
        (self.local_quotients if is_local else self.quotients).append(name)
        self.within[name] = {"Items", name} if is_local else {"Items", over, name}

    # ---- Triggers ----

    def _trigger(self) -> None:
        """Its condition speaks of decisions alone, so that it depends on nothing that it adds to."""
        over = self._one(["Items", "Items", self._set()])
        variables = {"t": over}
        prefix = f"forall $t in {over}: "
        if self._chance(30):
            variables["u"] = "Items"
            prefix += "forall $u in Items: "
        actions = ["add_copy($t)", "add_copy($t)", "add_red_copy($t)", "paint_blue($t)"]
        action = "add_near($t, $u)" if "u" in variables else self._one(actions)
        condition = self._formula(variables, depth=self._between(1, 2))
        if not any(f"{choice.name}(" in condition for choice in self.choices):
            condition += f" && {self._literal(variables, limits=False)}"
        self.lines.append(f'trigger {prefix}\n  "$kernel.{action}" when {condition}')

    # ---- Requirements ----

    def _requirement(self) -> None:
        variables: dict[str, str] = {}
        prefix = ""
        for index in range(self._between(1, 3)):
            near = [v for v in variables if self._chance(25)]
            over = (
                f"Near(${near[0]})"
                if near
                else self._one(["Items", "Items", "Reds", "Blues", *self.quotients * 2])
            )
            variables[f"a{index}"] = over.split("(")[0]
            where = f' where "$a{index}.weight > 1"' if self._chance(8) else ""
            prefix += f"forall $a{index} in {over}{where}: "
        depth = 3 if self._chance(30) else 2
        formulas = [self._formula(variables, depth, limits=True) for _ in range(1 + self._chance(20))]
        self.lines.append(f"require {prefix}\n  " + "\n  ".join(formulas))
