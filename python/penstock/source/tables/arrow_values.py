"""Arrow's values in the forms that batches hold: arrays of numbers, large_string, large_binary, and large_list of these.

Arrow has many layouts for one value: views, dictionaries, runs, lists with 32-bit offsets, extension types. They are taken apart level
by level, since its own casts between them are missing or wrong in places (list_view to list, views in dictionaries).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.columns.default_values import check_default, held_number
from penstock.core.columns.repeated_values import repeated, stays_apart
from penstock.core.columns.spec import Field, Ids, is_bytes, is_list, is_text, unwrapped_type
from penstock.core.errors import RowError

#: What is wrong with a row without a value.
NULL, _NULL_INSIDE = "is null", "has a null in a list"
#: float64 holds every whole number up to this exactly.
_EXACT = 1 << 53
_HEX = np.array([f"{byte:02x}" for byte in range(256)], dtype="S2")
#: Where the dashes of a UUID's text stand, and where its digits do.
_DASHES = [8, 13, 18, 23]
_DIGITS = np.delete(np.arange(36), _DASHES)


@dataclass(frozen=True, kw_only=True)
class WantedColumn:
    """What a column becomes. default: what stands for null; asked: whether the user chose the dtype, so that numbers may be rounded.

    keeps_repeated: whether large columns of text that repeats may stay as `core.columns.repeated_values` has them.
    """

    field: Field
    default: Any = None
    asked: bool = False
    keeps_repeated: bool = False

    @property
    def inner(self) -> WantedColumn:
        """The same of the values in its lists."""
        return replace(self, field=replace(self.field, shape=self.field.shape[1:]))


def held(array: pa.Array, wanted: WantedColumn) -> npt.NDArray[Any] | pa.Array:
    """The values as batches hold them.

    Raises RowError for the first null without a default, list of another length or whole number that would lose digits; pyarrow's
    errors for values that the dtype cannot hold.
    """
    if wanted.keeps_repeated and (kept := _repeated(array, wanted)) is not None:
        return kept
    made = _nested(array, wanted)
    if not wanted.field.is_fixed:
        return made
    for _ in wanted.field.shape:
        made = made.flatten()
    numbers = np.ascontiguousarray(made.to_numpy(zero_copy_only=False))
    return numbers.reshape(len(array), *(axis or 0 for axis in wanted.field.shape))


def _repeated(array: pa.Array, wanted: WantedColumn) -> pa.Array | None:
    """Text of a dictionary, or of runs, with each value once; None if it is neither, or small."""
    is_text_column = wanted.field.shape == () and wanted.field.dtype in ("string", "bytes")
    if not is_text_column or not (pa.types.is_dictionary(array.type) or pa.types.is_run_end_encoded(array.type)):
        return None
    stored, numbers = _apart_of_repeated(array)
    values = unwrapped(stored, wanted.field.dtype)
    null = values.is_null().to_numpy(zero_copy_only=False)
    is_null = numbers < 0
    is_null[~is_null] = null[numbers[~is_null]]
    if is_null.any() and wanted.field.nullable:
        numbers = np.where(is_null, -1, numbers)
    elif is_null.any():
        if wanted.default is None:
            raise RowError(int(np.argmax(is_null)), NULL)
        numbers = np.where(is_null, len(values), numbers)
        values = pa.concat_arrays([values, pa.array([wanted.default], values.type)])
    if pa.types.is_null(values.type) or not (is_text(values.type) or is_bytes(values.type)):
        return None
    if not stays_apart(numbers, values):
        return None
    return repeated(numbers, _numbers_or_text(pc.fill_null(values, b"" if is_bytes(values.type) else ""), wanted))


def _apart_of_repeated(array: pa.Array) -> tuple[pa.Array, Ids]:
    """The values of a dictionary or of runs, and the number of each row's; -1 for null."""
    if pa.types.is_dictionary(array.type):
        numbers = pc.fill_null(array.indices.cast(pa.int64()), -1)
        return array.dictionary, numbers.to_numpy(zero_copy_only=False)
    ends, values = _runs_of(array)
    return values, np.searchsorted(ends.to_numpy(zero_copy_only=False), np.arange(len(array)), side="right")


