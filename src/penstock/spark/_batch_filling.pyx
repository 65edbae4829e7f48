# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Rows into the records of batches: one pass over Arrow's own memory, each record written once.

pure_batch_filling.py says the same in Python, and the tests hold the two together. What an Arrow array says of its own
memory is true; a record's size is known before its first byte is written, so there is always room for it.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize, PyByteArray_Resize
from cpython.list cimport PyList_GET_ITEM
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcpy

from penstock.spark.core.sink_rows import invalid_partition, too_large
from penstock.spark.sink_columns import FilledBatch, RowRefused

cdef Py_ssize_t BATCH_BYTES = 61
cdef Py_ssize_t FIRST_BYTES = 4096
cdef int64_t NULL_LENGTH = -1


cdef class _Validity:
    """Which values of an array are there."""

    cdef object owner
    cdef const uint8_t* bits
    cdef Py_ssize_t offset

    cdef int look_at(self, array, buffer) except -1:
        self.owner = array
        self.offset = array.offset
        self.bits = NULL if buffer is None else <const uint8_t*><uintptr_t>buffer.address
        return 0

    cdef inline bint has(self, Py_ssize_t row) noexcept:
        cdef Py_ssize_t at = row + self.offset
        return self.bits == NULL or (self.bits[at >> 3] >> (at & 7)) & 1


cdef class _Binaries(_Validity):
    cdef const int32_t* ends
    cdef const uint8_t* data

    def __cinit__(self, array):
        validity, ends, data = array.buffers()
        self.look_at(array, validity)
        self.ends = NULL if ends is None else <const int32_t*><uintptr_t>ends.address
        self.data = NULL if data is None else <const uint8_t*><uintptr_t>data.address

    cdef inline int64_t get(self, Py_ssize_t row, const uint8_t** start) noexcept:
        """Its length; -1: null."""
        cdef Py_ssize_t at = row + self.offset
        if not self.has(row):
            return NULL_LENGTH
        start[0] = self.data + self.ends[at]
        return self.ends[at + 1] - self.ends[at]


cdef class _Numbers(_Validity):
    """32 or 64 bits wide."""

    cdef const uint8_t* data

    def __cinit__(self, array):
        validity, data = array.buffers()
        self.look_at(array, validity)
        self.data = NULL if data is None else <const uint8_t*><uintptr_t>data.address

    cdef inline int32_t narrow(self, Py_ssize_t row) noexcept:
        return (<const int32_t*>self.data)[row + self.offset]

    cdef inline int64_t wide(self, Py_ssize_t row) noexcept:
        return (<const int64_t*>self.data)[row + self.offset]


cdef class _Headers(_Validity):
    cdef const int32_t* ends
    cdef _Validity present
    cdef _Binaries keys
    cdef _Binaries values

    def __cinit__(self, array):
        buffers = array.buffers()
        self.look_at(array, buffers[0])
        self.ends = NULL if buffers[1] is None else <const int32_t*><uintptr_t>buffers[1].address
        structs = array.values
        self.present = _Validity()
        self.present.look_at(structs, structs.buffers()[0])
        self.keys = _Binaries(structs.field(0))
        self.values = _Binaries(structs.field(1))

    cdef inline int64_t range_of(self, Py_ssize_t row, Py_ssize_t* first) noexcept:
        """How many."""
        cdef Py_ssize_t at = row + self.offset
        if not self.has(row):
            return 0
        first[0] = self.ends[at]
        return self.ends[at + 1] - self.ends[at]

    cdef int64_t size(self, Py_ssize_t first, int64_t count) except -1:
        cdef const uint8_t* data = NULL
        cdef int64_t length, size = 0
        cdef Py_ssize_t at
        for at in range(first, first + count):
            length = self.keys.get(at, &data) if self.present.has(at) else NULL_LENGTH
            if length < 0:
                raise RowRefused("A header has no key")
            size += size_of(length) + length
            length = self.values.get(at, &data)
            size += size_of(length) + (length if length > 0 else 0)
        return size


