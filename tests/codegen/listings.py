"""Decision scripts that several tests lower."""

from __future__ import annotations

MATMUL_SCALAR = """
    i0 L {m}
      j0 L {n}
        init
        p0 L {k}
          load_A
          load_B
          fma
        store_C
"""
"""For matmul with untiled indices."""

MATMUL_TILED = """
    i0 P {i0}
      j0 L {j0}
        i1 L {i1}
          i2 U 8
            j1 U 2
              j2 V 16
                init
          p0 L {k}
            i2 U 8
              load_A
            j1 U 2
              j2 V 16
                load_B
            i2 U 8
              j1 U 2
                j2 V 16
                  fma
          i2 U 8
            j1 U 2
              j2 V 16
                store_C
"""
"""For matmul with i in three levels and j in three; an 8 x 2 tile of vectors of 16 in registers."""

AXPY_VECTOR = """
    i0 P {i0}
      i1 L {i1}
        i2 V 16
          load_x
        i2 V 16
          load_y
        i2 V 16
          fma
        i2 V 16
          store_z
"""

DOT_PARALLEL = """
    init
    p0 P {p0}
      p1 L {p1}
        p2 V 8
          load_x
        p2 V 8
          load_y
        p2 V 8
          fma
    store_s
"""

DOT_SPLIT = """
    init
    p0 {kind} {p0}
      p1 U {p1}
        p2 V 8
          load_x
        p2 V 8
          load_y
        p2 V 8
          fma split
    store_s
"""
"""For dot with p in three levels."""

MATMUL_ANY = """
    i0 P *
      j0 {j0} *
        i1 L 8
          j1 L 4
            i2 U 8
              j2 U 2
                j3 V 16
                  init
            p0 {p0} *
              p1 L 8
                i2 U 8
                  load_A
                j2 U 2
                  j3 V 16
                    load_B
                i2 U 8
                  j2 U 2
                    j3 V 16
                      fma
            i2 U 8
              j2 U 2
                j3 V 16
                  store_C
"""
"""For matmul of any size from 768 on that is tiled as the product infers it; `j0` and `p0` are L or G."""

MATMUL_COPIED = """
    j0 P {j0}
      p0 L {p0}
        p1 L {p1}
          j1 U 2
            j2 V 16
              load_B
      i0 L {i0}
        i1 U 4
          j1 U 2
            j2 V 16
              init
        p0 L {p0}
          p1 U {p1}
            i1 U 4
              load_A
            j1 U 2
              j2 V 16
                reload_B
            i1 U 4
              j1 U 2
                j2 V 16
                  fma
        i1 U 4
          j1 U 2
            j2 V 16
              store_C
"""
"""For matmul with i in two levels, j in three, p in two: each thread copies the part of B that it needs."""

MATMUL_TWICE = """
    j0 P {j0}
      i0 L {i0}
        i1 U 4
          j1 U 2
            j2 V 16
              init
        p0 L {p0}
          p1 U 2
            i1 U 4
              load_A
            j1 U 2
              j2 V 16
                load_B
            i1 U 4
              j1 U 2
                j2 V 16
                  fma
        i1 U 4
          j1 U 2
            j2 V 16
              store_C
"""
"""For matmul with i and p in two levels, j in three: what is read of B is read again for each i0."""
