"""Random small spaces with the objects to try them on.

In: a source of random choices (`random.Random`, or hypothesis's, which shrinks). Out: the text of a `.space`
file, and a backbone of plain objects, so small that all of its solutions can be listed. Which constructs a
space uses is drawn first, each by itself, so that any two of them often meet. What the text means is not
known here.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

from tests.engine.generated_choices import LARGE, MOST_ASSIGNMENTS, ORDER, Choices, Growth
from tests.engine.generated_formulas import IMAGE, LOCAL, Declared
from tests.engine.generated_objects import Backbone


@dataclass(frozen=True, slots=True)
class GeneratedSpace:
    text: str
    backbone: Backbone

    def __str__(self) -> str:
        return f"{self.backbone}\n{self.text}"


def generate_space(rng: random.Random, most_assignments: int = MOST_ASSIGNMENTS) -> GeneratedSpace:
    """A space whose decisions alone have about so many assignments on its backbone, at most."""
    return _Author(rng, room=math.log(most_assignments)).write()


SETS = """\
set Items: iterator = "$kernel.items" end
set Reds subsetof Items: iterator = "$kernel.reds" end
set Blues subsetof Items: iterator = "$kernel.blues" end
set Near($centre in Items) subsetof Items: iterator = "$centre.near" end
map next($x in Items) in Items = "$x.next"
set Beyond($x in Items) subsetof Near(next($x)): iterator = "$x.next.near" end
"""


@dataclass(slots=True)
class _Author(Choices):
    def write(self) -> GeneratedSpace:
        triggers = self._between(1, 2) if self._chance(60) else 0
        large, many = self._chance(15), self._chance(6)
        self.backbone = self._backbone(3 if triggers or self._chance(60) else 4, large, many)
        self.numbers = LARGE if large else self.numbers
        self.nesting, self.mapping, self.affinity = (
            often if self._chance(60) else rarely for often, rarely in ((35, 15), (40, 10), (45, 15))
        )
        growths = [self._growth() for _ in range(triggers)]
        for growth in growths:
            self._grow(growth)
        if triggers:
            self._unary(over=growths[0].over)
        self._declare()
        if not self.choices:
            self._unary(over=self._set())
        for growth in growths:
            self._trigger(growth)
        self._derive()
        for _ in range(self._between(0, 3)):
            self._requirement()
        return GeneratedSpace(SETS + "\n" + "\n\n".join(self.lines) + "\n", self.backbone)

    def _drawn(self, chances: list[tuple[int, Callable[[], None]]]) -> list[Callable[[], None]]:
        """Each with its chance, in percent, in any order."""
        drawn = [declare for percent, declare in chances if self._chance(percent)]
        self.rng.shuffle(drawn)
        return drawn

    def _declare(self) -> None:
        """The choices: what has the most bindings first, as long as there is room."""
        if self._chance(60):
            self._pair("symmetric")
        chances: list[tuple[int, Callable[[], None]]] = [
            (60, lambda: self._pair("antisymmetric")),
            (90, self._triple),
            (85, self._ordered),
            (65, self._integer),
            (70 if IMAGE in self.favoured else 25, lambda: self._pair("")),
            (25, self._unary),
            (15, self._integer),
        ]
        for declare in self._drawn(chances):
            declare()

    def _derive(self) -> None:
        """What follows from the choices, each of which may read those before it."""
        chances: list[tuple[int, Callable[[], None]]] = [
            (60, lambda: self._counter(product=False)),
            (65, lambda: self._counter(product=True)),
            (25, lambda: self._counter(product=False)),
            (60, self._quantity),
            (100, self._ordered_quantity),
        ]
        # Counters are often over representatives.
        if self._chance(75):
            self._quotient()
        for declare in self._drawn(chances):
            declare()

    # ---- Objects ----

    def _backbone(self, most: int, large: bool, many: bool) -> Backbone:
        count = self._between(2, most)
        universe = self._one(["0 1 2", "1 2 4", "1 2 3", "2 4", "1 2 3 6", "0 5"])
        numbers = tuple(self.rng.sample(LARGE, 3)) if large else tuple(int(n) for n in universe.split())
        sizes = tuple(
            tuple(n for n in numbers if self._chance(80)) or (numbers[self.rng.randrange(len(numbers))],)
            for _ in range(count)
        )
        reds = self._some(count, 70)
        blues = tuple(i for i in range(count) if i not in reds) if self._chance(30) else self._some(count, 60)
        near = tuple(tuple(j for j in self._some(count, 60) if j != i) for i in range(count))
        weights = tuple(self._between(1, 3) for _ in range(count))
        return Backbone(sizes, weights, reds, blues, near, self._between(126, 134) if many else 0)

    def _binder(self, variables: dict[str, str]) -> str:
        """A set for a further variable, often one that belongs to an earlier variable."""
        around = [v for v in variables if self._chance(40)]
        if around:
            return self._belonging_to(around[0])
        everything = [] if self.backbone.fillers and "Items" in variables.values() else ["Items"] * 3
        return self._one([*everything, "Reds", "Blues", "Near", *self.quotients * 4])

    # ---- What follows from choices ----

    def _params(self) -> dict[str, str]:
        """Of a counter: up to three parameters, mostly one."""
        params: dict[str, str] = {}
        for _ in range(self.rng.choice((0, 0, 1, 1, 1, 1, 2, 2, 3))):
            is_near = bool(params) and self._chance(50)
            local = self._one(LOCAL).replace("$x", "$p")
            params["pqr"[len(params)]] = local if is_near else self._binder_of_all(params)
        return params

    def _binder_of_all(self, variables: dict[str, str]) -> str:
        """A set without parameters."""
        over = self._set()
        return "Reds" if self.backbone.fillers and over in variables.values() else over

    def _counter(self, product: bool) -> None:
        params = self._params()
        variables = dict(params)
        head = f"({', '.join(f'${p} in {over}' for p, over in params.items())}):"
        foralls = ""
        for index in range(self._between(1, 2)):
            binder = variables[f"v{index}"] = self._binder(variables)
            filtered = self._one([*variables, "device"])
            test = "limit < 3" if filtered == "device" else "is_odd"
            where = f' where "${filtered}.{test}"' if self._chance(20) else ""
            foralls += f"  forall $v{index} in {binder}{where}:\n"
        kind = self._one(["", "", "half ", "internal "])
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
        sets = tuple(over.replace("$p", "$x") for over in params.values())
        counted = Declared(name, sets, visible=not kind, is_sum=not product, is_product=product)
        self.choices.append(counted)
        if self._chance(80):
            self._limit(counted)

    def _quantity(self) -> None:
        """Of integers; mostly with a limit."""
        over = self._set()
        variables = {"p": over} if self._chance(70) else {}
        body = self.term(variables, depth=2 if self.backbone.fillers else 3)
        derived = self._named(variables, body)
        if self._chance(70):
            self._limit(derived)

    def _ordered_quantity(self) -> None:
        """A place in an order that follows from others, and mostly a limit on it."""
        if not any(c.is_ordered for c in self.choices):
            return
        variables = {"p": self._set()} if self._chance(70) else {}
        derived = self._named(variables, self.places(variables, ORDER), ORDER)
        if self._chance(70):
            prefix = f"forall $p in {derived.params[0]}: " if variables else ""
            use = f"{derived.name}({'$p' if variables else ''})"
            limit = self._order(derived, use, variables or {"p": "Items"}) if variables else ""
            plain = f"{use} {self._one(['<=', '<', '>=', '!='])} {self._one(['MID', 'MID', 'TOP'])}"
            self._require_limit(prefix, limit if limit and self._chance(50) else plain, variables)

    def _named(self, variables: dict[str, str], body: str, values: tuple[str, ...] = ()) -> Declared:
        """A quantity over at most one parameter."""
        name = f"value{len(self.choices)}"
        head = f"($p in {variables['p']})" if variables else "()"
        self.lines.append(f"quantity {name}{head} =\n  {body}")
        params = tuple(variables.values())
        derived = Declared(name, params, values, is_ordered=bool(values), is_quantity=True)
        self.choices.append(derived)
        return derived

    def _limit(self, counter: Declared) -> None:
        variables = {p: over.replace("$x", "$p") for p, over in zip("pqr", counter.params, strict=False)}
        prefix = "".join(f"forall ${p} in {over}: " for p, over in variables.items())
        use = f"{counter.name}({', '.join(f'${p}' for p in variables)})"
        operator = self._one(["<=", "<=", "<", ">=", "!=", "!="] if counter.visible else ["<=", "<"])
        bounds = ["2", "3"] if operator in ("==", ">=") else ["3", "4", "6", "9", '"$kernel.few * 3"']
        bound = self._one([*bounds, '"$device.limit"'])
        if len(self.numbers) == len(LARGE):
            bound = self._one([str(n) for n in LARGE[1:]])
        self._require_limit(prefix, f"{use} {operator} {bound}", variables)

    def _require_limit(self, prefix: str, limit: str, variables: dict[str, str]) -> None:
        """Often only where something else holds: limits on everything leave no solution."""
        if variables and self._chance(60):
            limit = f"{self._literal(variables, limits=False)} || {limit}"
        self.lines.append(f"require {prefix}{limit}")

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
        return any(0 in sizes for sizes in self.backbone.sizes)

    def _quotient(self) -> None:
        relations = [c for c in self.choices if c.symmetry == "symmetric" and len(c.values) > 1]
        if not relations:
            return
        relation = relations[self.rng.randrange(len(relations))]
        over = relation.params[0]
        is_local = over == "Items" and self._chance(30)
        number = len(self.quotients) + len(self.local_quotients)
        name, representative = f"Classes{number}", f"is_class{number}"
        around = self._one(LOCAL)
        local = around.replace("$x", "$p")
        variables = {"q": local, "p": "Items"} if is_local else {"q": over}
        self.may_apply_maps = False
        condition = self._formula(variables, depth=1) if self._chance(80) else "true"
        self.may_apply_maps = True
        head = f"{name}($p in Items) of $q in {local}" if is_local else f"{name} of $q in {over}"
        self.lines.append(
            f"quotient {head}:\n"
            f"  {representative} = {condition} / {relation.name} is {self._one(relation.values)}\nend"
        )
        params = ("Items", around) if is_local else (over,)
        self.choices.append(Declared(representative, params, ("FALSE", "TRUE")))
        (self.local_quotients if is_local else self.quotients).append(name)
        self.within[name] = {"Items", name} if is_local else {"Items", over, name}

    # ---- Triggers ----

    def _growth(self) -> Growth:
        """What is added to a few of the items, so that there is room for choices over it."""
        actions = ["add_copy", "add_copy", "add_red_copy", "paint_blue", "paint_blue", "add_near", "add_near"]
        action = self._one(actions)
        over = self._one(["Items", "Items", "Items", "Reds"]) if self.backbone.reds else "Items"
        return Growth(action, over, self._between(1, 2))

    def _trigger(self, growth: Growth) -> None:
        """Its condition speaks of decisions alone, so that it depends on nothing that it adds to."""
        variables = {"t": growth.over}
        where = f' where "$t.id < {growth.below}"'
        prefix = f"forall $t in {growth.over}{where}: "
        action = f"{growth.action}($t)"
        if growth.action == "add_near":
            variables["u"] = "Items"
            prefix += f"forall $u in Items{where.replace('$t', '$u')}: "
            action = "add_near($t, $u)"
        condition = self._literal(variables, limits=False)
        if self._chance(40):
            condition = f"{self._bracketed(self._formula(variables, depth=2))} && {condition}"
        self.lines.append(f'trigger {prefix}\n  "$kernel.{action}" when {condition}')

    # ---- Requirements ----

    def _requirement(self) -> None:
        variables: dict[str, str] = {}
        prefix = ""
        for index in range(self._between(1, 3)):
            near = [v for v in variables if self._chance(35)]
            everything = [] if self.backbone.fillers and index else ["Items"] * 2
            others = [*everything, "Reds", "Blues", *self.favoured[:2], *self.quotients * 2]
            over = self._local(near[0]) if near else self._one([o for o in others if o not in LOCAL])
            variables[f"a{index}"] = over
            where = f' where "$a{index}.weight > 1"' if self._chance(8) else ""
            prefix += f"forall $a{index} in {over}{where}: "
        depth = 3 if self._chance(40) else 2
        formulas = [self._formula(variables, depth, limits=True) for _ in range(1 + self._chance(20))]
        self.lines.append(f"require {prefix}\n  " + "\n  ".join(formulas))
