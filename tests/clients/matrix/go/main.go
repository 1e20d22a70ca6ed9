// go-redis and rueidis: parts of the client matrix. Arguments: client, port and parts; for a cluster the ports of some
// nodes. With files in the environment, over TLS. Prints each part that is through.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"reflect"
	"strings"
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

// encryption returns the configuration of TLS, or nil without one.
func encryption() *tls.Config {
	ca := os.Getenv("TLS_CA")
	if ca == "" {
		return nil
	}
	text, err := os.ReadFile(ca)
	check(err)
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	equal(config.RootCAs.AppendCertsFromPEM(text), true)
	if cert := os.Getenv("TLS_CERT"); cert != "" {
		own, err := tls.LoadX509KeyPair(cert, os.Getenv("TLS_KEY"))
		check(err)
		config.Certificates = []tls.Certificate{own}
	}
	return config
}

func main() {
	client, ports := os.Args[1], strings.Split(os.Args[2], ",")
	addresses := []string{}
	for _, port := range ports {
		addresses = append(addresses, "127.0.0.1:"+port)
	}
	var parts map[string]func()
	switch client {
	case "go-redis":
		parts = goRedisParts(addresses[0])
	case "rueidis":
		parts = rueidisParts(addresses[0])
	case "go-redis-cluster":
		parts = goRedisClusterParts(addresses)
	case "rueidis-cluster":
		parts = rueidisClusterParts(addresses)
	}
	for _, part := range os.Args[3:] {
		run, ok := parts[part]
		if !ok {
			fmt.Fprintf(os.Stderr, "%s has no part %s\n", client, part)
			os.Exit(2)
		}
		run()
		fmt.Println(part)
	}
}
