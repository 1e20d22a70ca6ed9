package main

import (
	"time"

	"github.com/redis/go-redis/v9"
)

func goRedisParts(address string) map[string]func() {
	client := redis.NewClient(&redis.Options{Addr: address, TLSConfig: encryption()})
	return map[string]func(){
		"strings": func() {
			check(client.Set(ctx, "k", "v", 100*time.Second).Err())
			values, err := client.MGet(ctx, "k", "none").Result()
			check(err)
			equal(values, []any{"v", nil})
			equal(client.IncrBy(ctx, "n", 5).Val(), int64(5))
			equal(client.Get(ctx, "none").Err(), redis.Nil)
		},
		"types": func() {
			equal(client.RPush(ctx, "l", 1, 2, 3).Val(), int64(3))
			equal(client.LRange(ctx, "l", 0, -1).Val(), []string{"1", "2", "3"})
			equal(client.HSet(ctx, "h", "a", 1, "b", 2).Val(), int64(2))
			equal(client.HGetAll(ctx, "h").Val(), map[string]string{"a": "1", "b": "2"})
			equal(client.SAdd(ctx, "s", "x", "y").Val(), int64(2))
			equal(client.SMIsMember(ctx, "s", "x", "z").Val(), []bool{true, false})
			equal(client.ZAdd(ctx, "z", redis.Z{Score: 1.5, Member: "m"}).Val(), int64(1))
			equal(client.ZRangeWithScores(ctx, "z", 0, -1).Val(), []redis.Z{{Score: 1.5, Member: "m"}})
			id, err := client.XAdd(ctx, &redis.XAddArgs{Stream: "x", Values: []any{"f", "v"}}).Result()
			check(err)
			entries, err := client.XRange(ctx, "x", "-", "+").Result()
			check(err)
			equal(entries, []redis.XMessage{{ID: id, Values: map[string]any{"f": "v"}}})
			equal(client.SetBit(ctx, "b", 3, 1).Val(), int64(0))
			equal(client.PFAdd(ctx, "p", "a", "b").Val(), int64(1))
			palermo := &redis.GeoLocation{Name: "Palermo", Longitude: 13.361389, Latitude: 38.115556}
			equal(client.GeoAdd(ctx, "g", palermo).Val(), int64(1))
		},
		"pipeline": func() {
			pipeline := client.Pipeline()
			for range pipelineLen {
				pipeline.Incr(ctx, "n")
			}
			replies, err := pipeline.Exec(ctx)
			check(err)
			for index, reply := range replies {
				equal(reply.(*redis.IntCmd).Val(), int64(index+1))
			}
			equal(len(replies), pipelineLen)
		},
		"multi": func() {
			var last *redis.IntCmd
			check(client.Watch(ctx, func(tx *redis.Tx) error {
				_, err := tx.TxPipelined(ctx, func(pipeline redis.Pipeliner) error {
					pipeline.Incr(ctx, "n")
					last = pipeline.Incr(ctx, "n")
					return nil
				})
				return err
			}, "n"))
			equal(last.Val(), int64(2))
		},
		"script": func() {
			script := redis.NewScript("return redis.call('INCRBY', KEYS[1], ARGV[1])")
			got, err := script.Run(ctx, client, []string{"n"}, 7).Int64()
			check(err)
			equal(got, int64(7))
		},
		// Counts at whatever is the primary until it is told to stop; the address is that of a Sentinel.
		"sentinel": func() {
			primary := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "group", SentinelAddrs: []string{address}})
			for {
				if primary.Incr(ctx, "count:go-redis").Err() == nil && primary.Get(ctx, "stop").Err() == nil {
					return
				}
				time.Sleep(20 * time.Millisecond)
			}
		},
		"pubsub": func() {
			subscription := client.Subscribe(ctx, "c")
			_, err := subscription.Receive(ctx)
			check(err)
			equal(client.Publish(ctx, "c", "hello").Val(), int64(1))
			message, err := subscription.ReceiveMessage(ctx)
			check(err)
			equal([]string{message.Channel, message.Payload}, []string{"c", "hello"})
		},
	}
}
