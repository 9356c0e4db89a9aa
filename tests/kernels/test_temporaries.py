"""Which values may go through memory, and what loads them again."""

from __future__ import annotations

from tests.codegen.kernels import matmul
from tests.codegen.zoo import zoo


def test_operands_that_are_used_again_may_be_copied() -> None:
    kernel = matmul(8, 16, 6, "{i: [[2]], j: [[2], [4]], p: [[2]]}").backbone
    assert [i.name for i in kernel.storable] == ["load_A", "load_B"]
    (reload,) = kernel.storable[1].reloads
    assert (reload.name, reload.maker) == ("reload_B", kernel.storable[1])
    assert [user.name for user in reload.consumers] == ["fma"]
    assert [d.name.removeprefix("reload_B.") for d in reload.dims] == ["j0", "j1", "j2", "p0", "p1"]
    assert [d.maker_dim for d in reload.dims] == [*kernel.storable[1].dims]
    assert [[u.name for u in d.mapped_to] for d in reload.dims] == [
        ["fma.j0"], ["fma.j1"], ["fma.j2"], ["fma.p0"], ["fma.p1"]
    ]  # fmt: skip
    assert [d.name for d in reload.dims if d.is_vectorizable] == ["reload_B.j2", "reload_B.p1"]


def test_reloads_are_no_statements_until_a_trigger_adds_them() -> None:
    kernel = matmul(8, 16, 6, "{i: [[2]], j: [[2], [4]], p: [[2]]}").backbone
    reloads = kernel.reloads
    assert not {*reloads, *(d for r in reloads for d in r.dims)} & {*kernel.statements}
    assert all(d not in d.group.dims for r in reloads for d in r.dims)


def test_what_is_computed_may_be_kept_for_other_indices_and_rows_of_neighbours_need_no_copy() -> None:
    storable = {name: [i.name for i in kernel.backbone.storable] for name, kernel in zoo().items()}
    assert storable["computed operand"] == ["sub", "load_B"]
    assert storable["product of sums"] == []  # x is used again for each row, but lies in order.
    assert storable["axpy"] == []
