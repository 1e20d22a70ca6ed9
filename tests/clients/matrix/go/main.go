// go-redis and rueidis: one part of the client matrix. Arguments: client, port and part. With files in the environment,
// over TLS.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
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
