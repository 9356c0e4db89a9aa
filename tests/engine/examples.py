"""From a generated space to everything a comparison needs: its solutions, and the engine's instance of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from spacedsl.compiler import CompiledSpace, compile_space
from spacedsl.diagnostics import DiagnosticError, Source
from spacedsl.engine.enumerate import Solution, enumerate_solutions
from spacedsl.engine.instance import instantiate
from spacedsl.language.loader import check_source
from spacedsl.language.space import Space
from tests.engine.agreement import Agreement
from tests.engine.generated_objects import Backbone, Machine, Plain
from tests.engine.generated_spaces import SETS, GeneratedSpace

MOST_VALUES_TRIED = 60_000
"""What the enumerator may spend on one example."""


STAGED = GeneratedSpace(
    SETS
    + """
choice enum kind($x in Items): value P: value Q: value R: value S: end
choice integer size($x in Items): "$x.sizes" end
choice counter total(): forall $x in Items: sum size($x) when: kind($x) is not S end
quantity load() = 2 * total() + 1
require forall $x in Items: kind($x) is Q | R || size($x) >= 3
require forall $x in Items: kind($x) is P | R | S || 2 * total() >= 7
require forall $x in Items: kind($x) is not R || load() <= 11
""",
    Backbone(((1, 2, 3, 4),) * 2, (1,) * 2, (), (), ((), ())),
)
"""Where values go one by one: what a condition wakes when the last of several goes, ends that are divided, a
quantity of a counter."""


@dataclass(frozen=True, slots=True)
class Example:
    """A generated space with the objects that it was made for, and all of its solutions."""

    generated: GeneratedSpace
    space: Space
    kernel: Plain
    solutions: tuple[Solution, ...]

    def compile(self) -> CompiledSpace:
        # Without a digest it is not remembered: a long run makes many thousands of these.
        return compile_space(replace(self.space, digest=""))

    def agreement(self, compiled: CompiledSpace | None = None) -> Agreement:
        """Ready to compare; raises `DiagnosticError` where the engine refuses the instance."""
        instance = instantiate(compiled or self.compile(), self.kernel, Machine())
        copies = [item.copy for item in self.kernel.items if item.copy is not None]
        objects: dict[str, object] = {item.name: item for item in (*self.kernel.items, *copies)}
        return Agreement(self.space, instance, self.solutions, objects)


def load_text(text: str) -> Space:
    """Loads the text of a `.space` file; raises `DiagnosticError`."""
    space, diagnostics = check_source(Source("generated.space", text))
    if space is None:
        raise DiagnosticError(diagnostics)
    return space


def example_of(generated: GeneratedSpace, most_values_tried: int = MOST_VALUES_TRIED) -> Example:
    """Raises `DiagnosticError` where the text is refused, `EnumerationLimitError` where it holds too much."""
    space = load_text(generated.text)
    kernel = generated.backbone.build()
    solutions = tuple(enumerate_solutions(space, kernel, Machine(), limit=most_values_tried))
    return Example(generated, space, kernel, solutions)
