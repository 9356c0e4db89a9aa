"""A space on a kernel as a CP-SAT model, translated from the meaning of its nodes.

In: a checked space, a kernel, a device. Out: whether a solution exists in which given decisions take given
values, how many solutions there are, and which groups of constraints leave none. Every auxiliary variable is
a function of the decisions, so that solutions of the model and of the space correspond one to one. Shares no
code with the engine or with the enumerator, so that each can judge the others.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping

from ortools.sat.python import cp_model

from spacedsl.language.space import Counter, Space, Use
from spacedsl.oracle.decisions import DecisionModel
from spacedsl.oracle.derived import DerivedModel
from spacedsl.oracle.formulas import FormulaModel
from spacedsl.oracle.logic import Bounded, Literal, Logic, NotTranslatedError, negated
from spacedsl.oracle.objects import Binding, Objects, PossibleObjects
from spacedsl.oracle.quantities import QuantityModel
from spacedsl.oracle.readers import Readers

__all__ = ["Binding", "CpSatModel", "Grouping", "Narrowed", "NotTranslatedError"]

Narrowed = tuple[str, Objects, Iterable[str | int]]
"""A choice, objects, and the values that it may still have there: there has to be such a decision."""

Grouping = Callable[[int, Binding], Hashable]
"""The group of a requirement, by number, on a binding of its variables."""

_EARLY = 0.9
"""Of the time that a solver has: one that has no answer before was interrupted."""


class CpSatModel:
    """Built once for an instance; questions are asked of it with decisions narrowed to sets of values."""

    def __init__(
        self, space: Space, kernel: object, device: object, grouping: Grouping | None = None
    ) -> None:
        """With a `grouping`, requirements hold where their groups are asked for, those of None nowhere."""
        self._model = cp_model.CpModel()
        self._uses = _Uses(PossibleObjects(space, kernel, device), Logic(self._model))
        self.groups: dict[Hashable, cp_model.IntVar] = {}
        """What stands for a group: its constraints follow from it."""
        for number, requirement in enumerate(space.requirements):
            for binding, needed in self._uses.sets.bindings(requirement.foralls, {}):
                guards = self._uses.derived.guards(needed)
                group = grouping(number, binding) if grouping is not None else None
                if group is not None:
                    self._uses.formulas.require(requirement.formula, binding, [*guards, self._group(group)])
                elif grouping is None:
                    self._uses.formulas.require(requirement.formula, binding, guards)
        self._uses.decisions.settle_absent(self._uses.derived.guards)

    def is_satisfiable(self, narrowed: Iterable[Narrowed] = (), timeout_s: float = 60) -> bool:
        """Whether a solution exists in which each of the named decisions has one of the given values."""
        # Propagation answers most of these questions, in a third of the time that simplifying a model takes.
        solver = _solver(timeout_s)
        solver.parameters.cp_model_presolve = False
        return self._core({n: n for n in narrowed}, self.groups, solver) is None

    def core(
        self, narrowed: Mapping[Hashable, Narrowed], groups: Iterable[Hashable], timeout_s: float = 60
    ) -> frozenset[Hashable] | None:
        """Names of decisions and groups that have no solution together, maybe some too many; None: they have.

        Raises `TimeoutError`.
        """
        return self._core(narrowed, groups, _solver(timeout_s))

    def _core(
        self, narrowed: Mapping[Hashable, Narrowed], groups: Iterable[Hashable], solver: cp_model.CpSolver
    ) -> frozenset[Hashable] | None:
        model = self._model.clone()
        named: dict[int, Hashable] = {}
        for group in groups:
            named[self.groups[group].index] = group
        for name, (choice, objects, values) in narrowed.items():
            holds = model.new_bool_var("")
            named[holds.index] = name
            domain = self._uses.decisions.domain(choice, objects)
            kept = set(values)
            for present in self._uses.derived.guards(domain.needed):
                model.add_implication(holds, present)
            for value, literal in zip(domain.values, domain.literals, strict=True):
                if value not in kept:
                    model.add_implication(holds, negated(literal))
        model.add_assumptions([model.get_bool_var_from_proto_index(index) for index in named])
        status = solver.solve(model)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE, cp_model.INFEASIBLE):
            raise _broken_off(solver, status, "CP-SAT gave no answer")
        if status != cp_model.INFEASIBLE:
            return None
        return frozenset(named[index] for index in solver.sufficient_assumptions_for_infeasibility())

    def count(self, timeout_s: float = 60) -> int:
        """The number of solutions; meant for small instances."""
        counter = _Count()
        solver = _solver(timeout_s)
        solver.parameters.enumerate_all_solutions = True
        status = solver.solve(self._model, counter)
        if status not in (cp_model.OPTIMAL, cp_model.INFEASIBLE):
            raise _broken_off(solver, status, "CP-SAT did not finish counting")
        return counter.solutions

    def _group(self, name: Hashable) -> cp_model.IntVar:
        if name not in self.groups:
            self.groups[name] = self._model.new_bool_var("")
        return self.groups[name]


class _Uses:
    """Finds what stands for a use of any choice: a decision, a counter, a representative, a quantity."""

    def __init__(self, sets: PossibleObjects, logic: Logic) -> None:
        self._space = sets.space
        self._quotients = {q.representative: q for q in sets.space.quotients.values()}
        self.sets = sets
        self.decisions = DecisionModel(sets, logic)
        self.formulas = FormulaModel(sets, logic, self._literals, self._integer)
        self.derived = DerivedModel(self.formulas)
        readers = Readers(sets, logic, self.formulas, self.derived.guards)
        self._quantities = QuantityModel(self._space, logic, readers)

    def _literals(self, use: Use, binding: Mapping[str, object]) -> tuple[Literal, ...]:
        """One for each value of an enum."""
        quotient = self._quotients.get(use.choice)
        if quotient is None:
            return self.decisions.literals(use, binding)
        represents = self.derived.representative(quotient, tuple(binding[v] for v in use.args))
        return negated(represents), represents

    def _integer(self, use: Use, binding: Mapping[str, object]) -> Bounded:
        """Of an integer choice, a counter or a quantity."""
        objects = tuple(binding[v] for v in use.args)
        if use.choice in self._space.quantities:
            return self._quantities.value(use.choice, objects)
        choice = self._space.choices[use.choice]
        if isinstance(choice, Counter):
            return self.derived.counter(choice, objects)
        return self.decisions.integer(use, binding)


class _Count(cp_model.CpSolverSolutionCallback):
    def __init__(self) -> None:
        super().__init__()
        self.solutions = 0

    def on_solution_callback(self) -> None:
        self.solutions += 1


def _solver(timeout_s: float) -> cp_model.CpSolver:
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 1
    solver.parameters.max_time_in_seconds = timeout_s
    return solver


def _broken_off(solver: cp_model.CpSolver, status: cp_model.CpSolverStatus, message: str) -> BaseException:
    """What is raised where there is no answer: Ctrl-C ends a solver, and nobody else is told of that."""
    is_early = solver.wall_time < _EARLY * solver.parameters.max_time_in_seconds
    if is_early and status != cp_model.MODEL_INVALID:
        return KeyboardInterrupt()
    return TimeoutError(f"{message}: {solver.status_name(status)}")
