package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

func goRedisClusterParts(addresses []string) map[string]func() {
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addresses})
	return map[string]func(){
		"keys": func() {
			for n := range 300 {
				key := fmt.Sprintf("k%d", n)
				check(client.Set(ctx, key, n, 0).Err())
				equal(client.Get(ctx, key).Val(), strconv.Itoa(n))
			}
			check(client.MSet(ctx, "{t}a", 1, "{t}b", 2).Err())
			equal(client.MGet(ctx, "{t}a", "{t}b", "{t}c").Val(), []any{"1", "2", nil})
			equal(client.DBSize(ctx).Val(), int64(302))
			var lock sync.Mutex
			found := map[string]bool{}
			check(client.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
				keys := node.Scan(ctx, 0, "", 50).Iterator()
				for keys.Next(ctx) {
					lock.Lock()
					found[keys.Val()] = true
					lock.Unlock()
				}
				return keys.Err()
			}))
			equal(len(found), 302)
		},
		"pipeline": func() {
			pipeline := client.Pipeline()
			for n := range 1000 {
				pipeline.IncrBy(ctx, fmt.Sprintf("p%d", n%250), int64(n))
			}
			replies, err := pipeline.Exec(ctx)
			check(err)
			equal(len(replies), 1000)
			sums := map[int]int64{}
			for n, reply := range replies {
				sums[n%250] += int64(n)
				equal(reply.(*redis.IntCmd).Val(), sums[n%250])
			}
		},
		"multi": func() {
			var replies []redis.Cmder
			check(client.Watch(ctx, func(tx *redis.Tx) error {
				var err error
				replies, err = tx.TxPipelined(ctx, func(pipeline redis.Pipeliner) error {
					pipeline.Incr(ctx, "{m}a")
					pipeline.Incr(ctx, "{m}b")
					pipeline.Incr(ctx, "{m}a")
					return nil
				})
				return err
			}, "{m}a"))
			equal(replies[2].(*redis.IntCmd).Val(), int64(2))
			equal(strings.HasPrefix(client.Rename(ctx, "a", "b").Err().Error(), "CROSSSLOT "), true)
		},
		"script": func() {
			script := redis.NewScript("return redis.call('INCRBY', KEYS[1], ARGV[1]) -- go-redis")
			for n := range 20 {
				key := fmt.Sprintf("s%d", n)
				got, err := script.Run(ctx, client, []string{key}, n).Int64()
				check(err)
				equal(got, int64(n))
				equal(client.Eval(ctx, "return KEYS[1]", []string{key}).Val(), key)
				equal(client.FCall(ctx, "add_to", []string{key}, 7).Val(), int64(n+7))
			}
		},
		"pubsub": func() {
			subscription := client.Subscribe(ctx)
			nodes := []*redis.Client{}
			for _, address := range addresses {
				nodes = append(nodes, redis.NewClient(&redis.Options{Addr: address}))
			}
			channels := numbered("c")
			check(subscription.Subscribe(ctx, channels...))
			receive(subscription, channels, func(n int, channel string) error {
				return nodes[n%len(nodes)].Publish(ctx, channel, n).Err()
			})
		},
		// One subscription is for one slot.
		"shards": func() {
			for n := range 20 {
				channels := []string{fmt.Sprintf("sc%d", n)}
				receive(client.SSubscribe(ctx, channels...), channels, func(n int, channel string) error {
					equal(client.SPublish(ctx, channel, n).Val(), int64(1))
					return nil
				})
			}
		},
		"count": func() {
			count("go-redis", func(key string) error {
				return client.Incr(ctx, key).Err()
			}, func() (bool, error) {
				found, err := client.Exists(ctx, "stop").Result()
				return found == 1, err
			})
		},
	}
}

// receive waits until all channels are subscribed to, publishes and waits for all messages.
func receive(subscription *redis.PubSub, channels []string, publish func(n int, channel string) error) {
	defer subscription.Close()
	for range channels {
		confirmed, err := subscription.ReceiveTimeout(ctx, 10*time.Second)
		check(err)
		equal(confirmed.(*redis.Subscription).Count > 0, true)
	}
	for n, channel := range channels {
		check(publish(n, channel))
	}
	got, want := map[string]string{}, map[string]string{}
	for n, channel := range channels {
		message, err := subscription.ReceiveTimeout(ctx, 10*time.Second)
		check(err)
		got[message.(*redis.Message).Channel] = message.(*redis.Message).Payload
		want[channel] = strconv.Itoa(n)
	}
	equal(got, want)
}
