package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const longTimeout = 10 * time.Second

func transactional(given told, timeout time.Duration, more ...kgo.Opt) []kgo.Opt {
	return append([]kgo.Opt{
		kgo.SeedBrokers(strings.Split(given.Bootstrap, ",")...),
		kgo.TransactionalID(given.ID),
		kgo.TransactionTimeout(timeout),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	}, more...)
}

func begun(ctx context.Context, given told, timeout time.Duration, value string) *kgo.Client {
	client, err := kgo.NewClient(transactional(given, timeout)...)
	must(err)
	must(client.BeginTransaction())
	must(client.ProduceSync(ctx, &kgo.Record{Topic: given.Topic, Value: []byte(value)}).FirstErr())
	return client
}

// rounds aborts every other transaction.
func rounds(given told) {
	ctx := context.Background()
	client, err := kgo.NewClient(transactional(given, longTimeout)...)
	must(err)
	defer client.Close()
	committed := []string{}
	for round := range given.Count {
		must(client.BeginTransaction())
		values := []string{}
		for partition := range given.Partitions {
			value := fmt.Sprintf("%d-%d", round, partition)
			record := &kgo.Record{Topic: given.Topic, Partition: int32(partition), Value: []byte(value)}
			must(client.ProduceSync(ctx, record).FirstErr())
			values = append(values, value)
		}
		must(client.EndTransaction(ctx, round%2 == 0))
		if round%2 == 0 {
			committed = append(committed, values...)
		}
	}
	say(map[string]any{"committed": committed})
}

func fencing(given told) {
	ctx := context.Background()
	zombie := begun(ctx, given, longTimeout, "of a zombie")
	successor := begun(ctx, given, longTimeout, "of its successor")
	refused := refusal(zombie.EndTransaction(ctx, kgo.TryCommit))
	must(successor.EndTransaction(ctx, kgo.TryCommit))
	say(map[string]any{"refused": refused})
}

// timeout ends a transaction only when its time is over, which the last stable offset shows.
func timeout(given told) {
	ctx := context.Background()
	client := begun(ctx, given, time.Second, "too late")
	for stableOffsets(ctx, client, given.Topic)[0] == 0 {
	}
	say(map[string]any{"refused": refusal(client.EndTransaction(ctx, kgo.TryCommit))})
}

func refusal(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func stableOffsets(ctx context.Context, client *kgo.Client, topic string) map[int32]int64 {
	listed, err := kadm.NewClient(client).ListCommittedOffsets(ctx, topic)
	must(err)
	found := map[int32]int64{}
	for partition, row := range listed[topic] {
		must(row.Err)
		found[partition] = row.Offset
	}
	return found
}

// transform consumes from `topic` and produces to `target`: each record once, though the first transaction is aborted.
func transform(given told) {
	ctx := context.Background()
	session, err := kgo.NewGroupTransactSession(transactional(given, longTimeout,
		kgo.ConsumerGroup(given.Group),
		kgo.ConsumeTopics(given.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
		kgo.FetchMaxWait(100*time.Millisecond),
	)...)
	must(err)
	defer session.Close()
	taken, hasAborted := 0, false
	for taken < given.Count {
		fetches := session.PollRecords(ctx, 7)
		must(fetches.Err())
		if fetches.Empty() {
			continue
		}
		must(session.Begin())
		fetches.EachRecord(func(record *kgo.Record) {
			value := fmt.Sprintf("<%s>", record.Value)
			made := &kgo.Record{Topic: given.Target, Partition: record.Partition, Value: []byte(value)}
			session.Produce(ctx, made, func(_ *kgo.Record, err error) { must(err) })
		})
		if !hasAborted {
			must(session.Client().Flush(ctx))
		}
		committed, err := session.End(ctx, kgo.TransactionEndTry(hasAborted))
		must(err)
		if committed {
			taken += fetches.NumRecords()
		}
		hasAborted = true
	}
	say(map[string]any{"count": taken})
}

// read takes what is committed, up to the last stable offset. Control records show that it has come there.
func read(given told) {
	ctx := context.Background()
	start := map[int32]kgo.Offset{}
	for partition := range given.Partitions {
		start[int32(partition)] = kgo.NewOffset().AtStart()
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(given.Bootstrap, ",")...),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{given.Topic: start}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxWait(100*time.Millisecond),
		kgo.KeepControlRecords(),
	)
	must(err)
	defer client.Close()
	ends := stableOffsets(ctx, client, given.Topic)
	values := []string{}
	for isBefore(ends) {
		fetches := client.PollFetches(ctx)
		must(fetches.Err())
		fetches.EachRecord(func(record *kgo.Record) {
			if record.Offset+1 >= ends[record.Partition] {
				delete(ends, record.Partition)
			}
			if !record.Attrs.IsControl() {
				values = append(values, string(record.Value))
			}
		})
	}
	say(map[string]any{"values": values})
}

func isBefore(ends map[int32]int64) bool {
	for _, end := range ends {
		if end > 0 {
			return true
		}
	}
	return false
}
