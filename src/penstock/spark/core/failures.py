"""Why the client gave up. The texts are for whoever runs the query; Spark shows them."""

from __future__ import annotations


class ClientFailure(Exception):
    """All of them; this one itself is what waiting would not mend."""


class Unavailable(ClientFailure):
    """It has waited: nobody answered, or those who did could not, for as long as the settings allow."""


class TopicMissing(ClientFailure):
    """There is no topic, or no partition, of that name."""


class DataLoss(ClientFailure):
    """Records that were to be read are not there any more."""


class TopicRecreated(DataLoss):
    """The topic was deleted, and another one has its name."""


class NoAnswer(ClientFailure):
    """A broker was not reached, was silent, hung up, or what it sent was no answer. Asking again may help."""


class Again(ClientFailure):
    """A broker answered that it cannot now: an election, a restart, metadata that are on their way."""


def lost_records(what: str, start: int, end: int) -> str:
    """In the words of Spark's Kafka source, which people look for."""
    return (
        "[KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE] Some data may have been lost because they are not available in "
        "Kafka any more; either the data was aged out by Kafka or the topic may have been deleted before all the data "
        "in the topic was processed. If you don't want your streaming query to fail on such cases, set the source "
        f"option failOnDataLoss to false. Reason: Could not read records in offset [{start}, {end}) for topic "
        f"partition {what}."
    )