cdef class _Open:
    """A batch that is being filled; a partition without one has no memory."""

    cdef bytearray owner
    cdef uint8_t* start
    cdef Py_ssize_t capacity
    cdef Py_ssize_t size
    cdef int32_t count
    cdef int64_t base_timestamp
    cdef int64_t max_timestamp

    cdef int need(self, Py_ssize_t size) except -1:
        if size > self.capacity:
            size = max(size, 2 * self.capacity, FIRST_BYTES)
            if self.owner is None:
                self.owner = PyByteArray_FromStringAndSize(NULL, size)
            else:
                PyByteArray_Resize(self.owner, size)
            self.start = <uint8_t*>PyByteArray_AS_STRING(self.owner)
            self.capacity = size
        return 0

    cdef object give(self, Py_ssize_t partition):
        cdef bytearray owner = self.owner
        PyByteArray_Resize(owner, self.size)
        given = FilledBatch(partition, owner, self.count, self.base_timestamp, self.max_timestamp)
        self.owner = None
        self.start = NULL
        self.capacity = self.size = self.count = 0
        return given


cdef class BatchFilling:
    """See PureBatchFilling."""

    cdef Py_ssize_t partitions
    cdef Py_ssize_t batch_bytes
    cdef Py_ssize_t max_request_bytes
    cdef Py_ssize_t sticky
    cdef list open
    cdef readonly Py_ssize_t held_bytes

    def __cinit__(
        self, Py_ssize_t partitions, Py_ssize_t batch_bytes, Py_ssize_t max_request_bytes, Py_ssize_t first_partition
    ):
        self.partitions = partitions
        self.batch_bytes = batch_bytes
        self.max_request_bytes = max_request_bytes
        self.sticky = first_partition % partitions
        self.open = [_Open() for _ in range(partitions)]
        self.held_bytes = 0

    def limit(self, Py_ssize_t batch_bytes):
        self.batch_bytes = min(batch_bytes, self.batch_bytes)

    def append(self, rows, int64_t now_ms):
        cdef _Binaries keys = None if rows.keys is None else _Binaries(rows.keys)
        cdef _Binaries values = _Binaries(rows.values)
        cdef _Numbers wanted = None if rows.partitions is None else _Numbers(rows.partitions)
        cdef _Numbers timestamps = None if rows.timestamps_ms is None else _Numbers(rows.timestamps_ms)
        cdef _Headers headers = None if rows.headers is None else _Headers(rows.headers)
        cdef const uint8_t* key = NULL
        cdef const uint8_t* value = NULL
        cdef int64_t key_length = NULL_LENGTH, value_length, timestamp, header_count = 0
        cdef Py_ssize_t row, partition, first_header = 0
        cdef list full = []
        for row in range(len(rows.values)):
            if keys is not None:
                key_length = keys.get(row, &key)
            value_length = values.get(row, &value)
            if wanted is not None and wanted.has(row):
                partition = wanted.narrow(row)
                if partition < 0 or partition >= self.partitions:
                    raise RowRefused(invalid_partition(partition, self.partitions))
            elif key_length < 0:
                partition = self.sticky
            else:
                partition = murmur2(key, key_length) % self.partitions
            timestamp = now_ms
            if timestamps is not None and timestamps.has(row):
                timestamp = timestamps.wide(row)
            if headers is not None:
                header_count = headers.range_of(row, &first_header)
            self.put(partition, key, key_length, value, value_length, timestamp, headers, first_header, header_count, full)
        return full

    def take(self):
        cdef _Open batch
        cdef Py_ssize_t partition
        left = []
        for partition in range(self.partitions):
            batch = self.open[partition]
            if batch.count:
                left.append(batch.give(partition))
        self.held_bytes = 0
        return left

    cdef int put(
        self, Py_ssize_t partition, const uint8_t* key, int64_t key_length, const uint8_t* value, int64_t value_length,
        int64_t timestamp, _Headers headers, Py_ssize_t first_header, int64_t header_count, list full
    ) except -1:
        cdef _Open batch = <_Open>PyList_GET_ITEM(self.open, partition)
        cdef int64_t body, size
        cdef int64_t fields = (
            size_of(key_length) + (key_length if key_length > 0 else 0)
            + size_of(value_length) + (value_length if value_length > 0 else 0) + size_of(header_count)
        )
        if header_count:
            fields += headers.size(first_header, header_count)
        if not batch.count:
            batch.base_timestamp = batch.max_timestamp = timestamp
        body = 1 + size_of(timestamp - batch.base_timestamp) + size_of(batch.count) + fields
        size = size_of(body) + body
        if size + BATCH_BYTES > self.max_request_bytes:
            raise RowRefused(too_large(size + BATCH_BYTES, self.max_request_bytes))
        if batch.count and size + BATCH_BYTES + batch.size > self.batch_bytes:
            self.held_bytes -= batch.size
            full.append(batch.give(partition))
            if partition == self.sticky:
                self.sticky = (partition + 1) % self.partitions
            batch.base_timestamp = batch.max_timestamp = timestamp
            # Its deltas are other ones in another batch.
            body = 1 + size_of(0) + size_of(0) + fields
            size = size_of(body) + body
        batch.need(batch.size + size)
        write(
            batch.start + batch.size, body, timestamp - batch.base_timestamp, batch.count, key, key_length, value,
            value_length, headers, first_header, header_count
        )
        batch.size += size
        batch.count += 1
        if timestamp > batch.max_timestamp:
            batch.max_timestamp = timestamp
        self.held_bytes += size
        return 0


