"""The same as for logs of leaders, with batches as followers get them, and logs that begin anew elsewhere."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule
from tests.disk.crash import CrashingDisk, PowerOff
from tests.scale import examples
from tests.storage.fire import under_fire
from tests.storage.journaled_log import DATA
from tests.storage.replica_log import ReplicaLog
from tests.storage.test_journal_power_cuts import BATCHES, LOGS, WHICH, JournalUnderFire

from penstock.storage.core.journal_entry import PAGE_BYTES
from penstock.storage.journal import Journal, JournalTicket

MANY = st.lists(
    st.tuples(st.integers(1, 3), st.sampled_from([0, 10, 300, 700]), st.sampled_from([-1, -1, 1])),
    min_size=1,
    max_size=12,
)
ENDS = st.sampled_from(["no", "kill", "cut"])
POLICIES = ("delete", "compact", "compact,delete")
GAPS = st.lists(st.sampled_from([0, 0, 0, 1, 5, 300]), min_size=1, max_size=4)


class ReplicasUnderFire(JournalUnderFire):
    @initialize(file_pages=st.sampled_from([4, 6, 20]))
    def begin(self, file_pages: int) -> None:
        self.file_bytes = file_pages * PAGE_BYTES
        self.disk = CrashingDisk()
        self.disk.make_directory(DATA)
        self.ids = LOGS
        self.journal = Journal.open(self.disk, DATA, file_bytes=self.file_bytes)
        self.ticket: JournalTicket | None = None
        self.error: OSError | None = None
        self.ticket_ran = False
        self.replicas = [ReplicaLog(place, self.disk, self.journal, policy) for place, policy in enumerate(POLICIES)]
        self.logs = list(self.replicas)
        self.journal.start()

    @rule(which=WHICH, batches=MANY, epochs=st.integers(0, 2), gaps=GAPS, then_flush=st.booleans())
    def replicate(
        self, which: int, batches: list[tuple[int, int, int]], epochs: int, gaps: list[int], then_flush: bool
    ) -> None:
        self.replicas[which].replicate(batches, epochs, gaps)
        if then_flush:
            self.flush()

    @rule(which=WHICH, epochs=st.integers(0, 3), checkpoint=st.booleans(), batches=BATCHES, gaps=GAPS, ends=ENDS)
    def lead_and_write_nothing(
        self, which: int, epochs: int, checkpoint: bool, batches: list[tuple[int, int, int]], gaps: list[int], ends: str
    ) -> None:
        """And follow again, one whose next records are older than that."""
        replica = self.replicas[which]
        replica.replicate(batches, 0, gaps)
        replica.lead_and_write_nothing(epochs)
        if checkpoint:
            self.sync(which, checkpoint=True)
        replica.replicate(batches, 0, gaps)
        self.flush()
        if ends == "kill":
            self.kill()
        elif ends == "cut":
            self.power_cut(0, None)

    @rule(which=WHICH, cleanup_policy=st.sampled_from(POLICIES))
    def change_cleanup(self, which: int, cleanup_policy: str) -> None:
        """What its leader's log has of earlier is the same as before."""
        self.replicas[which].change_cleanup(cleanup_policy)

    @rule(
        which=WHICH,
        turns=st.lists(st.tuples(BATCHES, GAPS), min_size=1, max_size=8),
        seed=st.integers(0, 2**32),
        cleanup_policy=st.none() | st.just("delete"),
        changes_first=st.booleans(),
    )
    def following_up_to_a_cut(
        self,
        which: int,
        turns: list[tuple[list[tuple[int, int, int]], list[int]]],
        seed: int,
        cleanup_policy: str | None,
        changes_first: bool,
    ) -> None:
        """Most of it by the journal alone; perhaps the topic ceases to be compacted, before that or after it."""
        if cleanup_policy is not None and changes_first:
            self.replicas[which].change_cleanup(cleanup_policy)
        for batches, gaps in turns:
            self.replicas[which].replicate(batches, 0, gaps)
            self.flush()
        if cleanup_policy is not None:
            self.replicas[which].change_cleanup(cleanup_policy)
        self.power_cut(seed, None)

    @rule(which=WHICH, ahead=st.integers(0, 50))
    def begin_anew_ahead(self, which: int, ahead: int) -> None:
        self.replicas[which].restart(self.logs[which].log.end_offset + ahead)

    @rule(which=WHICH, part=st.floats(0, 1))
    def begin_anew_behind(self, which: int, part: float) -> None:
        self.replicas[which].restart(round(self.logs[which].log.start_offset * part))

    @rule(
        which=WHICH,
        batches=BATCHES,
        to=st.integers(-5, 50),
        operations=st.integers(0, 25),
        seed=st.integers(0, 2**32),
    )
    def power_cut_within_a_new_beginning(
        self, which: int, batches: list[tuple[int, int, int]], to: int, operations: int, seed: int
    ) -> None:
        self.disk.operations_left = operations
        log = self.replicas[which]
        try:
            log.restart(max(0, log.log.start_offset + to if to < 0 else log.log.end_offset + to))
            log.replicate(batches, 1)
            self.flush()
        except PowerOff:
            self.power_cut(seed, None)
        self.disk.operations_left = None


ReplicasUnderFire.TestCase.settings = under_fire(max_examples=examples(100), steps=40)
TestReplicasUnderFire = ReplicasUnderFire.TestCase
