// kafkajs behind the line protocol of tests/interop/member.py and programs.py.
"use strict";

const { CompressionTypes, ConfigResourceTypes, Kafka, Partitioners, logLevel } = require("kafkajs");

const say = (event) => process.stdout.write(JSON.stringify(event) + "\n");

async function produce(kafka, told) {
  const codecs = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP };
  const producer = kafka.producer({
    idempotent: true,
    maxInFlightRequests: 1,
    createPartitioner: Partitioners.DefaultPartitioner,
  });
  await producer.connect();
  const messages = [];
  for (let index = 0; index < told.count; index++) {
    messages.push({ value: `${told.prefix}-${index}`, partition: index % told.partitions });
  }
  await producer.send({ topic: told.topic, messages, compression: codecs[told.codec] });
  await producer.disconnect();
  say({ event: "produced", count: messages.length });
}

async function admin(kafka, told) {
  const admin = kafka.admin();
  await admin.connect();
  const resource = { type: ConfigResourceTypes.TOPIC, name: told.topic };
  const names = ["retention.ms", "max.message.bytes"];
  await admin.createTopics({
    topics: [
      {
        topic: told.topic,
        numPartitions: 2,
        replicationFactor: -1,
        configEntries: [{ name: "retention.ms", value: "3600000" }],
      },
    ],
  });
  await admin.createPartitions({ topicPartitions: [{ topic: told.topic, count: 3 }] });
  // kafkajs knows AlterConfigs only, which sets back whatever it does not name.
  const configEntries = [
    { name: "retention.ms", value: "3600000" },
    { name: "max.message.bytes", value: "2000" },
  ];
  await admin.alterConfigs({ resources: [{ ...resource, configEntries }] });
  const described = await admin.describeConfigs({ resources: [{ ...resource, configNames: names }] });
  const found = {};
  for (const entry of described.resources[0].configEntries) {
    found[entry.configName] = entry.configValue;
  }
  const metadata = await admin.fetchTopicMetadata({ topics: [told.topic] });
  found.partitions = metadata.topics[0].partitions.length;
  found.listed = (await admin.listTopics()).includes(told.topic);
  found.brokers = (await admin.describeCluster()).brokers.length;
  await admin.deleteTopics({ topics: [told.topic] });
  found.deleted = await isGone(admin, told.topic);
  await admin.disconnect();
  say(found);
}

// Allows for a broker whose metadata follows the answer a moment later.
async function isGone(admin, topic) {
  for (const deadline = Date.now() + 5000; Date.now() < deadline; ) {
    if (!(await admin.listTopics()).includes(topic)) return true;
  }
  return false;
}

async function member(kafka, told) {
  const consumer = kafka.consumer({
    groupId: told.group,
    sessionTimeout: told.session_timeout_ms,
    heartbeatInterval: 100,
    maxWaitTimeInMs: 100,
  });
  let held = [];
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    held = Object.entries(payload.memberAssignment).flatMap(([topic, indexes]) => indexes.map((it) => [topic, it]));
    say({ event: "assigned", partitions: held });
  });
  consumer.on(consumer.events.REBALANCING, () => say({ event: "revoked", partitions: held }));
  await consumer.connect();
  await consumer.subscribe({ topics: told.topics, fromBeginning: true });
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ topic, partition, message }) => {
      say({ event: "record", value: message.value.toString() });
      await consumer.commitOffsets([{ topic, partition, offset: String(Number(message.offset) + 1) }]);
    },
  });
  process.stdin.resume();
  process.stdin.on("end", async () => {
    await consumer.disconnect();
    process.exit(0);
  });
}

async function main() {
  const told = JSON.parse(process.argv[3]);
  const kafka = new Kafka({ clientId: "interop", brokers: told.bootstrap.split(","), logLevel: logLevel.NOTHING });
  await { produce, admin, member }[process.argv[2]](kafka, told);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
