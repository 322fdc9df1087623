package config

import (
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Effective is one key as it is in force.
type Effective struct {
	Key   string `json:"key"`
	Value string `json:"value"`
	From  string `json:"from"`
	Help  string `json:"help"`
}

// All lists every key with its value and where that came from.
func (c Config) All(origin Origin) []Effective {
	all := make([]Effective, len(settings))
	for i, s := range settings {
		all[i] = Effective{s.name, s.get(&c), origin[s.name], s.help}
	}
	return all
}

// Show prints All as a table for people.
func (c Config) Show(w io.Writer, origin Origin) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "KEY\tVALUE\tFROM\tWHAT IT IS")
	for _, e := range c.All(origin) {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", e.Key, printable(e.Value), printable(e.From), e.Help)
	}
	return table.Flush()
}

// ShowJSON prints All, one JSON object a line.
func (c Config) ShowJSON(w io.Writer, origin Origin) error {
	for _, e := range c.All(origin) {
		line, err := json.Marshal(e, jsontext.Multiline(false))
		if err != nil {
			return fmt.Errorf("write %s: %w", e.Key, err)
		}
		if _, err := w.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	return nil
}

// printable keeps control characters of a path off the terminal.
func printable(s string) string {
	quoted := strconv.Quote(s)
	return quoted[1 : len(quoted)-1]
}
