"""How far one follower has come, as its leader knows from its fetches within one leader epoch."""

from __future__ import annotations

from penstock.coordination.paths import NO_EPOCH

UNKNOWN_OFFSET = -1
NEVER_MS = -(2**62)


class Follower:
    """A follower keeps what it acknowledged for as long as neither the leader epoch nor its own life ends: what came

    late or twice moves nothing back.
    """

    __slots__ = (
        "_fetched_at_ms",
        "_leader_end_then",
        "acknowledged_end",
        "broker_epoch",
        "caught_up_ms",
        "declined_until_ms",
        "log_start",
        "replica",
    )

    def __init__(self, replica: int, *, in_sync: bool, now_ms: int) -> None:
        self.replica = replica
        # Of the life that fetched last.
        self.broker_epoch = NO_EPOCH
        self.acknowledged_end = UNKNOWN_OFFSET
        self.log_start = UNKNOWN_OFFSET
        # The latest time at which it had all that the leader had then. A member gets its time from the election on.
        self.caught_up_ms = now_ms if in_sync else NEVER_MS
        # The controller did not want it in the ISR: not before this is it proposed again.
        self.declined_until_ms = NEVER_MS
        self._fetched_at_ms = NEVER_MS
        self._leader_end_then = 0

    def fetched(self, offset: int, log_start: int, broker_epoch: int, leader_end: int, now_ms: int) -> None:
        if broker_epoch != self.broker_epoch:
            # Another life: with flush.policy=os it may have less than the one before.
            self.broker_epoch = broker_epoch
            self.acknowledged_end = offset
            self.declined_until_ms = NEVER_MS
        elif offset > self.acknowledged_end:
            self.acknowledged_end = offset
        if offset >= leader_end:
            caught_up_ms = now_ms
        elif offset >= self._leader_end_then:
            # It has what there was at its last fetch. Under steady load no fetch ever finds it at the very end.
            caught_up_ms = self._fetched_at_ms
        else:
            caught_up_ms = self.caught_up_ms
        if caught_up_ms > self.caught_up_ms:
            self.caught_up_ms = caught_up_ms
        self.log_start = log_start
        self._fetched_at_ms = now_ms
        self._leader_end_then = max(leader_end, self._leader_end_then)

    def left_isr(self) -> None:
        """It may be dead: what it has shown so far does not bring it back."""
        self.acknowledged_end = UNKNOWN_OFFSET
        self.caught_up_ms = self._fetched_at_ms = NEVER_MS

    def is_caught_up(self, leader_end: int, now_ms: int, max_lag_ms: int) -> bool:
        return self.acknowledged_end == leader_end or now_ms - self.caught_up_ms <= max_lag_ms
