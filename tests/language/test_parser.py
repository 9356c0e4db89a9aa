"""Every construct of the language parses to the node that is named after it."""

from __future__ import annotations

import pytest

from spacedsl.diagnostics import DiagnosticError, Source
from spacedsl.language import syntax
from spacedsl.language.parser import parse


def declarations(text: str) -> tuple[syntax.Declaration, ...]:
    return parse(Source("test.space", text)).declarations


def only(text: str) -> syntax.Declaration:
    (declaration,) = declarations(text)
    return declaration


def conditions(text: str) -> tuple[syntax.Expression, ...]:
    require = only("require " + text)
    assert isinstance(require, syntax.Require)
    return require.conditions


def condition(text: str) -> syntax.Expression:
    (expression,) = conditions(text)
    return expression


def test_a_set_has_parameters_supersets_claims_and_keys() -> None:
    declared = only("""
        /// First line.
        /// Second line.
        set AccessedRegions($inst in MemAccesses, $at in Places($inst)) subsetof MemRegions, Things($inst):
          disjoint: Stack, Heap
          type = "Region"
          iterator = "$inst.regions"
          reverse forall $region in MemRegions = "$region.accesses"
          item_getter = "$inst"
        end
    """)
    assert isinstance(declared, syntax.Set)
    assert declared.doc == "First line.\nSecond line."
    assert [p.variable.name for p in declared.params] == ["inst", "at"]
    assert [s.name.text for s in declared.supersets] == ["MemRegions", "Things"]
    assert [n.text for n in declared.disjoint] == ["Stack", "Heap"]
    assert [k.name.text for k in declared.keys] == ["type", "iterator", "reverse", "item_getter"]
    reverse = declared.keys[2]
    assert reverse.binding is not None and reverse.binding.set.name.text == "MemRegions"
    assert declared.keys[1].host.span.text == "$inst.regions"


def test_a_set_may_stand_on_one_line() -> None:
    declared = only('set X: iterator = "$kernel.x" end')
    assert isinstance(declared, syntax.Set) and declared.keys[0].host.text == "$kernel.x"


def test_define_is_a_synonym_of_choice() -> None:
    assert isinstance(only("define enum c($a in S): value A: end"), syntax.EnumChoice)
    assert isinstance(only('define integer c($a in S): "$a.sizes" end'), syntax.IntegerChoice)
    assert isinstance(only("define counter c(): sum 1 when: end"), syntax.CounterChoice)


def test_an_enum_keeps_values_aliases_and_symmetry_in_order() -> None:
    declared = only("""
        choice enum order($lhs in S, $rhs in S):
          antisymmetric:
            BEFORE -> AFTER
            INNER -> OUTER
          /// Nested.
          value INNER: requires "$lhs.ok" requires forall $x in S: order($lhs, $x) is INNER | OUTER
          value OUTER:
          alias NESTED = INNER | OUTER: requires true
          symmetric
        end
    """)
    assert isinstance(declared, syntax.EnumChoice)
    kinds = [type(i).__name__ for i in declared.items]
    assert kinds == ["Antisymmetric", "Value", "Value", "Alias", "Symmetric"]
    inner = declared.items[1]
    assert isinstance(inner, syntax.Value) and inner.doc == "Nested." and len(inner.requires) == 2


@pytest.mark.parametrize("visibility", ["", "half", "internal"])
def test_a_counter_has_visibility_base_quantifiers_amount_and_conditions(visibility: str) -> None:
    declared = only(f"""
        choice {visibility} counter c($i in I):
          base "$i.base"
          forall $a in A: forall $b in B($a) where "$b.ok":
            mul size($b) when: kind($b) is LOOP
              "$a.ok"
        end
    """)
    assert isinstance(declared, syntax.CounterChoice)
    assert (declared.visibility.text if declared.visibility else "") == visibility
    assert isinstance(declared.base, syntax.Host)
    assert [f.where is not None for f in declared.foralls] == [False, True]
    assert declared.operation.text == "mul" and isinstance(declared.amount, syntax.Use)
    assert len(declared.conditions) == 2


def test_the_conditions_of_a_counter_may_be_empty() -> None:
    declared = only("choice counter c(): forall $d in D: mul size($d) when: end")
    assert isinstance(declared, syntax.CounterChoice) and declared.conditions == ()


