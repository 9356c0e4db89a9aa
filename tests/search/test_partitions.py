"""Which sets part the objects of a space, and which choices are between the parts."""

from __future__ import annotations

import pytest

from spacedsl.compiler import compile_space
from spacedsl.engine.instance import Instance, instantiate
from spacedsl.kernels.linalg.backbone import Kernel
from spacedsl.search.partitions import partitions
from tests.engine.examples import load_text
from tests.engine.generated_objects import Backbone, Machine
from tests.search.linalg import MATMUL, instance_of

ITEMS = """
set Items: type = "Item" iterator = "$kernel.items" end
set Near($x in Items) subsetof Items: iterator = "$x.near" end
set Again($x in Items) subsetof Items: iterator = "$x.near" end
choice enum kind($x in Items): value P: value Q: end
choice enum pair($x in Items, $y in Items): symmetric value P: value Q: end
"""


def items(*near: tuple[int, ...]) -> Instance:
    kernel = Backbone(((1, 2),) * 4, (1,) * 4, (), (), near).build()
    return instantiate(compile_space(load_text(ITEMS)), kernel, Machine())


def test_choices_within_a_group_are_not_between_groups() -> None:
    instance = items((0, 1), (), (2, 3), ())
    (partition,) = partitions(instance)
    assert partition.name == "Near"
    freed = [
        {(v.choice, *v.names) for v in map(instance.variables.__getitem__, variables)}
        for variables in partition.freed
    ]
    across = {("pair", a, b) for a in ("item0", "item1") for b in ("item2", "item3")}
    assert freed == [
        {("kind", "item0"), ("kind", "item1"), *across},
        {("kind", "item2"), ("kind", "item3"), *across},
    ]


@pytest.mark.parametrize(
    "near",
    [
        ((0, 1), (1, 2), (3,), ()),
        ((0, 1), (), (2,), ()),
        ((0, 1, 2, 3), (), (), ()),
    ],
    ids=["shared", "missing", "one"],
)
def test_sets_that_share_or_miss_objects_or_hold_them_all_part_nothing(
    near: tuple[tuple[int, ...], ...],
) -> None:
    assert partitions(items(*near)) == ()


def test_the_dimensions_of_a_matrix_product_are_parted_by_nest_by_index_and_by_level() -> None:
    instance = instance_of(MATMUL)
    kernel = instance.kernel
    assert isinstance(kernel, Kernel)
    # Nests are those of the instructions that triggers may add, too.
    nests = sum(bool(dims) for dims in instance.objects.members["OwnDims"].values())
    assert {partition.name: len(partition.freed) for partition in partitions(instance)} == {
        "OwnDims": nests,
        "IndexDims": len(kernel.indices),
        "LevelDims": len(kernel.levels),
    }
