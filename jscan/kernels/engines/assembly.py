"""Instructions that no compiler finds by itself, the same for all engines."""

from __future__ import annotations

MARKED = (
    "and.b32 t, $4, 0x7f7f7f7f; add.u32 t, t, 0x7f7f7f7f; or.b32 t, t, $4; "
    "and.b32 t, t, 0x80808080;"
)
"""The highest bit of each byte of ``t``, and no other, is set where the byte of $4 is not zero.

The sum of two numbers of seven bits carries into the eighth bit unless the first is zero, and not
into the next byte.
"""
NEGATIVE = "and.b32 t, $4, 0x80808080;"
"""The same where the byte is negative."""
UNKNOWN = "{ .reg .b32 t; mov.u32 t, %lanemask_lt; and.b32 t, t, 0x80000000; or.b32 $0, $1, t; }"
"""$1 as it is: of the 32 lanes none is behind the last."""
KINDS = "=r,=r,=r,=r,r"
FUNNEL_KINDS = "=r,r,r,r"


def count_bytes(*, negative: bool) -> str:
    """Of the four bytes of $4 how many are not zero, or ``negative``; then zero three times."""
    found = NEGATIVE if negative else MARKED
    rest = " ".join(f"mov.b32 ${place}, 0;" for place in (1, 2, 3))
    return f"{{ .reg .b32 t; {found} popc.b32 $0, t; {rest} }}"


def spread_signs(bits: int) -> str:
    """The sign of each byte, or half, of $1 in all of its bytes."""
    return f"prmt.b32 $0, $1, 0, {'0xba98' if bits == 8 else '0xbb99'};"


def funnel(*, left: bool) -> str:
    """32 bits of $2:$1, moved by $3 of them."""
    return f"shf.{'l' if left else 'r'}.wrap.b32 $0, $1, $2, $3;"