def test_an_ordered_enum_is_a_chain_and_then_values_and_aliases() -> None:
    declared = only("""
        choice ordered enum site($s in Stages): ROOT < TASK < CHUNK
          alias SHALLOW = ROOT | TASK:
          value CHUNK: requires "$s.ok"
        end
    """)
    assert isinstance(declared, syntax.OrderedChoice)
    assert [n.text for n in declared.chain] == ["ROOT", "TASK", "CHUNK"]
    assert len(declared.items) == 2


def test_the_pipeline_space_of_the_design_parses() -> None:
    found = declarations("""
        set Stages: iterator = "$kernel.stages" end
        map host($s in Inner) in Stages = "$s.host"
        map task($s in Stages) in Slots = "$s.task"
        choice ordered enum site($s in Stages): ROOT < TASK < CHUNK < LANE < REG < INLINE end
        choice enum reduce($s in Updates): value SERIAL: value PARTIAL: value ATOMIC: value SHUFFLE: end
        quantity cap($s in Inner) = min("$s.cap",
            min $x in Between($s): (site($x) is INLINE ? REG : site($x)),
            site(host($s)) is INLINE ? cap(host($s)) : REG)
        quantity lo($b in Boxes) = site(stage($b)) < "$b.slot" ? 0 : min $r in Reads($b):
            (floor((sum $t in Terms($r): ("$t.pos" * lo(box($t)) - "$t.neg" * hi(box($t))))
                   + "$r.c", "$r.div"))
        quantity extent($b in Boxes) = max(1, hi($b) - lo($b) + 1)
        quantity trips($l in Loops) = site(stage($l)) < "$l.slot" ? ceil(extent(outer($l)), extent($l)) : 1
        quantity bytes($k in Slots) = "$k.item_bytes" * prod $b in BoxesAt($k): (extent($b))
        quantity shared($s in Stages) = case store($s) {TASK: bytes(task($s)), CHUNK | LANE: bytes(chunk($s)),
            else: 0} + sum $g in Guests($s): (site($g) is ROOT ? 0 : shared($g))
        require forall $s in Stages:
          "$s.inner" || site($s) is ROOT
          site($s) < TASK || store($s) >= TASK
          shared($s) <= "$device.shared_bytes" && lanes($s) <= "$device.max_threads"
        view depth1: site by ROOT, INLINE end
        ordering stagewise:
          for $s in Stages by "$s.from_output":
            site($s)
            tile($l) for $l in LoopsAt(reg($s))
            tile($l) for $l in LoopsAt(lane($s))
          end
        end
        ordering quick: dynamic smallest_domain end
    """)
    assert [type(d).__name__ for d in found] == (
        ["Set", "Map", "Map", "OrderedChoice", "EnumChoice"]
        + ["Quantity"] * 6
        + ["Require", "View", "Ordering", "Ordering"]
    )
    stagewise = found[-2]
    assert isinstance(stagewise, syntax.Ordering) and isinstance(stagewise.items, tuple)
    (major,) = stagewise.items
    assert isinstance(major, syntax.ObjectMajor) and major.by is not None
    assert [i.binding is not None for i in major.items if isinstance(i, syntax.Listed)] == [False, True, True]


def test_a_quantity_of_a_conditional_keeps_the_aggregate_as_its_last_branch() -> None:
    declared = only("""
        quantity hi($b in Boxes) = site(stage($b)) < "$b.slot" ? min(tile($b), extent(outer($b))) - 1
          : max $r in Reads($b): hi(box($r)) + "$r.offset"
    """)
    assert isinstance(declared, syntax.Quantity)
    body = declared.body
    assert isinstance(body, syntax.Conditional)
    assert isinstance(body.test, syntax.Compared) and isinstance(body.then, syntax.Total)
    assert isinstance(body.otherwise, syntax.Aggregate) and isinstance(body.otherwise.body, syntax.Total)


def test_a_quotient_has_a_condition_and_an_equivalence() -> None:
    declared = only("""
        quotient IterationDims($inst in Insts) of $dim in Dimensions:
          is_outer_dim = order($dim, $inst) is OUTER && "$dim.ok" / order is MERGED
          iterator = "$kernel.x"
        end
    """)
    assert isinstance(declared, syntax.Quotient)
    assert declared.representative.text == "is_outer_dim"
    assert isinstance(declared.condition, syntax.Both)
    assert declared.equivalence.choice.text == "order"
    assert [k.name.text for k in declared.keys] == ["iterator"]


