// Command big writes a trace of production size to standard output:
//
//	go run ./test/traces/big -requests 1000000 -incidents 155 -seed 1 > file
//
// See package test/traces/production for what is in it.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/kvwitness/kvwitness/test/traces/production"
)

func main() {
	var cfg production.Config
	flag.IntVar(&cfg.Requests, "requests", 1_000_000, "requests in all")
	flag.IntVar(&cfg.Incidents, "incidents", 155, "requests that are the incident")
	flag.Uint64Var(&cfg.Seed, "seed", 1, "one seed gives one trace")
	flag.Parse()
	if err := write(cfg); err != nil {
		fmt.Fprintln(os.Stderr, "big:", err)
		os.Exit(1)
	}
}

func write(cfg production.Config) error {
	g, err := production.New(cfg)
	if err != nil {
		return err
	}
	return g.Write(os.Stdout)
}
