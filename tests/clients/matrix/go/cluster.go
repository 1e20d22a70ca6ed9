package main

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"
)

// numbered returns the names of 20 channels.
func numbered(prefix string) []string {
	names := []string{}
	for n := range 20 {
		names = append(names, fmt.Sprintf("%s%d", prefix, n))
	}
	return names
}

// count increments 30 keys at the same time until it is told to stop, and prints what was acknowledged, and the errors.
func count(client string, increment func(key string) error, isStopped func() (bool, error)) {
	var lock sync.Mutex
	acknowledged, errors := map[string]int{}, map[string]int{}
	note := func(key string, err error) {
		lock.Lock()
		defer lock.Unlock()
		if err != nil {
			errors[err.Error()]++
		} else {
			acknowledged[key]++
		}
	}
	for {
		var round sync.WaitGroup
		for n := range 30 {
			round.Go(func() {
				key := fmt.Sprintf("count:%s:%d", client, n)
				note(key, increment(key))
			})
		}
		round.Wait()
		stopped, err := isStopped()
		if err != nil {
			note("", err)
		}
		if stopped {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	check(json.NewEncoder(os.Stdout).Encode(map[string]map[string]int{"acknowledged": acknowledged, "errors": errors}))
}
