"""Frames out of whatever pieces the network delivers, within the memory that is allowed."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.memory import RequestMemory
from penstock.broker.receive_buffer import FREE_BYTES, SMALL_BYTES, ReceiveBuffer
from penstock.units import MIB
from penstock.wire.framing import FrameLimits, Malformed

LIMITS = FrameLimits(produce_bytes=8 * MIB)
PRODUCE, METADATA = 0, 3


def frame(size: int, api_key: int = PRODUCE, fill: int = 0) -> bytes:
    return struct.pack(">ih", size, api_key) + bytes([fill]) * (size - 2)


def receive(buffer: ReceiveBuffer, data: bytes) -> list[bytes]:
    """As the transport would: fill what room there is, take the frames, make room, go on."""
    frames = []
    while data:
        space = buffer.space()
        taken = min(len(space), len(data))
        space[:taken] = data[:taken]
        buffer.received(taken)
        data = data[taken:]
        while (found := buffer.next_frame()) is not None:
            frames.append(bytes(found))
        assert buffer.make_room()
    return frames


@given(
    sizes=st.lists(st.integers(min_value=8, max_value=200_000), min_size=1, max_size=8),
    cuts=st.lists(st.integers(min_value=1, max_value=70_000), max_size=30),
)
def test_frames_come_out_as_they_went_in_however_they_are_cut(sizes: list[int], cuts: list[int]) -> None:
    sent = [frame(size, fill=index + 1) for index, size in enumerate(sizes)]
    stream = b"".join(sent)
    buffer = ReceiveBuffer(RequestMemory(64 * MIB), LIMITS.check_prefix)
    received = []
    for cut in cuts:
        received += receive(buffer, stream[:cut])
        stream = stream[cut:]
    received += receive(buffer, stream)
    assert received == [each[4:] for each in sent]
    assert buffer.pending_bytes == 0


def test_one_byte_at_a_time() -> None:
    buffer = ReceiveBuffer(RequestMemory(MIB), LIMITS.check_prefix)
    sent = frame(300)
    received = [found for byte in sent for found in receive(buffer, bytes([byte]))]
    assert received == [sent[4:]]


def test_what_a_client_announces_costs_nothing_before_it_arrives() -> None:
    buffer = ReceiveBuffer(RequestMemory(64 * MIB), LIMITS.check_prefix)
    receive(buffer, frame(8 * MIB)[:100])
    assert buffer.capacity <= FREE_BYTES


def test_a_stream_of_small_requests_gets_larger_reads_wherever_they_end() -> None:
    buffer = ReceiveBuffer(RequestMemory(64 * MIB), LIMITS.check_prefix)
    receive(buffer, frame(196) * 1000)
    assert buffer.capacity == FREE_BYTES


def test_an_idle_buffer_gives_its_memory_back() -> None:
    memory = RequestMemory(64 * MIB)
    buffer = ReceiveBuffer(memory, LIMITS.check_prefix)
    receive(buffer, frame(4 * MIB))
    assert memory.taken_bytes > 3 * MIB
    buffer.trim()
    assert memory.taken_bytes == 0
    assert buffer.capacity == SMALL_BYTES


def test_a_buffer_in_the_middle_of_a_frame_is_not_trimmed() -> None:
    buffer = ReceiveBuffer(RequestMemory(64 * MIB), LIMITS.check_prefix)
    sent = frame(MIB)
    receive(buffer, sent[:500_000])
    buffer.trim()
    assert receive(buffer, sent[500_000:]) == [sent[4:]]


@pytest.mark.parametrize("length", [-1, 0, 7, 2**31 - 1])
def test_a_length_that_no_request_has_is_refused_at_once(length: int) -> None:
    buffer = ReceiveBuffer(RequestMemory(MIB), LIMITS.check_prefix)
    buffer.space()[:4] = struct.pack(">i", length)
    buffer.received(4)
    with pytest.raises(Malformed):
        buffer.next_frame()


def test_only_produce_may_be_large() -> None:
    buffer = ReceiveBuffer(RequestMemory(64 * MIB), LIMITS.check_prefix)
    with pytest.raises(Malformed):
        receive(buffer, frame(LIMITS.other_bytes + 1, METADATA)[:100])


def test_whoever_gets_no_memory_waits_its_turn_and_the_queue_always_moves() -> None:
    memory = RequestMemory(MIB)
    first = ReceiveBuffer(memory, LIMITS.check_prefix)
    receive(first, frame(4 * MIB)[: 3 * MIB])
    second = ReceiveBuffer(memory, LIMITS.check_prefix)
    sent = frame(4 * MIB)
    second.space()[:SMALL_BYTES] = sent[:SMALL_BYTES]
    second.received(SMALL_BYTES)
    assert second.make_room()  # the first 64 KiB are free
    rest = FREE_BYTES - SMALL_BYTES
    second.space()[:rest] = sent[SMALL_BYTES:FREE_BYTES]
    second.received(rest)
    assert not second.make_room()
    turns: list[str] = []
    memory.when_free(lambda: turns.append("second"), second.charged_bytes)
    assert memory.contended
    first.close()
    assert turns == ["second"]
    assert second.make_room(in_turn=True)


def test_memory_that_nobody_gives_back_is_exceeded_by_one_after_a_while() -> None:
    memory = RequestMemory(100)
    assert memory.take(90)
    turns: list[str] = []
    memory.when_free(lambda: turns.append("first"))
    memory.when_free(lambda: turns.append("second"))
    assert turns == []
    memory.nudge()
    assert turns == ["first"]


def test_when_all_that_hold_memory_wait_for_more_one_goes_on_at_once() -> None:
    memory = RequestMemory(100)
    assert memory.take(50) and memory.take(40, held=50)
    turns: list[str] = []
    memory.when_free(lambda: turns.append("first"), held=50)
    assert turns == []
    memory.when_free(lambda: turns.append("second"), held=40)
    assert turns == ["first"]


def test_what_is_given_back_goes_to_as_many_as_it_is_enough_for() -> None:
    memory = RequestMemory(100)
    assert memory.take(100)
    turns: list[str] = []

    def turn(name: str, size: int) -> None:
        turns.append(name)
        memory.take_in_turn(size)

    memory.when_free(lambda: turn("first", 30))
    memory.when_free(lambda: turn("second", 80))
    memory.when_free(lambda: turn("third", 10))
    memory.give_back(90)
    assert turns == ["first", "second"]


def test_memory_is_tight_from_half_of_the_limit_on_and_while_anyone_waits() -> None:
    memory = RequestMemory(100)
    memory.take(50)
    assert not memory.tight
    memory.take(1, held=50)
    assert memory.tight
    memory.give_back(1)
    assert not memory.tight

    def callback() -> None: ...

    memory.when_free(callback)
    assert memory.tight and memory.pressure() == 1.0
    memory.forget(callback)
    assert not memory.tight and memory.pressure() == 0.5
