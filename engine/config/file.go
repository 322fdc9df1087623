package config

import (
	"fmt"
	"io"
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

// readFile gives the values of a file by key, none where no file is named. Viper's
// own look-up is not used: it folds case, so that a misspelt key could pass.
func readFile(path string) (map[string]string, error) {
	if path == "" {
		return nil, nil
	}
	format := strings.TrimPrefix(filepath.Ext(path), ".")
	if !slices.Contains([]string{"yaml", "yml", "toml", "json"}, format) {
		return nil, fmt.Errorf("file %s: its name must end in .yaml, .yml, .toml or .json", path)
	}
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
	decoder, err := viper.NewCodecRegistry().Decoder(format)
	if err != nil {
		return nil, fmt.Errorf("file %s: %w", path, err)
	}
	tree := map[string]any{}
	if len(strings.TrimSpace(string(text))) > 0 {
		if err := decoder.Decode(text, tree); err != nil {
			return nil, fmt.Errorf("file %s: %w", path, err)
		}
	}
	flat := map[string]string{}
	flatten(flat, "", tree)
	return flat, nil
}

// flatten names the values of nested tables with dots, and joins lists with commas.
func flatten(flat map[string]string, prefix string, tree map[string]any) {
	for name, value := range tree {
		switch v := value.(type) {
		case map[string]any:
			flatten(flat, prefix+name+".", v)
		case []any:
			items := make([]string, len(v))
			for i, item := range v {
				items[i] = scalar(item)
			}
			flat[prefix+name] = strings.Join(items, ",")
		default:
			flat[prefix+name] = scalar(v)
		}
	}
}

// scalar is the text of a value. JSON has no whole numbers, so that those come as
// floats.
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
