"""The listings of section 3 and 4 of the paper, with what they leave out filled in and their slips mended.

Errata, by listing (Beaugnon et al., "On the Representation of Partially Specified Implementations"):

1   `AccessedRegions` is parametrised by `MemAccess`; the set is called `MemAccesses`. Its body is left out.
2   A comment stands between a value's colon and the next line, which is no slip: comments are blanks.
5   `when` has no colon; the string says `gpu` and means `$device`; `MemBlocks` is not declared.
6   `num_threads` is a sum and must be a product; the enum `fused` is left out.
7   `of $dim Dimensions` lacks its `in`; `Insts` is called `Instructions` before. Bodies are left out.
10  `StaticDims` and the others have no bodies.
11  `cache` and `AccessedRegions` are declared again, over `MemInsts` in place of `MemAccesses`.
13  `is_thread_dim = dim_kind($d)` does not say which kind; the name is that of listing 6.

Listings 8 and 12 are pseudo-code. Each group of listings that fit together is a space of its own.
"""

SETS = """
set Instructions:
  type = "Instruction"
  iterator = "$fun.instructions"
  item_getter = "$fun.instruction($id)"
end

set MemAccesses subsetof Instructions:
  type = "MemAccess"
  iterator = "$fun.mem_accesses"
end

set MemRegions: iterator = "$fun.regions" end

set AccessedRegions($inst in MemAccesses) subsetof MemRegions:
  iterator = "$inst.regions"
end

choice enum cache($inst in MemAccesses):
  value L1:
  // Use L1+L2 caches
  value L2: // Use L2 cache
  value READ_ONLY: // Use read-only cache
  value NONE:
  // Do not use caches
end

choice enum order($lhs in Instructions,
                  $rhs in Instructions):
  value BEFORE:
  value AFTER:
  antisymmetric:
    BEFORE -> AFTER
end

require forall $a in Instructions:
  forall $b in Instructions:
    forall $c in Instructions:
      order($a, $c) is AFTER
      || order($a, $b) is not AFTER
      || order($b, $c) is not AFTER
"""
"""Listings 1 to 4."""

COUNTERS = """
set MemBlocks: iterator = "$fun.mem_blocks" end
set Dimensions: iterator = "$fun.dimensions" end
choice enum mem_space($mem_block in MemBlocks): value LOCAL: value GLOBAL: end
choice enum dim_kind($dim in Dimensions): value LOOP: value THREAD: end
choice integer size($dim in Dimensions): "$dim.possible_sizes()" end

choice counter local_mem():
  forall $mem_block in MemBlocks:
    sum "$mem_block.size()" when:
      mem_space($mem_block) is LOCAL
end

require local_mem() < "$device.local_mem_size"

choice enum fused($lhs in Dimensions,
                  $rhs in Dimensions):
  symmetric
  value TRUE:
  value FALSE:
end

quotient ThreadDims of $dim in Dimensions:
  is_thread_dim = dim_kind($dim) is THREAD
  / fused is TRUE
end

choice counter num_threads():
  forall $dim in Dimensions:
    mul size($dim) when:
      is_thread_dim($dim) is TRUE
end

require forall $dim in Dimensions: size($dim) <= "$dim.max_size"
require forall $dim in Dimensions: "$dim.is_vectorizable" || dim_kind($dim) is not THREAD
"""
"""Listings 5 and 6, and the examples of the text around them."""

GPU = """
set Statements: iterator = "$kernel.statements" end
set Insts subsetof Statements: disjoint: Dimensions iterator = "$kernel.insts" end
set Dimensions subsetof Statements: iterator = "$kernel.dims" end

choice enum order($lhs in Statements,
                 $rhs in Statements):
  // $lhs is executed before $rhs
  value BEFORE:
  // $rhs is executed before $lhs
  value AFTER:
  // $lhs is nested inside $rhs
  value INNER:
  // $rhs is nested inside $lhs
  value OUTER:
  // $lhs and $rhs are fused dimensions
  value MERGED:
  antisymmetric:
    BEFORE -> AFTER
    INNER -> OUTER
end

quotient IterationDims($inst in Insts)
of $dim in Dimensions:
  is_outer_dim = order($dim, $inst) is
  OUTER / order is MERGED
end

choice enum dim_kind($dim in Dimensions):
  // $dim is a regular for loop.
  value LOOP:
  // $dim is a hardware block dimension.
  value BLOCK:
  // $dim is a hardware thread dimension.
  value THREAD:
  // $dim is totally unrolled.
  value UNROLL:
  // $dim is vectorized.
  value VECTOR:
end

set StaticDims subsetof Dimensions: iterator = "$kernel.static_dims" end

choice integer size($dim in StaticDims):
  "$dim.possible_sizes()"
end

set LogicalDims: iterator = "$kernel.logical_dims" end
set TilingDims($logical in LogicalDims)
  subsetof StaticDims: iterator = "$logical.tiling_dims" end
set TiledDim($logical in LogicalDims)
  subsetof Dimensions: iterator = "$logical.tiled_dim" end

set MemRegions: iterator = "$kernel.regions" end
set MemInsts subsetof Insts: iterator = "$kernel.mem_insts" end
set AccessedRegions($mem in MemInsts): iterator = "$mem.regions" end

choice enum mem_space($mem in MemRegions):
  // $mem is stored in RAM.
  value GLOBAL:
  // $mem is stored in the memory shared
  // by a group of threads.
  value SHARED:
end

choice enum cache($inst in MemInsts):
  value L1: value L2: value READ_ONLY: value NONE:
end

choice enum thread_level($x in StaticDims,
                        $y in StaticDims):
  // maps $x and $y to the same level.
  value MAPPED:
  // maps $x to an inner level than $y.
  value INNER:
  // maps $y to an inner level than $x.
  value OUTER:
  // $x or $y is not a thread dimension.
  value NOT_THREADS:
  antisymmetric: INNER -> OUTER
end

quotient HwThreadDims of $d in StaticDims:
  is_thread_dim = dim_kind($d) is THREAD
  / thread_level is MAPPED
end
"""
"""Listings 7, 9, 10, 11 and 13."""