def test_a_trigger_calls_the_backbone_when_a_condition_holds() -> None:
    declared = only("""
        trigger forall $lhs in Dimensions: forall $rhs in Dimensions:
          "$kernel.lower($lhs, $rhs)" when dim_mapping($lhs, $rhs) is NOT_MAPPED && "$lhs.id < $rhs.id"
    """)
    assert isinstance(declared, syntax.Trigger)
    assert len(declared.foralls) == 2 and isinstance(declared.condition, syntax.Both)


def test_conditions_under_one_prefix_each_begin_on_a_line() -> None:
    found = conditions("""forall $a in S: forall $b in S:
        c($a) is A || c($b) is not B | C
        "$a.x"
        "$b.y"
        (true || false)
        !(c($a) is A)
        2 < c($b)
    """)
    assert [type(c).__name__ for c in found] == ["Either", "Host", "Host", "Group", "Negated", "Compared"]


def test_a_line_that_begins_with_a_sign_or_an_operator_continues_the_condition() -> None:
    (found,) = conditions("size($a)\n + 1\n <= \n 4\n || c($a)\n is A")
    assert isinstance(found, syntax.Either)


def test_two_conditions_on_one_line_are_an_error_at_the_second() -> None:
    with pytest.raises(DiagnosticError) as caught:
        parse(Source("t", 'require "$a.x" "$a.y"'))
    (diagnostic,) = caught.value.diagnostics
    assert (diagnostic.code, diagnostic.span.text) == ("SP005", "$a.y")


def test_operators_bind_as_in_the_reference() -> None:
    found = condition("!a($x) is A && b($x) is B || c($x) is C => d($x) is D => e($x) is E")
    assert isinstance(found, syntax.Implies) and isinstance(found.right, syntax.Implies)
    assert isinstance(found.left, syntax.Either)
    first = found.left.operands[0]
    assert isinstance(first, syntax.Both) and isinstance(first.operands[0], syntax.Negated)


def test_both_sides_of_a_comparison_may_be_sums() -> None:
    found = condition('extent($p) >= 2 * extent($c) + "$p.halo" - 1')
    assert isinstance(found, syntax.Compared) and found.operator.text == ">="
    assert isinstance(found.right, syntax.Total)
    assert [sign for sign, _ in found.right.terms] == [1, 1, -1]
    assert isinstance(found.right.terms[0][1], syntax.Product)


def test_a_quantifier_may_have_a_filter() -> None:
    require = only('require forall $x in S where "$x.ok": true')
    assert isinstance(require, syntax.Require)
    assert require.foralls[0].where is not None and require.foralls[0].where.text == "$x.ok"


def test_comments_and_line_endings_are_blanks() -> None:
    text = '// one\r\nset A: /* two\n lines */ iterator = "x" // three ///\r\nend\r\n////// four\r\n'
    assert isinstance(only(text), syntax.Set)


def test_a_backslash_continues_a_string_and_keeps_every_place() -> None:
    declared = only('set A: iterator = "$kernel \\\n  .a" end')
    assert isinstance(declared, syntax.Set)
    host = declared.keys[0].host
    assert "\n" not in host.text and len(host.text) == host.span.end - host.span.start
    assert host.text.split() == ["$kernel", ".a"]


def test_a_use_may_have_maps_as_arguments() -> None:
    found = condition("site(host($s)) is A")
    assert isinstance(found, syntax.OneOf) and isinstance(found.subject, syntax.Use)
    (argument,) = found.subject.args
    assert isinstance(argument, syntax.Use) and argument.name.text == "host"


def test_the_span_of_a_declaration_runs_from_its_first_to_its_last_word() -> None:
    declared = only('  set A: iterator = "x" end  ')
    assert declared.span.text == 'set A: iterator = "x" end'


def test_a_set_may_have_a_name_of_one_capital() -> None:
    declared = only('set S($x in T) subsetof U: iterator = "x" end')
    assert isinstance(declared, syntax.Set) and declared.name.text == "S"


def test_an_empty_file_is_a_file() -> None:
    assert declarations("") == ()
    assert declarations("// nothing\n") == ()
