"""What is public: every name, with the text of its signature.

A change here is a change of what people call: CHANGELOG.md says so, too.
"""

from __future__ import annotations

SIGNATURES = {
    "jscan.SegmentPlan": "class",
    "jscan.Segments": "class",
    "jscan.associative_scan": (
        "(fn: 'Callable[[Any, Any], Any]', elems: 'Any', reverse: 'bool' = False, "
        "axis: 'int' = 0, *, exclusive: 'bool' = False, identity: 'Any' = None, "
        "init: 'Any' = None, segments: 'Any' = None, axis_name: 'Any' = None, "
        "method: 'str' = 'auto') -> 'Any'"
    ),
    "jscan.csr_matmat": (
        "(values: 'Any', indices: 'Any', offsets: 'Any', x: 'Any', *, "
        "operators: 'str' = 'sum-product', transpose: 'bool' = False, "
        "length: 'int | None' = None) -> 'jax.Array'"
    ),
    "jscan.csr_matvec": (
        "(values: 'Any', indices: 'Any', offsets: 'Any', x: 'Any', *, "
        "operators: 'str' = 'sum-product', transpose: 'bool' = False, "
        "length: 'int | None' = None) -> 'jax.Array'"
    ),
    "jscan.cumlogsumexp": (
        "(x: 'Any', axis: 'int' = 0, reverse: 'bool' = False, *, "
        "exclusive: 'bool' = False, init: 'Any' = None, segments: 'Any' = None, "
        "axis_name: 'Any' = None, method: 'str' = 'auto') -> 'jax.Array'"
    ),
    "jscan.cummax": (
        "(x: 'Any', axis: 'int' = 0, reverse: 'bool' = False, *, "
        "exclusive: 'bool' = False, init: 'Any' = None, segments: 'Any' = None, "
        "axis_name: 'Any' = None, method: 'str' = 'auto') -> 'jax.Array'"
    ),
    "jscan.cummin": (
        "(x: 'Any', axis: 'int' = 0, reverse: 'bool' = False, *, "
        "exclusive: 'bool' = False, init: 'Any' = None, segments: 'Any' = None, "
        "axis_name: 'Any' = None, method: 'str' = 'auto') -> 'jax.Array'"
    ),
    "jscan.cumprod": (
        "(x: 'Any', axis: 'int' = 0, reverse: 'bool' = False, *, "
        "exclusive: 'bool' = False, init: 'Any' = None, segments: 'Any' = None, "
        "axis_name: 'Any' = None, method: 'str' = 'auto') -> 'jax.Array'"
    ),
    "jscan.cumsum": (
        "(x: 'Any', axis: 'int' = 0, reverse: 'bool' = False, *, "
        "exclusive: 'bool' = False, init: 'Any' = None, segments: 'Any' = None, "
        "axis_name: 'Any' = None, method: 'str' = 'auto', precise: 'bool' = False) -> 'jax.Array'"
    ),
    "jscan.distribute": (
        "(x: 'Any', axis: 'int' = 0, *, segments: 'Any' = None, reverse: 'bool' = False) -> 'Any'"
    ),
    "jscan.engine": (
        "(name: 'str | None' = None) -> 'Choice | contextlib.AbstractContextManager[None]'"
    ),
    "jscan.enumerate": (
        "(mask: 'Any', axis: 'int' = 0, *, reverse: 'bool' = False, "
        "segments: 'Any' = None) -> 'jax.Array'"
    ),
    "jscan.histogram": "(keys: 'Any', length: 'int') -> 'jax.Array'",
    "jscan.linear_recurrence": (
        "(a: 'Any', b: 'Any', h0: 'Any' = None, *, axis: 'int' = 0, "
        "reverse: 'bool' = False, exclusive: 'bool' = False, segments: 'Any' = None, "
        "axis_name: 'Any' = None, method: 'str' = 'auto') -> 'jax.Array'"
    ),
    "jscan.matrix_recurrence": (
        "(A: 'Any', b: 'Any', h0: 'Any' = None, *, axis: 'int' = 0, "
        "reverse: 'bool' = False, segments: 'Any' = None, axis_name: 'Any' = None, "
        "form: 'str' = 'full', method: 'str' = 'auto') -> 'jax.Array'"
    ),
    "jscan.networks": "module",
    "jscan.nonzero": (
        "(mask: 'Any', *, size: 'int', fill_value: 'Any' = 0) -> 'tuple[jax.Array, ...]'"
    ),
    "jscan.operators": "module",
    "jscan.pack": (
        "(x: 'Any', mask: 'Any', *, size: 'int | None' = None, fill_value: 'Any' = 0) -> 'Any'"
    ),
    "jscan.partition": "(x: 'Any', signs: 'Any', axis: 'int' = 0) -> 'tuple[Any, jax.Array]'",
    "jscan.reduce": (
        "(fn: 'Callable[[Any, Any], Any]', elems: 'Any', axis: 'int' = 0, *, "
        "identity: 'Any' = None, segments: 'Any' = None, "
        "num_segments: 'int | None' = None, axis_name: 'Any' = None, "
        "method: 'str' = 'auto') -> 'Any'"
    ),
    "jscan.run_length_decode": (
        "(values: 'Any', lengths: 'Any', *, size: 'int', fill_value: 'Any' = 0) -> 'jax.Array'"
    ),
    "jscan.run_length_encode": (
        "(x: 'Any', *, size: 'int') -> 'tuple[jax.Array, jax.Array, jax.Array]'"
    ),
    "jscan.segment_argmax": (
        "(data: 'Any', segment_ids: 'Any', num_segments: 'int | None' = None, "
        "indices_are_sorted: 'bool' = False, *, method: 'str' = 'auto') -> 'jax.Array'"
    ),
    "jscan.segment_argmin": (
        "(data: 'Any', segment_ids: 'Any', num_segments: 'int | None' = None, "
        "indices_are_sorted: 'bool' = False, *, method: 'str' = 'auto') -> 'jax.Array'"
    ),
    "jscan.segment_logsumexp": (
        "(data: 'Any', segment_ids: 'Any', num_segments: 'int | None' = None, "
        "indices_are_sorted: 'bool' = False, *, method: 'str' = 'auto') -> 'jax.Array'"
    ),
    "jscan.segment_max": (
        "(data: 'Any', segment_ids: 'Any', num_segments: 'int | None' = None, "
        "indices_are_sorted: 'bool' = False, unique_indices: 'bool' = False, "
        "bucket_size: 'int | None' = None, "
        "mode: 'jax.lax.GatherScatterMode | str | None' = None, "
        "out_sharding: 'Any' = None, *, axis_name: 'Any' = None, "
        "method: 'str' = 'auto') -> 'jax.Array'"
    ),
    "jscan.segment_mean": (
        "(data: 'Any', segment_ids: 'Any', num_segments: 'int | None' = None, "
        "indices_are_sorted: 'bool' = False, *, method: 'str' = 'auto') -> 'jax.Array'"
    ),
    "jscan.segment_min": (
        "(data: 'Any', segment_ids: 'Any', num_segments: 'int | None' = None, "
        "indices_are_sorted: 'bool' = False, unique_indices: 'bool' = False, "
        "bucket_size: 'int | None' = None, "
        "mode: 'jax.lax.GatherScatterMode | str | None' = None, "
        "out_sharding: 'Any' = None, *, axis_name: 'Any' = None, "
        "method: 'str' = 'auto') -> 'jax.Array'"
    ),
    "jscan.segment_norm": (
        "(data: 'Any', segment_ids: 'Any', num_segments: 'int | None' = None, "
        "indices_are_sorted: 'bool' = False, *, method: 'str' = 'auto') -> 'jax.Array'"
    ),
    "jscan.segment_prod": (
        "(data: 'Any', segment_ids: 'Any', num_segments: 'int | None' = None, "
        "indices_are_sorted: 'bool' = False, unique_indices: 'bool' = False, "
        "bucket_size: 'int | None' = None, "
        "mode: 'jax.lax.GatherScatterMode | str | None' = None, "
        "out_sharding: 'Any' = None, *, axis_name: 'Any' = None, "
        "method: 'str' = 'auto') -> 'jax.Array'"
    ),
    "jscan.segment_softmax": (
        "(data: 'Any', segment_ids: 'Any', num_segments: 'int | None' = None, "
        "indices_are_sorted: 'bool' = False, *, method: 'str' = 'auto') -> 'jax.Array'"
    ),
    "jscan.segment_sort": (
        "(data: 'Any', segment_ids: 'Any', num_segments: 'int | None' = None, "
        "indices_are_sorted: 'bool' = False, *, payload: 'Any' = None) -> 'Any'"
    ),
    "jscan.segment_sum": (
        "(data: 'Any', segment_ids: 'Any', num_segments: 'int | None' = None, "
        "indices_are_sorted: 'bool' = False, unique_indices: 'bool' = False, "
        "bucket_size: 'int | None' = None, "
        "mode: 'jax.lax.GatherScatterMode | str | None' = None, "
        "out_sharding: 'Any' = None, *, axis_name: 'Any' = None, "
        "method: 'str' = 'auto', precise: 'bool' = False) -> 'jax.Array'"
    ),
    "jscan.segment_top_k": (
        "(data: 'Any', segment_ids: 'Any', num_segments: 'int | None' = None, "
        "indices_are_sorted: 'bool' = False, *, k: 'int') -> 'tuple[jax.Array, jax.Array]'"
    ),
    "jscan.split": "(x: 'Any', mask: 'Any', axis: 'int' = 0) -> 'Any'",
    "jscan.split_and_segment": (
        "(x: 'Any', mask: 'Any', segments: 'Any', axis: 'int' = 0) -> 'tuple[Any, Segments]'"
    ),
    "jscan.tridiagonal_solve": (
        "(dl: 'Any', d: 'Any', du: 'Any', b: 'Any', *, axis: 'int' = 0, "
        "periodic: 'bool' = False) -> 'jax.Array'"
    ),
    "jscan.triton_source": (
        "(fn: 'Callable[..., Any]', /, *args: 'Any', ptx: 'bool' = False, **kwargs: 'Any') -> 'str'"
    ),
    "jscan.unique_sorted": (
        "(x: 'Any', *, size: 'int', fill_value: 'Any' = 0) -> 'tuple[jax.Array, jax.Array]'"
    ),
    "jscan.networks.brent_kung": (
        "(fn: 'Callable[[Any, Any], Any]', elems: 'Any', axis: 'int' = 0, *, "
        "reverse: 'bool' = False) -> 'Any'"
    ),
    "jscan.networks.depth": (
        "(network: 'Callable[..., Any]', n: 'int', *, slack: 'int' = 0) -> 'int'"
    ),
    "jscan.networks.han_carlson": (
        "(fn: 'Callable[[Any, Any], Any]', elems: 'Any', axis: 'int' = 0, *, "
        "reverse: 'bool' = False) -> 'Any'"
    ),
    "jscan.networks.hockney_jesshope": (
        "(fn: 'Callable[[Any, Any], Any]', elems: 'Any', axis: 'int' = 0, *, "
        "reverse: 'bool' = False) -> 'Any'"
    ),
    "jscan.networks.kogge_stone": (
        "(fn: 'Callable[[Any, Any], Any]', elems: 'Any', axis: 'int' = 0, *, "
        "reverse: 'bool' = False) -> 'Any'"
    ),
    "jscan.networks.ladner_fischer": (
        "(fn: 'Callable[[Any, Any], Any]', elems: 'Any', axis: 'int' = 0, *, "
        "reverse: 'bool' = False, slack: 'int' = 0) -> 'Any'"
    ),
    "jscan.networks.levels": (
        "(network: 'Callable[..., Any]', n: 'int', *, slack: 'int' = 0) -> 'list[wires.Level]'"
    ),
    "jscan.networks.size": (
        "(network: 'Callable[..., Any]', n: 'int', *, slack: 'int' = 0) -> 'int'"
    ),
    "jscan.networks.sklansky": (
        "(fn: 'Callable[[Any, Any], Any]', elems: 'Any', axis: 'int' = 0, *, "
        "reverse: 'bool' = False) -> 'Any'"
    ),
    "jscan.operators.Affine": (
        "class(name: 'str', combine: 'Callable[[jax.Array, jax.Array], jax.Array]', "
        "neutral: 'Callable[[np.dtype], Any]') -> None"
    ),
    "jscan.operators.Operator": (
        "class(name: 'str', combine: 'Callable[[jax.Array, jax.Array], jax.Array]', "
        "neutral: 'Callable[[np.dtype], Any]') -> None"
    ),
    "jscan.operators.add": "Operator 'add'(a: 'Any', b: 'Any') -> 'Any'",
    "jscan.operators.affine": "Affine 'affine'(a: 'Any', b: 'Any') -> 'Any'",
    "jscan.operators.bitwise_and": "Operator 'bitwise_and'(a: 'Any', b: 'Any') -> 'Any'",
    "jscan.operators.bitwise_or": "Operator 'bitwise_or'(a: 'Any', b: 'Any') -> 'Any'",
    "jscan.operators.bitwise_xor": "Operator 'bitwise_xor'(a: 'Any', b: 'Any') -> 'Any'",
    "jscan.operators.logaddexp": "Operator 'logaddexp'(a: 'Any', b: 'Any') -> 'Any'",
    "jscan.operators.max": "Operator 'max'(a: 'Any', b: 'Any') -> 'Any'",
    "jscan.operators.min": "Operator 'min'(a: 'Any', b: 'Any') -> 'Any'",
    "jscan.operators.mul": "Operator 'mul'(a: 'Any', b: 'Any') -> 'Any'",
    "jscan.Segments.flags": "property(self) -> 'jax.Array'",
    "jscan.Segments.from_flags": "classmethod(cls, flags: 'Any') -> 'Segments'",
    "jscan.Segments.from_ids": "classmethod(cls, ids: 'Any') -> 'Segments'",
    "jscan.Segments.from_lengths": (
        "classmethod(cls, lengths: 'Any', total: 'int | None' = None) -> 'Segments'"
    ),
    "jscan.Segments.from_offsets": (
        "classmethod(cls, offsets: 'Any', total: 'int | None' = None) -> 'Segments'"
    ),
    "jscan.Segments.from_packed": ("classmethod(cls, words: 'Any', total: 'int') -> 'Segments'"),
    "jscan.Segments.ids": "property(self) -> 'jax.Array'",
    "jscan.Segments.lengths": "(self, num_segments: 'int | None' = None) -> 'jax.Array'",
    "jscan.Segments.num_segments": "property(self) -> 'int | None'",
    "jscan.Segments.offsets": "(self, num_segments: 'int | None' = None) -> 'jax.Array'",
    "jscan.Segments.packed": "(self, dtype: 'Any' = <class 'numpy.uint32'>) -> 'jax.Array'",
    "jscan.Segments.tree_flatten": ("(self) -> 'tuple[tuple[Any, ...], tuple[str, int | None]]'"),
    "jscan.Segments.tree_unflatten": (
        "classmethod(cls, aux: 'tuple[str, int | None]', children: 'tuple[Any, ...]') -> 'Segments'"
    ),
    "jscan.SegmentPlan.gather": "(self, values: 'Any') -> 'jax.Array'",
    "jscan.SegmentPlan.ids": "property(self) -> 'jax.Array'",
    "jscan.SegmentPlan.num_segments": "property(self) -> 'int'",
    "jscan.SegmentPlan.tree_flatten": "(self) -> 'tuple[Parts, int]'",
    "jscan.SegmentPlan.tree_unflatten": (
        "classmethod(cls, num_segments: 'int', parts: 'Any') -> 'SegmentPlan'"
    ),
    "jscan.operators.Affine.identities": ("(self, dtypes: 'Sequence[Any]') -> 'tuple[Any, ...]'"),
    "jscan.operators.Affine.identity": "(self, dtype: 'Any') -> 'tuple[Any, Any]'",
    "jscan.operators.Affine.takes": "(self, dtype: 'Any') -> 'bool'",
    "jscan.operators.Operator.identities": ("(self, dtypes: 'Sequence[Any]') -> 'tuple[Any, ...]'"),
    "jscan.operators.Operator.identity": "(self, dtype: 'Any') -> 'Any'",
    "jscan.operators.Operator.takes": "(self, dtype: 'Any') -> 'bool'",
}
