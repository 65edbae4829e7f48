// franz-go behind the line protocol of tests/interop/member.py and programs.py.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
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
	Protocol         string   `json:"protocol"`
	ID               string   `json:"id"`
	Target           string   `json:"target"`
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
	case "transactions":
		rounds(given)
	case "fencing":
		fencing(given)
	case "timeout":
		timeout(given)
	case "transform":
		transform(given)
	case "read":
		read(given)
	}
}

func produce(given told) {
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(given.Bootstrap, ",")...),
		kgo.ProducerBatchCompression(codecs[given.Codec]),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(20*time.Millisecond),
	)
	must(err)
	defer client.Close()
	records := make([]*kgo.Record, given.Count)
	for index := range records {
		value := fmt.Sprintf("%s-%d", given.Prefix, index)
		records[index] = &kgo.Record{Topic: given.Topic, Partition: int32(index % given.Partitions), Value: []byte(value)}
	}
	must(client.ProduceSync(context.Background(), records...).FirstErr())
	say(map[string]any{"event": "produced", "count": given.Count})
}

func admin(given told) {
	ctx := context.Background()
	// It answers from its cache for as long as this, otherwise five seconds.
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(given.Bootstrap, ",")...), kgo.MetadataMinAge(10*time.Millisecond))
	must(err)
	defer client.Close()
	admin := kadm.NewClient(client)
	found := map[string]any{}

	retention, limit := "3600000", "2000"
	_, err = admin.CreateTopic(ctx, 2, -1, map[string]*string{"retention.ms": &retention}, given.Topic)
	must(err)
	updated, err := admin.UpdatePartitions(ctx, 3, given.Topic)
	must(err)
	must(updated.Error())
	change := kadm.AlterConfig{Op: kadm.SetConfig, Name: "max.message.bytes", Value: &limit}
	altered, err := admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{change}, given.Topic)
	must(err)
	must(altered[0].Err)
	configs, err := admin.DescribeTopicConfigs(ctx, given.Topic)
	must(err)
	for _, entry := range configs[0].Configs {
		if entry.Key == "retention.ms" || entry.Key == "max.message.bytes" {
			found[entry.Key] = *entry.Value
		}
	}
	topics, err := admin.ListTopics(ctx)
	must(err)
	found["listed"] = topics.Has(given.Topic)
	found["partitions"] = len(topics[given.Topic].Partitions)
	brokers, err := admin.ListBrokers(ctx)
	must(err)
	found["brokers"] = len(brokers)
	deleted, err := admin.DeleteTopics(ctx, given.Topic)
	must(err)
	must(deleted.Error())
	found["deleted"] = isGone(ctx, admin, given.Topic)
	say(found)
}

// isGone allows for a broker whose metadata follows the answer a moment later.
func isGone(ctx context.Context, admin *kadm.Client, topic string) bool {
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); {
		topics, err := admin.ListTopics(ctx)
		must(err)
		if !topics.Has(topic) {
			return true
		}
	}
	return false
}

func rows(partitions map[string][]int32) [][]any {
	found := [][]any{}
	for topic, indexes := range partitions {
		for _, index := range indexes {
			found = append(found, []any{topic, index})
		}
	}
	sort.Slice(found, func(a, b int) bool { return fmt.Sprint(found[a]) < fmt.Sprint(found[b]) })
	return found
}

// assignment adds up what a cooperative group gives in parts.
type assignment map[string]map[int32]bool

func (held assignment) change(partitions map[string][]int32, give bool) {
	for topic, indexes := range partitions {
		if held[topic] == nil {
			held[topic] = map[int32]bool{}
		}
		for _, index := range indexes {
			if give {
				held[topic][index] = true
			} else {
				delete(held[topic], index)
			}
		}
	}
}

func (held assignment) all() map[string][]int32 {
	found := map[string][]int32{}
	for topic, indexes := range held {
		for index := range indexes {
			found[topic] = append(found[topic], index)
		}
	}
	return found
}

func member(given told) {
	var mutex sync.Mutex
	held := assignment{}
	givenUp := func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
		mutex.Lock()
		defer mutex.Unlock()
		held.change(partitions, false)
		say(map[string]any{"event": "revoked", "partitions": rows(partitions)})
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(given.Bootstrap, ",")...),
		kgo.ConsumerGroup(given.Group),
		kgo.ConsumeTopics(given.Topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.SessionTimeout(time.Duration(given.SessionTimeoutMs) * time.Millisecond),
		kgo.HeartbeatInterval(100 * time.Millisecond),
		kgo.FetchMaxWait(100 * time.Millisecond),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			mutex.Lock()
			defer mutex.Unlock()
			held.change(partitions, true)
			say(map[string]any{"event": "assigned", "partitions": rows(held.all())})
		}),
		kgo.OnPartitionsRevoked(givenUp),
		// Without this, what is taken from a member that was fenced would count as held for ever.
		kgo.OnPartitionsLost(givenUp),
	}
	if given.InstanceID != nil {
		options = append(options, kgo.InstanceID(*given.InstanceID))
	}
	if given.Protocol == "consumer" {
		options = append(options, kgo.ServerSideBalancer())
	}
	ctx, stop := context.WithCancel(context.Background())
	client, err := kgo.NewClient(options...)
	must(err)
	go func() {
		_, _ = io.ReadAll(os.Stdin)
		stop()
	}()
	for {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			break
		}
		for _, failed := range fetches.Errors() {
			say(map[string]any{"event": "error", "code": -1, "text": failed.Err.Error()})
		}
		fetches.EachRecord(func(record *kgo.Record) {
			say(map[string]any{"event": "record", "value": string(record.Value)})
		})
		if err := client.CommitUncommittedOffsets(ctx); err != nil && ctx.Err() == nil {
			say(map[string]any{"event": "error", "code": -1, "text": err.Error()})
		}
	}
	client.Close()
}