cdef void write(
    uint8_t* at, int64_t body, int64_t timestamp_delta, int64_t offset_delta, const uint8_t* key, int64_t key_length,
    const uint8_t* value, int64_t value_length, _Headers headers, Py_ssize_t first_header, int64_t header_count
) noexcept:
    cdef const uint8_t* data = NULL
    cdef int64_t length
    cdef Py_ssize_t header
    at = put_number(at, body)
    at[0] = 0
    at = put_number(at + 1, timestamp_delta)
    at = put_number(at, offset_delta)
    at = put_bytes(at, key, key_length)
    at = put_bytes(at, value, value_length)
    at = put_number(at, header_count)
    for header in range(first_header, first_header + header_count):
        length = headers.keys.get(header, &data)
        at = put_bytes(at, data, length)
        length = headers.values.get(header, &data)
        at = put_bytes(at, data, length)


cdef inline uint8_t* put_bytes(uint8_t* at, const uint8_t* data, int64_t length) noexcept:
    at = put_number(at, length)
    if length > 0:
        memcpy(at, data, length)
        at += length
    return at


cdef inline uint8_t* put_number(uint8_t* at, int64_t number) noexcept:
    """Zigzag, seven bits a byte, least first."""
    cdef uint64_t value = (<uint64_t>number << 1) ^ <uint64_t>(number >> 63)
    while value > 0x7F:
        at[0] = <uint8_t>(value & 0x7F) | 0x80
        at += 1
        value >>= 7
    at[0] = <uint8_t>value
    return at + 1


cdef inline int64_t size_of(int64_t number) noexcept:
    cdef uint64_t value = (<uint64_t>number << 1) ^ <uint64_t>(number >> 63)
    cdef int64_t size = 1
    while value > 0x7F:
        value >>= 7
        size += 1
    return size


cdef uint32_t murmur2(const uint8_t* key, int64_t length) noexcept:
    """See core/murmur.py."""
    cdef uint32_t factor = 0x5BD1E995
    cdef uint32_t value = <uint32_t>0x9747B28C ^ <uint32_t>length
    cdef uint32_t word
    cdef int64_t left = length
    while left >= 4:
        word = key[0] | (<uint32_t>key[1] << 8) | (<uint32_t>key[2] << 16) | (<uint32_t>key[3] << 24)
        word *= factor
        word ^= word >> 24
        value = (value * factor) ^ (word * factor)
        key += 4
        left -= 4
    if left:
        if left == 3:
            value ^= <uint32_t>key[2] << 16
        if left >= 2:
            value ^= <uint32_t>key[1] << 8
        value = (value ^ key[0]) * factor
    value ^= value >> 13
    value *= factor
    return (value ^ (value >> 15)) & 0x7FFFFFFF
