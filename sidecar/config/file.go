package config

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/viper"
)

// maxFile is the largest configuration file that is read, in bytes.
const maxFile = 1 << 20

// readFile gives the values of a file by key, none where no file is named.
// Viper's own look-up is not used: it folds case and forgets empty tables, so
// that a misspelt key could pass.
func readFile(path string) (map[string]any, error) {
	if path == "" {
		return nil, nil
	}
	format := strings.TrimPrefix(filepath.Ext(path), ".")
	if !slices.Contains([]string{"yaml", "yml", "toml", "json"}, format) {
		return nil, fmt.Errorf("file %s: its name must end in .yaml, .yml, .toml or .json", path)
	}
	text, err := readBounded(path)
	if err != nil {
		return nil, err
	}
	decoder, err := viper.NewCodecRegistry().Decoder(format)
	if err != nil {
		return nil, fmt.Errorf("file %s: %w", path, err)
	}
	tree := make(map[string]any)
	if len(strings.TrimSpace(string(text))) > 0 {
		if err := decoder.Decode(text, tree); err != nil {
			return nil, fmt.Errorf("file %s: %w", path, err)
		}
	}
	flat := make(map[string]any)
	flatten(flat, "", tree)
	return flat, nil
}

func readBounded(path string) ([]byte, error) {
	in, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open the file: %w", err)
	}
	defer in.Close()
	text, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read the file: %w", err)
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("file %s is larger than %d bytes", path, maxFile)
	}
	return text, nil
}

// flatten names the values of nested tables with dots. An empty table stays,
// under its own name, unless keys of that table exist.
func flatten(flat map[string]any, prefix string, tree map[string]any) {
	for name, value := range tree {
		table, nested := value.(map[string]any)
		switch {
		case nested && len(table) > 0:
			flatten(flat, prefix+name+".", table)
		case nested && isTable(prefix+name):
		default:
			flat[prefix+name] = value
		}
	}
}

func isTable(name string) bool {
	return slices.ContainsFunc(settings, func(s setting) bool { return strings.HasPrefix(s.name, name+".") })
}

func unknownKeys(file map[string]any, path string) (problems []error) {
	for _, key := range slices.Sorted(maps.Keys(file)) {
		if !slices.Contains(Keys(), key) {
			problems = append(problems, fmt.Errorf("%w: key %.80q in file %s is not known; allowed are %s",
				ErrConfig, key, path, strings.Join(Keys(), ", ")))
		}
	}
	return problems
}

// scalar is the text of a file's value; lists and tables give a text that no
// setting allows. JSON has no whole numbers, so that those come as floats.
func scalar(value any) string {
	switch v := value.(type) {
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return strconv.FormatInt(int64(v), 10)
		}
	case nil:
		return ""
	}
	return fmt.Sprint(value)
}

// listed is a list of engines as their flag has it: each is a text, or a table
// with a name.
func listed(value any) string {
	list, ok := value.([]any)
	if !ok {
		return scalar(value)
	}
	var items []string
	for _, value := range list {
		item := scalar(value)
		if table, ok := value.(map[string]any); ok {
			item = fmt.Sprintf("%v=%v", table["name"], cmp.Or(table["url"], any("")))
			for _, name := range slices.Sorted(maps.Keys(table)) {
				if name != "name" && name != "url" {
					item += fmt.Sprintf(";%s=%v", name, table[name])
				}
			}
		}
		items = append(items, item)
	}
	return strings.Join(items, ",")
}
