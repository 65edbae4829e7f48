# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The records of batches as columns: one pass over the varints, straight into memory that Arrow takes as it is.

pure_record_columns.py says the same in Python, and the tests hold the two together. Every read is checked against the
end of the record, every write has room before its batch is begun: a batch's data is at most its payload.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset

from pyarrow import allocate_buffer

from penstock.spark.column_buffers import MAX_DATA_BYTES, BinaryBuffers, ColumnBuffers, HeaderBuffers
from penstock.spark.core import row_columns
from penstock.wire.varints import MalformedRecord

cdef int KEYS = row_columns.KEYS
cdef int VALUES = row_columns.VALUES
cdef int OFFSETS = row_columns.OFFSETS
cdef int TIMESTAMPS = row_columns.TIMESTAMPS
cdef int TIMESTAMP_TYPES = row_columns.TIMESTAMP_TYPES
cdef int HEADERS = row_columns.HEADERS

cdef int64_t FURTHEST_MS = INT64_MAX // 1000
cdef int64_t MOST_DATA_BYTES = MAX_DATA_BYTES
cdef int LOG_APPEND_TIME = 0x08
cdef Py_ssize_t SMALLEST_RECORD_BYTES = 7
cdef Py_ssize_t FIRST_BYTES = 4096


cdef class _Memory:
    """Of Arrow's own, which keeps what it gets back: new pages of the system would cost as much as filling them.

    Grows by doubling; the next one starts as large as the last one became, because batches are alike.
    """

    cdef object owner
    cdef uint8_t* start
    cdef Py_ssize_t capacity
    cdef Py_ssize_t first_bytes

    def __cinit__(self):
        self.owner = None
        self.start = NULL
        self.capacity = 0
        self.first_bytes = FIRST_BYTES

    cdef int need(self, Py_ssize_t size) except -1:
        if size > self.capacity:
            size = max(size, 2 * self.capacity, self.first_bytes)
            if self.owner is None:
                self.owner = allocate_buffer(size, resizable=True)
            else:
                self.owner.resize(size)
            self.start = <uint8_t*><size_t>self.owner.address
            self.capacity = size
        return 0

    cdef object give(self, Py_ssize_t size):
        """What was written; the memory is not ours any more."""
        self.need(max(1, size))
        owner = self.owner
        # Else half of what is held would be air.
        owner.resize(size, shrink_to_fit=2 * size < self.capacity)
        self.first_bytes = max(FIRST_BYTES, size + size // 8)
        self.owner = None
        self.start = NULL
        self.capacity = 0
        return owner


cdef class _Validity:
    """A bit per row, made when the first null comes."""

    cdef _Memory bits
    cdef Py_ssize_t ready_bytes
    cdef Py_ssize_t nulls

    def __cinit__(self):
        self.bits = _Memory()
        self.ready_bytes = 0
        self.nulls = 0

    cdef int clear(self, Py_ssize_t row) except -1:
        cdef Py_ssize_t at = row >> 3
        if at >= self.ready_bytes:
            self.fill(at + 1)
        self.bits.start[at] &= <uint8_t>(~(1 << (row & 7)))
        self.nulls += 1
        return 0

    cdef int fill(self, Py_ssize_t size) except -1:
        if size > self.ready_bytes:
            self.bits.need(size)
            memset(self.bits.start + self.ready_bytes, 0xFF, self.bits.capacity - self.ready_bytes)
            self.ready_bytes = self.bits.capacity
        return 0

    cdef object give(self, Py_ssize_t rows):
        cdef Py_ssize_t size = (rows + 7) >> 3
        if not self.nulls:
            return None
        self.fill(size)
        self.ready_bytes = 0
        self.nulls = 0
        return self.bits.give(size)


cdef class _Binary:
    cdef _Memory data
    cdef _Memory ends
    cdef _Validity validity
    cdef Py_ssize_t data_bytes
    cdef Py_ssize_t count

    def __cinit__(self):
        self.data = _Memory()
        self.ends = _Memory()
        self.validity = _Validity()
        self.start_anew()

    cdef int start_anew(self) except -1:
        self.data_bytes = 0
        self.count = 0
        self.ends.need(4)
        (<int32_t*>self.ends.start)[0] = 0
        return 0

    cdef int need(self, Py_ssize_t count, Py_ssize_t data_bytes) except -1:
        self.ends.need(4 * (self.count + count + 1))
        self.data.need(self.data_bytes + data_bytes)
        return 0

    cdef inline int add(self, const uint8_t* data, int64_t length) except -1:
        """A length of -1 is null. There is room."""
        if length > 0:
            memcpy(self.data.start + self.data_bytes, data, length)
            self.data_bytes += length
        elif length < 0:
            self.validity.clear(self.count)
        self.count += 1
        (<int32_t*>self.ends.start)[self.count] = <int32_t>self.data_bytes
        return 0

    cdef object give(self):
        cdef Py_ssize_t nulls = self.validity.nulls
        cdef Py_ssize_t count = self.count
        given = BinaryBuffers(
            self.validity.give(count), nulls, self.ends.give(4 * (count + 1)), self.data.give(self.data_bytes)
        )
        self.start_anew()
        return given


cdef class RecordColumns:
    """See PureRecordColumns."""

    cdef int wanted
    cdef readonly Py_ssize_t rows
    cdef _Binary keys
    cdef _Binary values
    cdef _Memory offsets
    cdef _Memory timestamps
    cdef _Memory timestamp_types
    cdef _Memory header_ends
    cdef Py_ssize_t header_rows
    cdef _Validity header_validity
    cdef _Binary header_keys
    cdef _Binary header_values

    def __cinit__(self, int wanted):
        self.wanted = wanted
        self.rows = 0
        self.keys = _Binary()
        self.values = _Binary()
        self.offsets = _Memory()
        self.timestamps = _Memory()
        self.timestamp_types = _Memory()
        self.header_ends = _Memory()
        self.header_validity = _Validity()
        self.header_keys = _Binary()
        self.header_values = _Binary()
        self.start_headers()

    @property
    def data_bytes(self):
        return self.held()

    cdef Py_ssize_t held(self):
        return (
            self.keys.data_bytes + self.values.data_bytes + self.header_keys.data_bytes + self.header_values.data_bytes
        )

    def append(self, payload, header, int64_t first, int64_t end):
        cdef Py_buffer view
        cdef int64_t base_offset, base_timestamp, max_timestamp
        cdef int32_t last_offset_delta, record_count
        cdef int attributes
        base_offset, _, _, _, _, attributes, last_offset_delta, base_timestamp, max_timestamp, _, _, _, record_count = (
            header
        )
        PyObject_GetBuffer(payload, &view, PyBUF_SIMPLE)
        try:
            if self.held() + view.len > MOST_DATA_BYTES:
                raise OverflowError(f"{view.len} bytes more than {self.held()} are too many for one Arrow batch")
            if not 0 <= record_count <= view.len // SMALLEST_RECORD_BYTES:
                raise MalformedRecord(f"{view.len} bytes cannot hold {record_count} records")
            self.make_room(record_count, view.len)
            self.walk(
                <const uint8_t*>view.buf, view.len, record_count, base_offset, last_offset_delta, base_timestamp,
                max_timestamp, bool(attributes & LOG_APPEND_TIME), first, end
            )
        finally:
            PyBuffer_Release(&view)

    cdef int make_room(self, Py_ssize_t count, Py_ssize_t size) except -1:
        cdef Py_ssize_t rows = self.rows + count
        if self.wanted & KEYS:
            self.keys.need(count, size)
        if self.wanted & VALUES:
            self.values.need(count, size)
        if self.wanted & OFFSETS:
            self.offsets.need(8 * rows)
        if self.wanted & TIMESTAMPS:
            self.timestamps.need(8 * rows)
        if self.wanted & TIMESTAMP_TYPES:
            self.timestamp_types.need(4 * rows)
        if self.wanted & HEADERS:
            self.header_ends.need(4 * (rows + 1))
            # How many there are is known record by record.
            self.header_keys.need(0, size)
            self.header_values.need(0, size)
        return 0

    cdef int walk(
        self, const uint8_t* at, Py_ssize_t size, int32_t record_count, int64_t base_offset, int32_t last_offset_delta,
        int64_t base_timestamp, int64_t max_timestamp, bint is_log_append_time, int64_t first, int64_t end
    ) except -1:
        cdef const uint8_t* behind = at + size
        cdef const uint8_t* stop
        cdef int64_t length, timestamp_delta, offset_delta, offset, milliseconds
        cdef int64_t previous_delta = -1
        cdef int64_t* offsets = <int64_t*>self.offsets.start
        cdef int64_t* timestamps = <int64_t*>self.timestamps.start
        cdef int32_t* timestamp_types = <int32_t*>self.timestamp_types.start
        cdef int wanted = self.wanted
        cdef Py_ssize_t row = self.rows
        for _ in range(record_count):
            length = read_number(&at, behind, 32)
            if length < 0 or length > behind - at:
                raise MalformedRecord(f"a record of {length} bytes does not fit")
            stop = at + length
            # Its attributes, of which none is defined.
            at += 1
            timestamp_delta = read_number(&at, stop, 64)
            offset_delta = read_number(&at, stop, 32)
            if offset_delta <= previous_delta or offset_delta > last_offset_delta:
                raise MalformedRecord(f"offset delta {offset_delta} after {previous_delta}, of {last_offset_delta}")
            previous_delta = offset_delta
            offset = base_offset + offset_delta
            if offset >= end:
                self.rows = row
                return 0
            if offset >= first:
                if wanted & (KEYS | VALUES | HEADERS):
                    self.add_fields(at, stop)
                if wanted & OFFSETS:
                    offsets[row] = offset
                if wanted & TIMESTAMPS:
                    if is_log_append_time:
                        milliseconds = max_timestamp
                    else:
                        # Around the end of 64 bits, as every client computes.
                        milliseconds = <int64_t>(<uint64_t>base_timestamp + <uint64_t>timestamp_delta)
                    if milliseconds > FURTHEST_MS or milliseconds < -FURTHEST_MS:
                        raise MalformedRecord(f"offset {offset} has timestamp {milliseconds}, too far for microseconds")
                    timestamps[row] = 1000 * milliseconds
                if wanted & TIMESTAMP_TYPES:
                    timestamp_types[row] = is_log_append_time
                row += 1
            at = stop
        if at != behind:
            raise MalformedRecord(f"{behind - at} bytes follow the last of {record_count} records")
        self.rows = row
        return 0

    cdef inline int add_fields(self, const uint8_t* at, const uint8_t* stop) except -1:
        cdef int64_t length = read_length(&at, stop)
        if self.wanted & KEYS:
            self.keys.add(at, length)
        if not self.wanted & (VALUES | HEADERS):
            return 0
        if length > 0:
            at += length
        length = read_length(&at, stop)
        if self.wanted & VALUES:
            self.values.add(at, length)
        if self.wanted & HEADERS:
            if length > 0:
                at += length
            self.add_headers(at, stop)
        return 0

    cdef int add_headers(self, const uint8_t* at, const uint8_t* stop) except -1:
        cdef int64_t length
        cdef int64_t count = read_number(&at, stop, 32)
        cdef Py_ssize_t row = self.header_rows
        # A header has two lengths of at least a byte each.
        if count < 0 or count > (stop - at) // 2:
            raise MalformedRecord(f"{count} headers do not fit")
        self.header_keys.need(count, 0)
        self.header_values.need(count, 0)
        for _ in range(count):
            length = read_length(&at, stop)
            if length < 0:
                raise MalformedRecord("a header has no key")
            self.header_keys.add(at, length)
            at += length
            length = read_length(&at, stop)
            self.header_values.add(at, length)
            if length > 0:
                at += length
        if not count:
            self.header_validity.clear(row)
        self.header_rows = row + 1
        (<int32_t*>self.header_ends.start)[row + 1] = <int32_t>self.header_keys.count
        if at != stop:
            raise MalformedRecord(f"a record ends {stop - at:+} bytes from where its length says")
        return 0

    def take(self):
        cdef Py_ssize_t rows = self.rows
        cdef int wanted = self.wanted
        taken = ColumnBuffers(
            rows,
            self.keys.give() if wanted & KEYS else None,
            self.values.give() if wanted & VALUES else None,
            self.offsets.give(8 * rows) if wanted & OFFSETS else None,
            self.timestamps.give(8 * rows) if wanted & TIMESTAMPS else None,
            self.timestamp_types.give(4 * rows) if wanted & TIMESTAMP_TYPES else None,
            self.give_headers() if wanted & HEADERS else None,
        )
        self.rows = 0
        return taken

    cdef object give_headers(self):
        cdef Py_ssize_t nulls = self.header_validity.nulls
        cdef Py_ssize_t count = self.header_keys.count
        given = HeaderBuffers(
            self.header_validity.give(self.rows), nulls, self.header_ends.give(4 * (self.rows + 1)), count,
            self.header_keys.give(), self.header_values.give()
        )
        self.start_headers()
        return given

    cdef int start_headers(self) except -1:
        self.header_rows = 0
        self.header_ends.need(4)
        (<int32_t*>self.header_ends.start)[0] = 0
        return 0


cdef inline int64_t read_length(const uint8_t** at, const uint8_t* stop) except? -2:
    """Of nullable bytes, which lie before `stop`; -1 is null."""
    cdef int64_t length = read_number(at, stop, 32)
    if length < -1:
        raise MalformedRecord(f"a length of {length}")
    if length > stop - at[0]:
        raise MalformedRecord(f"a field of {length} bytes goes beyond its record")
    return length


cdef inline int64_t read_number(const uint8_t** at, const uint8_t* stop, int bits) except? -2:
    """Zigzag, seven bits a byte, least first."""
    cdef uint64_t byte
    if at[0] >= stop:
        raise MalformedRecord("a record goes beyond the end of its batch")
    byte = at[0][0]
    if byte < 0x80:
        at[0] += 1
        return <int64_t>(byte >> 1) ^ -<int64_t>(byte & 1)
    return read_long_number(at, stop, bits)


cdef int64_t read_long_number(const uint8_t** at, const uint8_t* stop, int bits) except? -2:
    cdef const uint8_t* here = at[0]
    cdef uint64_t byte = here[0]
    cdef uint64_t value = byte & 0x7F
    cdef int shift = 7
    while byte >= 0x80:
        if shift >= bits:
            raise MalformedRecord("a variable-length number is too long")
        here += 1
        if here >= stop:
            raise MalformedRecord("a record goes beyond the end of its batch")
        byte = here[0]
        if (byte & 0x7F) >> (bits - shift if bits - shift < 7 else 7):
            raise MalformedRecord("a variable-length number is too large")
        value |= (byte & 0x7F) << shift
        shift += 7
    at[0] = here + 1
    return <int64_t>(value >> 1) ^ -<int64_t>(value & 1)