def _nested(array: pa.Array, wanted: WantedColumn) -> pa.Array:
    """Lists as large_list where they are of any length, as fixed_size_list where they are not."""
    array = _without_nulls(unwrapped(array, wanted.field.dtype), wanted)
    if not wanted.field.shape:
        return _numbers_or_text(array, wanted)
    if not is_list(array.type):
        raise pa.ArrowInvalid(f"{array.type} is no list")
    axis = wanted.field.shape[0]
    mask = array.is_null() if wanted.field.nullable and array.null_count else None
    if axis is None:
        offsets, values = apart(array)
        return pa.LargeListArray.from_arrays(offsets, _inside(array, values, wanted), mask=mask)
    if mask is not None:
        array = _filled(array, mask, axis)
    _check_lengths(array, wanted.field)
    values = _inside(array, array.flatten() if len(array) else pa.array([], array.type.value_type), wanted)
    return pa.FixedSizeListArray.from_arrays(values, axis, mask=mask) if axis else _empty_lists(len(array), values.type)


def _filled(lists: pa.Array, null: pa.Array, length: int) -> pa.Array:
    """Lists of one length, of nulls where there is none."""
    offsets, values = apart(lists)
    begins, missing = offsets.to_numpy()[:-1], null.to_numpy(zero_copy_only=False)
    lengths = np.where(missing, length, np.diff(offsets.to_numpy()))
    ends = np.cumsum(lengths)
    inside = np.arange(int(ends[-1])) - np.repeat(ends - lengths, lengths)
    taken = np.repeat(begins, lengths) + inside
    picked = values.take(pa.array(taken, mask=np.repeat(missing, lengths)))
    return pa.LargeListArray.from_arrays(pa.array(np.append(0, ends)), picked)


def _inside(lists: pa.Array, values: pa.Array, wanted: WantedColumn) -> pa.Array:
    """The values of lists; RowError names the list."""
    try:
        return _nested(values, wanted.inner)
    except RowError as error:
        row = int(np.searchsorted(apart(lists)[0].to_numpy(), error.row, side="right")) - 1
        raise RowError(row, _NULL_INSIDE if error.found == NULL else error.found, error.do) from None


def _empty_lists(rows: int, kind: pa.DataType) -> pa.Array:
    return pa.array([[]] * rows, pa.list_(kind, 0))


def _check_lengths(lists: pa.Array, field: Field) -> None:
    """RowError for the first list that is not as long as the field's first axis."""
    wanted = field.shape[0]
    if pa.types.is_fixed_size_list(lists.type) and lists.type.list_size == wanted:
        return
    lengths = np.diff(apart(lists)[0].to_numpy())
    if (bad := np.flatnonzero(lengths != wanted)).size:
        raise RowError(
            int(bad[0]),
            f"has a list of {lengths[bad[0]]} values where {field} is wanted",
            "give the column a shape of (None,) to take lists of any length",
        )


