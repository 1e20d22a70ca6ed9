// One measurement of rueidis: clients CASE URL. Prints commands a second and the process's CPU time for each command in
// microseconds. As of the Rust clients, one thread runs the program's code.
package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/redis/rueidis"
)

const (
	pipeline  = 1000
	pipelines = 1000
	tasks     = 256
	calls     = 4000
)

func cpu() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// Pipelines one after the other, of the commands that `command` makes.
func pipelined(client rueidis.Client, command func(n int) rueidis.Completed) int {
	for round := range pipelines {
		commands := make(rueidis.Commands, 0, pipeline)
		for n := range pipeline {
			commands = append(commands, command(round+n))
		}
		for _, reply := range client.DoMulti(context.Background(), commands...) {
			check(reply.Error())
		}
	}
	return pipelines * pipeline
}

func concurrent(client rueidis.Client) int {
	var done sync.WaitGroup
	for task := range tasks {
		done.Add(1)
		go func() {
			defer done.Done()
			key := strconv.Itoa(task)
			for n := range calls {
				set := client.B().Set().Key(key).Value(strconv.Itoa(n)).Build()
				check(client.Do(context.Background(), set).Error())
			}
		}()
	}
	done.Wait()
	return tasks * calls
}

func main() {
	runtime.GOMAXPROCS(1)
	options, err := rueidis.ParseURL(os.Args[2])
	check(err)
	options.DisableCache = true
	// As of the others, one connection.
	options.PipelineMultiplex = -1
	client, err := rueidis.NewClient(options)
	check(err)
	defer client.Close()
	before, started := cpu(), time.Now()
	var count int
	switch os.Args[1] {
	case "pipelines":
		count = pipelined(client, func(n int) rueidis.Completed {
			return client.B().Set().Key("key").Value(strconv.Itoa(n)).Build()
		})
	case "stream":
		// It has no streams: pipelines, whose replies are read.
		count = pipelined(client, func(int) rueidis.Completed { return client.B().Incr().Key("counter").Build() })
	case "tasks":
		count = concurrent(client)
	default:
		panic("no case is named " + os.Args[1])
	}
	micros := float64((cpu() - before).Nanoseconds()) / 1e3 / float64(count)
	fmt.Printf("%.0f %.4f\n", float64(count)/time.Since(started).Seconds(), micros)
}
