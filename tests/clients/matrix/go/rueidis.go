package main

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/redis/rueidis"
)

func rueidisParts(address string) map[string]func() {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{address}, DisableCache: true, TLSConfig: encryption()})
	check(err)
	integer := func(command rueidis.Completed) int64 {
		got, err := client.Do(ctx, command).AsInt64()
		check(err)
		return got
	}
	return map[string]func(){
		"strings": func() {
			check(client.Do(ctx, client.B().Set().Key("k").Value("v").ExSeconds(100).Build()).Error())
			values, err := client.Do(ctx, client.B().Mget().Key("k", "none").Build()).ToArray()
			check(err)
			first, err := values[0].ToString()
			check(err)
			equal(first, "v")
			equal(values[1].IsNil(), true)
			equal(integer(client.B().Incrby().Key("n").Increment(5).Build()), int64(5))
		},
		"types": func() {
			equal(integer(client.B().Rpush().Key("l").Element("1", "2", "3").Build()), int64(3))
			elements, err := client.Do(ctx, client.B().Lrange().Key("l").Start(0).Stop(-1).Build()).AsStrSlice()
			check(err)
			equal(elements, []string{"1", "2", "3"})
			equal(integer(client.B().Hset().Key("h").FieldValue().FieldValue("a", "1").FieldValue("b", "2").Build()), int64(2))
			fields, err := client.Do(ctx, client.B().Hgetall().Key("h").Build()).AsStrMap()
			check(err)
			equal(fields, map[string]string{"a": "1", "b": "2"})
			equal(integer(client.B().Sadd().Key("s").Member("x", "y").Build()), int64(2))
			equal(integer(client.B().Zadd().Key("z").ScoreMember().ScoreMember(1.5, "m").Build()), int64(1))
			scores, err := client.Do(ctx, client.B().Zrange().Key("z").Min("0").Max("-1").Withscores().Build()).AsZScores()
			check(err)
			equal(scores, []rueidis.ZScore{{Member: "m", Score: 1.5}})
			check(client.Do(ctx, client.B().Xadd().Key("x").Id("*").FieldValue().FieldValue("f", "v").Build()).Error())
			entries, err := client.Do(ctx, client.B().Xrange().Key("x").Start("-").End("+").Build()).AsXRange()
			check(err)
			equal(entries[0].FieldValues, map[string]string{"f": "v"})
			equal(integer(client.B().Setbit().Key("b").Offset(3).Value(1).Build()), int64(0))
			equal(integer(client.B().Pfadd().Key("p").Element("a", "b").Build()), int64(1))
			palermo := client.B().Geoadd().Key("g").LongitudeLatitudeMember()
			equal(integer(palermo.LongitudeLatitudeMember(13.361389, 38.115556, "Palermo").Build()), int64(1))
		},
		"pipeline": func() {
			commands := make(rueidis.Commands, pipelineLen)
			for index := range commands {
				commands[index] = client.B().Incr().Key("n").Build()
			}
			for index, reply := range client.DoMulti(ctx, commands...) {
				got, err := reply.AsInt64()
				check(err)
				equal(got, int64(index+1))
			}
		},
		"auto": func() {
			var group sync.WaitGroup
			var highest atomic.Int64
			for range pipelineLen {
				group.Go(func() {
					got := integer(client.B().Incr().Key("n").Build())
					for seen := highest.Load(); got > seen && !highest.CompareAndSwap(seen, got); seen = highest.Load() {
					}
				})
			}
			group.Wait()
			equal(highest.Load(), int64(pipelineLen))
		},
		"multi": func() {
			check(client.Dedicated(func(own rueidis.DedicatedClient) error {
				replies := own.DoMulti(ctx,
					own.B().Watch().Key("n").Build(), own.B().Multi().Build(), own.B().Incr().Key("n").Build(),
					own.B().Incr().Key("n").Build(), own.B().Exec().Build())
				got, err := replies[len(replies)-1].AsIntSlice()
				equal(got, []int64{1, 2})
				return err
			}))
		},
		"script": func() {
			script := rueidis.NewLuaScript("return redis.call('INCRBY', KEYS[1], ARGV[1])")
			got, err := script.Exec(ctx, client, []string{"n"}, []string{"7"}).AsInt64()
			check(err)
			equal(got, int64(7))
		},
		"pubsub": func() {
			own, release := client.Dedicate()
			defer release()
			messages := make(chan rueidis.PubSubMessage, 1)
			own.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(message rueidis.PubSubMessage) { messages <- message }})
			check(own.Do(context.Background(), own.B().Subscribe().Channel("c").Build()).Error())
			equal(integer(client.B().Publish().Channel("c").Message("hello").Build()), int64(1))
			message := <-messages
			equal([]string{message.Channel, message.Message}, []string{"c", "hello"})
		},
	}
}
