// sarama behind the line protocol of tests/interop/member.py and programs.py.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

type told struct {
	Bootstrap        string   `json:"bootstrap"`
	Topic            string   `json:"topic"`
	Count            int      `json:"count"`
	Partitions       int      `json:"partitions"`
	Prefix           string   `json:"prefix"`
	Codec            string   `json:"codec"`
	Group            string   `json:"group"`
	Topics           []string `json:"topics"`
	SessionTimeoutMs int      `json:"session_timeout_ms"`
	InstanceID       *string  `json:"instance_id"`
}

var speaking sync.Mutex

func say(event map[string]any) {
	line, err := json.Marshal(event)
	must(err)
	speaking.Lock()
	defer speaking.Unlock()
	fmt.Println(string(line))
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	var given told
	must(json.Unmarshal([]byte(os.Args[2]), &given))
	switch os.Args[1] {
	case "produce":
		produce(given)
	case "admin":
		admin(given)
	case "member":
		member(given)
	}
}

func settings() *sarama.Config {
	config := sarama.NewConfig()
	// The newest that sarama knows, so that it sends its newest requests.
	config.Version = sarama.MaxVersion
	return config
}

func produce(given told) {
	config := settings()
	codecs := map[string]sarama.CompressionCodec{
		"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
		"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
	}
	config.Producer.Compression = codecs[given.Codec]
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Idempotent = true
	config.Net.MaxOpenRequests = 1
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	producer, err := sarama.NewSyncProducer(strings.Split(given.Bootstrap, ","), config)
	must(err)
	defer producer.Close()
	messages := make([]*sarama.ProducerMessage, given.Count)
	for index := range messages {
		value := fmt.Sprintf("%s-%d", given.Prefix, index)
		messages[index] = &sarama.ProducerMessage{
			Topic: given.Topic, Partition: int32(index % given.Partitions), Value: sarama.StringEncoder(value),
		}
	}
	must(producer.SendMessages(messages))
	say(map[string]any{"event": "produced", "count": given.Count})
}

func admin(given told) {
	admin, err := sarama.NewClusterAdmin(strings.Split(given.Bootstrap, ","), settings())
	must(err)
	defer admin.Close()
	found := map[string]any{}

	retention, limit := "3600000", "2000"
	detail := &sarama.TopicDetail{
		NumPartitions: 2, ReplicationFactor: -1, ConfigEntries: map[string]*string{"retention.ms": &retention},
	}
	must(admin.CreateTopic(given.Topic, detail, false))
	must(admin.CreatePartitions(given.Topic, 3, nil, false))
	change := map[string]sarama.IncrementalAlterConfigsEntry{
		"max.message.bytes": {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &limit},
	}
	must(admin.IncrementalAlterConfig(sarama.TopicResource, given.Topic, change, false))
	resource := sarama.ConfigResource{
		Type: sarama.TopicResource, Name: given.Topic, ConfigNames: []string{"retention.ms", "max.message.bytes"},
	}
	entries, err := admin.DescribeConfig(resource)
	must(err)
	for _, entry := range entries {
		found[entry.Name] = entry.Value
	}
	topics, err := admin.ListTopics()
	must(err)
	detailed, listed := topics[given.Topic]
	found["listed"] = listed
	found["partitions"] = detailed.NumPartitions
	brokers, _, err := admin.DescribeCluster()
	must(err)
	found["brokers"] = len(brokers)
	must(admin.DeleteTopic(given.Topic))
	found["deleted"] = isGone(admin, given.Topic)
	say(found)
}

// isGone allows for a broker whose metadata follows the answer a moment later.
func isGone(admin sarama.ClusterAdmin, topic string) bool {
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); {
		topics, err := admin.ListTopics()
		must(err)
		if _, listed := topics[topic]; !listed {
			return true
		}
	}
	return false
}

type handler struct{}

func rows(claims map[string][]int32) [][]any {
	found := [][]any{}
	for topic, indexes := range claims {
		for _, index := range indexes {
			found = append(found, []any{topic, index})
		}
	}
	return found
}

func (handler) Setup(session sarama.ConsumerGroupSession) error {
	say(map[string]any{"event": "assigned", "partitions": rows(session.Claims())})
	return nil
}

func (handler) Cleanup(session sarama.ConsumerGroupSession) error {
	say(map[string]any{"event": "revoked", "partitions": rows(session.Claims())})
	return nil
}

func (handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		say(map[string]any{"event": "record", "value": string(message.Value)})
		session.MarkMessage(message, "")
		session.Commit()
	}
	return nil
}

func member(given told) {
	config := settings()
	config.Consumer.Group.Session.Timeout = time.Duration(given.SessionTimeoutMs) * time.Millisecond
	config.Consumer.Group.Heartbeat.Interval = 100 * time.Millisecond
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.MaxWaitTime = 100 * time.Millisecond
	config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategyRange()}
	if given.InstanceID != nil {
		config.Consumer.Group.InstanceId = *given.InstanceID
	}
	group, err := sarama.NewConsumerGroup(strings.Split(given.Bootstrap, ","), given.Group, config)
	must(err)
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.ReadAll(os.Stdin)
		stop()
	}()
	for ctx.Err() == nil {
		if err := group.Consume(ctx, given.Topics, handler{}); err != nil && ctx.Err() == nil {
			say(map[string]any{"event": "error", "code": -1, "text": err.Error()})
		}
	}
	must(group.Close())
}
