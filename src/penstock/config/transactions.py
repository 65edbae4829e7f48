"""Settings of transactions. Names and meanings are Kafka's."""

from penstock.config.setting import Scope, Section, section, setting
from penstock.units import DAY_MS, HOUR_MS, MINUTE_MS


@section(scope=Scope.NODE)
class TransactionSettings(Section):
    max_timeout_ms: int = setting(
        15 * MINUTE_MS,
        name="transaction.max.timeout.ms",
        at_least=1,
        at_most=2**31 - 1,
        doc="The longest transaction.timeout.ms that a producer may ask for: how long a transaction that nobody ends "
        "may keep readers of committed data waiting.",
    )
    id_expiration_ms: int = setting(
        7 * DAY_MS,
        name="transactional.id.expiration.ms",
        at_least=1,
        doc="How long a transactional id is remembered after its last use. Whoever comes back later is served as new.",
    )
    id_expiry_interval_ms: int = setting(
        HOUR_MS,
        name="transaction.remove.expired.transaction.cleanup.interval.ms",
        at_least=1,
        doc="How often expired transactional ids are looked for.",
    )
    state_log_num_partitions: int = setting(
        50,
        name="transaction.state.log.num.partitions",
        at_least=1,
        doc="Partitions of __transaction_state when it is created. Never changed afterwards: it decides which broker "
        "coordinates a transactional id.",
    )
