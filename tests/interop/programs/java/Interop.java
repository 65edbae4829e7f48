import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** The Java client behind the line protocol of tests/interop/member.py and programs.py; compiles with 2.8 and 4.x. */
public final class Interop {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        JsonNode told = JSON.readTree(arguments[1]);
        switch (arguments[0]) {
            case "produce" -> produce(told);
            case "admin" -> admin(told);
            case "member" -> member(told);
            case "transactions" -> say(Transactions.rounds(told));
            case "fencing" -> say(Transactions.fencing(told));
            case "timeout" -> say(Transactions.timeout(told));
            case "transform" -> say(Transactions.transform(told));
            case "read" -> say(Transactions.read(told));
            default -> throw new IllegalArgumentException(arguments[0]);
        }
    }

    private static void produce(JsonNode told) throws Exception {
        Properties settings = settings(told);
        settings.put("compression.type", told.get("codec").asText());
        settings.put("enable.idempotence", "true");
        settings.put("acks", "all");
        settings.put("linger.ms", "20");
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (int index = 0; index < told.get("count").asInt(); index++) {
                int partition = index % told.get("partitions").asInt();
                String value = told.get("prefix").asText() + "-" + index;
                sent.add(producer.send(new ProducerRecord<>(told.get("topic").asText(), partition, null, value)));
            }
            for (Future<RecordMetadata> future : sent) {
                future.get();
            }
        }
        say(Map.of("event", "produced", "count", sent.size()));
    }

    private static void admin(JsonNode told) throws Exception {
        String topic = told.get("topic").asText();
        var resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        Map<String, Object> found = new TreeMap<>();
        try (Admin admin = Admin.create(settings(told))) {
            var wanted = new NewTopic(topic, 2, (short) -1).configs(Map.of("retention.ms", "3600000"));
            admin.createTopics(List.of(wanted)).all().get();
            admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all().get();
            var change = new AlterConfigOp(new ConfigEntry("max.message.bytes", "2000"), AlterConfigOp.OpType.SET);
            admin.incrementalAlterConfigs(Map.of(resource, List.of(change))).all().get();
            var configs = admin.describeConfigs(List.of(resource)).all().get().get(resource);
            found.put("retention.ms", configs.get("retention.ms").value());
            found.put("max.message.bytes", configs.get("max.message.bytes").value());
            found.put("partitions", partitions(told, topic));
            found.put("brokers", admin.describeCluster().nodes().get().size());
            found.put("listed", admin.listTopics().names().get().contains(topic));
            admin.deleteTopics(List.of(topic)).all().get();
            found.put("deleted", isGone(admin, topic));
        }
        say(found);
    }

    /** Allows for a broker whose metadata follows the answer a moment later. */
    private static boolean isGone(Admin admin, String topic) throws Exception {
        long deadline = System.nanoTime() + Duration.ofSeconds(5).toNanos();
        while (System.nanoTime() < deadline) {
            if (!admin.listTopics().names().get().contains(topic)) {
                return true;
            }
        }
        return false;
    }

    /** Through a consumer, because the admin client's own call changed its name between 2.8 and 4. */
    private static int partitions(JsonNode told, String topic) {
        try (var consumer = new KafkaConsumer<>(settings(told), new StringDeserializer(), new StringDeserializer())) {
            return consumer.partitionsFor(topic).size();
        }
    }

    private static void member(JsonNode told) throws Exception {
        Properties settings = settings(told);
        settings.put("group.id", told.get("group").asText());
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        settings.put("fetch.max.wait.ms", "100");
        if (told.get("protocol").asText().equals("consumer")) {
            settings.put("group.protocol", "consumer");
        } else {
            settings.put("session.timeout.ms", told.get("session_timeout_ms").asText());
            settings.put("heartbeat.interval.ms", "100");
        }
        if (!told.get("instance_id").isNull()) {
            settings.put("group.instance.id", told.get("instance_id").asText());
        }
        var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        Thread ending = new Thread(() -> wakeAtTheEndOfInput(consumer));
        ending.setDaemon(true);
        ending.start();
        List<String> topics = new ArrayList<>();
        told.get("topics").forEach(topic -> topics.add(topic.asText()));
        consumer.subscribe(topics, new Listener(consumer));
        try (consumer) {
            while (true) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(100));
                for (ConsumerRecord<String, String> record : records) {
                    say(Map.of("event", "record", "value", record.value()));
                }
                commit(consumer, records);
            }
        } catch (WakeupException leaving) {
            // The input has ended; closing the consumer says goodbye to the group.
        }
    }

    private static void commit(KafkaConsumer<String, String> consumer, ConsumerRecords<String, String> records) {
        if (records.isEmpty()) {
            return;
        }
        try {
            consumer.commitSync();
        } catch (WakeupException leaving) {
            throw leaving;
        } catch (KafkaException refused) {
            say(Map.of("event", "error", "code", -1, "text", refused.toString()));
        }
    }

    private static void wakeAtTheEndOfInput(KafkaConsumer<String, String> consumer) {
        try {
            System.in.readAllBytes();
        } catch (IOException closed) {
            // As good as its end.
        }
        consumer.wakeup();
    }

    private record Listener(KafkaConsumer<String, String> consumer) implements ConsumerRebalanceListener {
        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            say(Map.of("event", "assigned", "partitions", rows(consumer.assignment())));
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            say(Map.of("event", "revoked", "partitions", rows(Set.copyOf(partitions))));
        }
    }

    private static List<List<Object>> rows(Set<TopicPartition> partitions) {
        return partitions.stream().map(it -> List.<Object>of(it.topic(), it.partition())).toList();
    }

    static Properties settings(JsonNode told) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", told.get("bootstrap").asText());
        return settings;
    }

    private static synchronized void say(Map<String, ?> event) {
        try {
            System.out.println(JSON.writeValueAsString(event));
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }
}
