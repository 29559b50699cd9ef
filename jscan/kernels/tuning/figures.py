"""The figures of a kind of device."""

from __future__ import annotations

import dataclasses

from jscan.kernels.tuning.cut import Rule


@dataclasses.dataclass(frozen=True)
class Device:
    """The figures of a device kind from which cuts are chosen."""

    processors: int  # multiprocessors

    # Rows that several programs share, where neighbours along the axis are neighbours in memory.
    few: tuple[Rule, ...]  # tiles where full ones would leave multiprocessors idle
    full: tuple[Rule, ...]  # tiles for more elements than that; the last rule always holds
    many_rows: int  # so many rows keep the device busy by themselves

    # Rows that several programs share, on any other axis.
    lane_elements: int  # elements of a tile, where each has 4 bytes

    # Rows that fit a tile.
    block_bytes: int  # the largest tile
    block_elements: int  # elements that make a program worth its launch, where there are many
    block_programs: int  # fewer programs than this leave multiprocessors idle

    # Reductions and two passes.
    programs: int  # so many programs that walk strips keep the device busy
    strip_elements: int  # elements of a reduction's strip, where each has 4 bytes
    two_passes: tuple[int, int]  # more elements than this, and those that the cache holds

    def resized(self, processors: int) -> Device:
        """A device of the same make with so many multiprocessors.

        How many elements and programs fill a device follows from their number. The size of a tile
        does not: it follows from the registers of one, of which all devices have 256 KiB.
        """

        def share(count: int) -> int:
            return count * processors // self.processors

        few = [
            rule
            if rule.elements is None
            else dataclasses.replace(rule, elements=share(rule.elements))
            for rule in self.few
        ]
        least, most = self.two_passes
        return dataclasses.replace(
            self,
            processors=processors,
            few=tuple(few),
            many_rows=share(self.many_rows),
            block_programs=share(self.block_programs),
            programs=share(self.programs),
            two_passes=(share(least), share(most)),
        )