def apart(lists: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Where each list begins in the values of all, as int64 from 0, and these values; a null is an empty list."""
    kind = lists.type
    if not len(lists):  # its buffers may be missing
        return pa.array([0], pa.int64()), pa.array([], kind.value_type)
    values = lists.flatten()
    if pa.types.is_fixed_size_list(kind) and not lists.null_count:
        return pa.array(np.arange(len(lists) + 1, dtype=np.int64) * kind.list_size), values
    if (pa.types.is_list(kind) or pa.types.is_large_list(kind)) and not lists.null_count:
        offsets = lists.offsets.cast(pa.int64())
        first = offsets[0].as_py()
        return pc.subtract(offsets, first) if first else offsets, values
    if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        lengths = pc.if_else(lists.is_valid(), lists.sizes, 0)
    else:
        lengths = pc.fill_null(pc.list_value_length(lists), 0)
    ends = np.cumsum(lengths.to_numpy(zero_copy_only=False), dtype=np.int64)
    return pa.array(np.append(0, ends)), values


def struct_field(array: pa.Array, name: str) -> pa.Array:
    """A field of structs, or the lists of it in lists of structs; null where the struct or the list is. KeyError if there is none."""
    array = unwrapped(array)
    if is_list(array.type):
        offsets, entries = apart(array)
        values = struct_field(entries, name)
        return pa.LargeListArray.from_arrays(offsets, values, mask=array.is_null() if array.null_count else None)
    if not pa.types.is_struct(array.type) or array.type.get_field_index(name) < 0:
        raise KeyError(name)
    return pc.struct_field(array, name)


def unwrapped(array: pa.Array, dtype: str = "") -> pa.Array:
    """The values of dictionaries, runs, views, maps and extension types; UUIDs as text, or as 16 bytes where `dtype` is "bytes"."""
    kind = array.type
    if pa.types.is_map(kind):
        if not len(array):  # its buffers may be missing
            return pa.array([], unwrapped_type(kind))
        mask = array.is_null() if array.null_count else None
        return pa.ListArray.from_arrays(pa.array(array.offsets.to_numpy()), array.values, mask=mask)
    if pa.types.is_dictionary(kind):
        values = unwrapped(array.dictionary, dtype)
        return unwrapped(pa.DictionaryArray.from_arrays(array.indices, values).dictionary_decode(), dtype)
    if pa.types.is_run_end_encoded(kind):
        ends, values = _runs_of(array)
        return pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(ends, unwrapped(values, dtype)))
    if isinstance(kind, pa.BaseExtensionType):
        return _of_extension(array, dtype)
    if pa.types.is_string_view(kind):
        return array.cast(pa.large_string())
    return array.cast(pa.large_binary()) if pa.types.is_binary_view(kind) else array


def _runs_of(array: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The runs of these rows alone, by their ends: a slice keeps those of the whole array, which may be much longer."""
    ends = array.run_ends.to_numpy(zero_copy_only=False)
    low, high = np.searchsorted(ends, [array.offset, array.offset + len(array) - 1], side="right").tolist()
    if not len(array):
        low = high = 0
    inside = np.minimum(ends[low : high + 1] - array.offset, len(array))[: None if len(array) else 0]
    return pa.array(inside, array.run_ends.type), array.values.slice(low, len(inside))


def _of_extension(array: pa.Array, dtype: str) -> pa.Array:
    """What Arrow's own extension types mean; of others the storage."""
    name, storage = array.type.extension_name, array.storage
    if name == "arrow.uuid" and dtype != "bytes":
        return _uuid_text(storage)
    if name == "arrow.bool8":
        return pc.not_equal(storage, 0)
    if name == "arrow.fixed_shape_tensor":
        return _of_tensor(array.type, storage)
    return unwrapped(storage, dtype)


def _uuid_text(storage: pa.Array) -> pa.Array:
    """123e4567-e89b-12d3-a456-426614174000, as Python and most databases write it."""
    buffer = storage.buffers()[1] or b""
    raw = np.frombuffer(buffer, dtype=np.uint8)[16 * storage.offset : 16 * (storage.offset + len(storage))]
    text = np.full((len(storage), 36), ord("-"), dtype=np.uint8)
    text[:, _DIGITS] = _HEX[raw].view(np.uint8).reshape(-1, 32)
    ends = pa.py_buffer(np.arange(0, 36 * (len(storage) + 1), 36, dtype=np.int64))
    valid = None if not storage.null_count else pc.is_valid(storage).buffers()[1]
    return pa.Array.from_buffers(pa.large_string(), len(storage), [valid, ends, pa.py_buffer(text)])


def _of_tensor(kind: Any, storage: pa.Array) -> pa.Array:
    """Lists of fixed lengths; the axes in the order that `permutation` says."""
    order = kind.permutation or list(range(len(kind.shape)))
    values = storage.values.slice(storage.offset * storage.type.list_size, len(storage) * storage.type.list_size)
    if order != sorted(order):
        if values.null_count:
            raise pa.ArrowInvalid("a tensor holds nulls")
        numbers = values.to_numpy(zero_copy_only=False).reshape(len(storage), *kind.shape)
        values = pa.array(numbers.transpose(0, *(axis + 1 for axis in order)).reshape(-1))
    for axis in [kind.shape[axis] for axis in order][:0:-1]:
        values = pa.FixedSizeListArray.from_arrays(values, axis)
    mask = storage.is_null() if storage.null_count else None
    return pa.FixedSizeListArray.from_arrays(values, kind.shape[order[0]], mask=mask)


def _without_nulls(array: pa.Array, wanted: WantedColumn) -> pa.Array:
    """The array, whose null lists are lists of nulls where they are to be of one length; values get their default when they have their type."""
    if pa.types.is_null(array.type):
        array = array.cast(_nullable(wanted.field))
    if not array.null_count or wanted.field.nullable:
        return array
    if wanted.default is None:
        raise RowError(int(np.argmin(array.is_valid().to_numpy(zero_copy_only=False))), NULL)
    length = wanted.field.shape[0] if wanted.field.shape else None
    return array if length is None or not is_list(array.type) else _filled(array, array.is_null(), length)


def _with_default(array: pa.Array, wanted: WantedColumn) -> pa.Array:
    """Values that are no lists, in the type of the field, with the default for nulls."""
    if not array.null_count or wanted.field.nullable:
        return array
    check_default(wanted.field, wanted.default)
    if is_text(array.type) or is_bytes(array.type):
        return pc.fill_null(array, pa.scalar(wanted.default, array.type))
    return pc.fill_null(array, pa.scalar(held_number(wanted.field, wanted.default).item(), array.type))


def _nullable(field: Field) -> pa.DataType:
    """An Arrow type of nulls that can become a field."""
    if not field.shape:
        return _type_of(field.dtype)
    return pa.large_list(_nullable(Field(field.dtype, field.shape[1:])))


def _type_of(dtype: str) -> pa.DataType:
    texts = {"string": pa.large_string(), "bytes": pa.large_binary(), "bfloat16": pa.float32()}
    return texts[dtype] if dtype in texts else pa.from_numpy_dtype(np.dtype(dtype))


def _numbers_or_text(array: pa.Array, wanted: WantedColumn) -> pa.Array:
    """Values that are no lists, in the type of the field."""
    dtype, target, kind = wanted.field.dtype, _type_of(wanted.field.dtype), array.type
    if target == kind and dtype != "bfloat16":
        return _with_default(array, wanted)
    if is_text(target) or is_bytes(target):
        return _with_default(array.cast(target), wanted)
    if pa.types.is_temporal(kind):
        array = array.cast(pa.int64() if kind.bit_width == 64 else pa.int32())
    elif pa.types.is_decimal(kind):
        array = _of_decimal(array, target, wanted)
    made = array.cast(target)
    if pa.types.is_floating(target):
        _check_finite(array, made, dtype)
    made = _with_default(made, wanted)
    return _rounded_to_bfloat16(made) if dtype == "bfloat16" else made


def _of_decimal(array: pa.Array, target: pa.DataType, wanted: WantedColumn) -> pa.Array:
    """Decimals as floats, unless these would cut whole numbers that nobody asked to round."""
    kind = array.type
    if kind.bit_width < 128:  # of which pyarrow knows no other casts
        array = array.cast(pa.decimal128(kind.precision, kind.scale))
    if not pa.types.is_floating(target):
        return array
    if kind.scale <= 0 and kind.precision > 15 and not wanted.asked:
        large = pc.greater(pc.abs(array), pa.scalar(_EXACT, array.type)).fill_null(False).to_numpy(zero_copy_only=False)
        if large.any():
            row = int(np.argmax(large))
            raise RowError(
                row,
                f"is {array[row]}, a whole number of more digits than float64 has",
                "choose dtype='int64', 'uint64' or 'string', which keep all digits, or dtype='float64', which rounds",
            )
    return array.cast(pa.float64())


def _check_finite(array: pa.Array, made: pa.Array, dtype: str) -> None:
    """RowError for a number that became infinite."""
    lost = np.isinf(made.to_numpy(zero_copy_only=False))
    if lost.any() and pa.types.is_floating(array.type):
        lost &= ~np.isinf(array.to_numpy(zero_copy_only=False))
    if lost.any():
        row = int(np.argmax(lost))
        raise RowError(row, f"is {array[row]}, which is too large for {dtype}", "choose another dtype for the column")


def _rounded_to_bfloat16(array: pa.Array) -> pa.Array:
    """The bits of the nearest bfloat16, ties to even."""
    numbers = array.to_numpy(zero_copy_only=False)
    words = numbers.view(np.uint32)
    bits = ((words + 0x7FFF + ((words >> 16) & 1)) >> 16).astype(np.uint16)
    missing = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    return pa.array(np.where(np.isnan(numbers), np.uint16(0x7FC0), bits), mask=missing)
