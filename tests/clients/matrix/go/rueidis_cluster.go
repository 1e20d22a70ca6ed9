package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

func rueidisClusterParts(addresses []string) map[string]func() {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: addresses, DisableCache: true})
	check(err)
	integer := func(command rueidis.Completed) int64 {
		got, err := client.Do(ctx, command).AsInt64()
		check(err)
		return got
	}
	return map[string]func(){
		"keys": func() {
			for n := range 300 {
				key := fmt.Sprintf("k%d", n)
				check(client.Do(ctx, client.B().Set().Key(key).Value(strconv.Itoa(n)).Build()).Error())
				got, err := client.Do(ctx, client.B().Get().Key(key).Build()).AsInt64()
				check(err)
				equal(got, int64(n))
			}
			check(client.Do(ctx, client.B().Mset().KeyValue().KeyValue("{t}a", "1").KeyValue("{t}b", "2").Build()).Error())
			values, err := client.Do(ctx, client.B().Mget().Key("{t}a", "{t}b", "{t}c").Build()).AsStrSlice()
			check(err)
			equal(values, []string{"1", "2", ""})
			// Of many slots, which it splits.
			keys := []string{}
			for n := range 300 {
				keys = append(keys, fmt.Sprintf("k%d", n))
			}
			all, err := rueidis.MGet(client, ctx, keys)
			check(err)
			equal(len(all), 300)
			found := map[string]bool{}
			for _, node := range client.Nodes() {
				scanner := rueidis.NewScanner(func(cursor uint64) (rueidis.ScanEntry, error) {
					return node.Do(ctx, node.B().Scan().Cursor(cursor).Count(50).Build()).AsScanEntry()
				})
				for key := range scanner.Iter() {
					found[key] = true
				}
				check(scanner.Err())
			}
			equal(len(found), 302)
		},
		"pipeline": func() {
			commands := make(rueidis.Commands, 1000)
			for n := range commands {
				commands[n] = client.B().Incrby().Key(fmt.Sprintf("p%d", n%250)).Increment(int64(n)).Build()
			}
			sums := map[int]int64{}
			for n, reply := range client.DoMulti(ctx, commands...) {
				got, err := reply.AsInt64()
				check(err)
				sums[n%250] += int64(n)
				equal(got, sums[n%250])
			}
			equal(len(sums), 250)
		},
		"multi": func() {
			check(client.Dedicated(func(own rueidis.DedicatedClient) error {
				replies := own.DoMulti(ctx,
					own.B().Watch().Key("{m}a").Build(), own.B().Multi().Build(), own.B().Incr().Key("{m}a").Build(),
					own.B().Incr().Key("{m}b").Build(), own.B().Incr().Key("{m}a").Build(), own.B().Exec().Build())
				got, err := replies[len(replies)-1].AsIntSlice()
				equal(got, []int64{1, 1, 2})
				return err
			}))
			// It refuses to make commands whose keys are of two slots, but for those that are built word by word.
			refused := client.Do(ctx, client.B().Arbitrary("RENAME").Keys("a").Args("b").Build()).Error()
			equal(strings.HasPrefix(refused.Error(), "CROSSSLOT "), true)
		},
		"script": func() {
			script := rueidis.NewLuaScript("return redis.call('INCRBY', KEYS[1], ARGV[1]) -- rueidis")
			for n := range 20 {
				key := fmt.Sprintf("s%d", n)
				got, err := script.Exec(ctx, client, []string{key}, []string{strconv.Itoa(n)}).AsInt64()
				check(err)
				equal(got, int64(n))
				text, err := client.Do(ctx, client.B().Eval().Script("return KEYS[1]").Numkeys(1).Key(key).Build()).ToString()
				check(err)
				equal(text, key)
				equal(integer(client.B().Fcall().Function("add_to").Numkeys(1).Key(key).Arg("7").Build()), int64(n+7))
			}
		},
		"pubsub": func() {
			own, release := client.Dedicate()
			defer release()
			channels, messages := numbered("c"), listen(own)
			check(own.Do(ctx, own.B().Subscribe().Channel(channels...).Build()).Error())
			nodes := client.Nodes()
			for n, channel := range channels {
				node := nodes[addresses[n%len(addresses)]]
				check(node.Do(ctx, node.B().Publish().Channel(channel).Message(strconv.Itoa(n)).Build()).Error())
			}
			heard(messages, channels)
		},
		// A dedicated connection is for one slot.
		"shards": func() {
			for n := range 20 {
				own, release := client.Dedicate()
				messages := listen(own)
				channel := fmt.Sprintf("sc%d", n)
				check(own.Do(ctx, own.B().Ssubscribe().Channel(channel).Build()).Error())
				equal(integer(client.B().Spublish().Channel(channel).Message("0").Build()), int64(1))
				heard(messages, []string{channel})
				release()
			}
		},
		"count": func() {
			count("rueidis", func(key string) error {
				return client.Do(ctx, client.B().Incr().Key(key).Build()).Error()
			}, func() (bool, error) {
				return client.Do(ctx, client.B().Exists().Key("stop").Build()).AsBool()
			})
		},
	}
}

// listen returns the messages that come on a connection.
func listen(own rueidis.DedicatedClient) chan rueidis.PubSubMessage {
	messages := make(chan rueidis.PubSubMessage, 100)
	own.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(message rueidis.PubSubMessage) { messages <- message }})
	return messages
}

// heard waits for one message on each channel, with the channel's index.
func heard(messages chan rueidis.PubSubMessage, channels []string) {
	got, want := map[string]string{}, map[string]string{}
	for n, channel := range channels {
		want[channel] = strconv.Itoa(n)
		select {
		case message := <-messages:
			got[message.Channel] = message.Message
		case <-time.After(10 * time.Second):
			equal(got, want)
		}
	}
	equal(got, want)
}
