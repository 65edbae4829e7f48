import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** What programs.py tells a transactional client to do; compiles with 2.8 and 4.x. */
final class Transactions {
    private static final Duration WAIT = Duration.ofMillis(100);

    private Transactions() {}

    /** Every other transaction is aborted. */
    static Map<String, Object> rounds(JsonNode told) {
        List<String> committed = new ArrayList<>();
        try (var producer = producer(told, 10_000)) {
            for (int round = 0; round < told.get("count").asInt(); round++) {
                producer.beginTransaction();
                List<String> values = new ArrayList<>();
                for (int partition = 0; partition < told.get("partitions").asInt(); partition++) {
                    values.add(round + "-" + partition);
                    producer.send(record(told, partition, round + "-" + partition));
                }
                producer.flush();
                if (round % 2 == 0) {
                    producer.commitTransaction();
                    committed.addAll(values);
                } else {
                    producer.abortTransaction();
                }
            }
        }
        return Map.of("committed", committed);
    }

    static Map<String, Object> fencing(JsonNode told) {
        var zombie = producer(told, 10_000);
        zombie.beginTransaction();
        zombie.send(record(told, 0, "of a zombie"));
        zombie.flush();
        try (var successor = producer(told, 10_000)) {
            successor.beginTransaction();
            successor.send(record(told, 0, "of its successor"));
            String refused = commit(zombie);
            successor.commitTransaction();
            zombie.close(Duration.ZERO);
            return Map.of("refused", refused);
        }
    }

    /** Ends a transaction only when its time is over, which the last stable offset shows. */
    static Map<String, Object> timeout(JsonNode told) {
        var producer = producer(told, 1_000);
        producer.beginTransaction();
        producer.send(record(told, 0, "too late"));
        producer.flush();
        var place = new TopicPartition(told.get("topic").asText(), 0);
        try (var consumer = consumer(told)) {
            while (consumer.endOffsets(List.of(place)).get(place) == 0) {
                Thread.onSpinWait();
            }
        }
        String refused = commit(producer);
        producer.close(Duration.ZERO);
        return Map.of("refused", refused);
    }

    private static String commit(KafkaProducer<String, String> producer) {
        try {
            producer.commitTransaction();
            return "";
        } catch (KafkaException refused) {
            return refused.getClass().getSimpleName();
        }
    }

    /** Consumes from `topic`, produces to `target`: each record once, though the first transaction is aborted. */
    static Map<String, Object> transform(JsonNode told) {
        int taken = 0;
        boolean hasAborted = false;
        try (var producer = producer(told, 10_000);
                var consumer = consumer(told)) {
            consumer.subscribe(List.of(told.get("topic").asText()));
            while (taken < told.get("count").asInt()) {
                ConsumerRecords<String, String> records = consumer.poll(WAIT);
                if (records.isEmpty()) {
                    continue;
                }
                producer.beginTransaction();
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                for (ConsumerRecord<String, String> record : records) {
                    String value = "<" + record.value() + ">";
                    producer.send(new ProducerRecord<>(told.get("target").asText(), record.partition(), null, value));
                    var place = new TopicPartition(record.topic(), record.partition());
                    offsets.put(place, new OffsetAndMetadata(record.offset() + 1));
                }
                producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
                if (!hasAborted) {
                    producer.abortTransaction();
                    goBack(consumer);
                    hasAborted = true;
                } else {
                    producer.commitTransaction();
                    taken += records.count();
                }
            }
        }
        return Map.of("count", taken);
    }

    private static void goBack(KafkaConsumer<String, String> consumer) {
        var committed = consumer.committed(consumer.assignment());
        for (TopicPartition place : consumer.assignment()) {
            OffsetAndMetadata found = committed.get(place);
            consumer.seek(place, found == null ? 0 : found.offset());
        }
    }

    /** What is committed, up to the last stable offset. */
    static Map<String, Object> read(JsonNode told) {
        List<String> values = new ArrayList<>();
        try (var consumer = consumer(told)) {
            var places =
                    IntStream.range(0, told.get("partitions").asInt())
                            .mapToObj(index -> new TopicPartition(told.get("topic").asText(), index))
                            .toList();
            consumer.assign(places);
            consumer.seekToBeginning(places);
            var ends = consumer.endOffsets(places);
            while (places.stream().anyMatch(place -> consumer.position(place) < ends.get(place))) {
                consumer.poll(WAIT).forEach(record -> values.add(record.value()));
            }
        }
        return Map.of("values", values);
    }

    private static ProducerRecord<String, String> record(JsonNode told, int partition, String value) {
        return new ProducerRecord<>(told.get("topic").asText(), partition, null, value);
    }

    private static KafkaProducer<String, String> producer(JsonNode told, int timeoutMs) {
        Properties settings = Interop.settings(told);
        settings.put("transactional.id", told.get("id").asText());
        settings.put("transaction.timeout.ms", timeoutMs);
        var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
        producer.initTransactions();
        return producer;
    }

    private static KafkaConsumer<String, String> consumer(JsonNode told) {
        Properties settings = Interop.settings(told);
        settings.put("group.id", told.get("group").asText());
        settings.put("isolation.level", "read_committed");
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        settings.put("max.poll.records", "7");
        settings.put("fetch.max.wait.ms", "100");
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }
}
