// go-redis and rueidis: one part of the client matrix. Arguments: client, port and part.
package main

import (
	"context"
	"fmt"
	"os"
	"reflect"
)

const pipelineLen = 10_000

var ctx = context.Background()

func check(err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(1)
	}
}

func equal(got, want any) {
	if !reflect.DeepEqual(got, want) {
		fmt.Fprintf(os.Stderr, "got %#v, not %#v\n", got, want)
		os.Exit(1)
	}
}

func main() {
	client, address, part := os.Args[1], "127.0.0.1:"+os.Args[2], os.Args[3]
	var parts map[string]func()
	switch client {
	case "go-redis":
		parts = goRedisParts(address)
	case "rueidis":
		parts = rueidisParts(address)
	}
	run, ok := parts[part]
	if !ok {
		fmt.Fprintf(os.Stderr, "%s has no part %s\n", client, part)
		os.Exit(2)
	}
	run()
}
