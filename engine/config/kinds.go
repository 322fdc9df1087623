package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The kinds of values. Each writes to where it is told.

const (
	truth       = "true or false"
	maxDuration = 24 * time.Hour
	maxList     = 256
)

func number(name string, fallback, least, most int, help string, at *int) setting {
	return setting{name, help, strconv.Itoa(fallback), fmt.Sprintf("a whole number from %d to %d", least, most), func(text string) error {
		n, err := strconv.Atoi(text)
		if err != nil || n < least || n > most {
			return errNotAllowed
		}
		*at = n
		return nil
	}}
}

func rate(name, help string, at *float64) setting {
	return setting{name, help, "0", "a number that is not negative", func(text string) error {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || !(n >= 0) {
			return errNotAllowed
		}
		*at = n
		return nil
	}}
}

func duration(name, fallback, help string, at *time.Duration) setting {
	return setting{name, help, fallback, fmt.Sprintf("a duration such as 20ms or 1m30s, at most %s", maxDuration), func(text string) error {
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 || d > maxDuration {
			return errNotAllowed
		}
		*at = d
		return nil
	}}
}

func boolean(name, help string, at *bool) setting {
	return setting{name, help, "false", truth, func(text string) error {
		b, err := strconv.ParseBool(text)
		*at = b
		return err
	}}
}

func text(name, fallback, help string, at *string) setting {
	return setting{name, help, fallback, "a text", func(text string) error {
		*at = text
		return nil
	}}
}

func list(name, help string, at *[]string) setting {
	return setting{name, help, "", "a list, separated by commas", func(text string) error {
		*at = nil
		for item := range strings.SplitSeq(text, ",") {
			if item = strings.TrimSpace(item); item != "" {
				*at = append(*at, item)
			}
		}
		if len(*at) > maxList {
			return errNotAllowed
		}
		return nil
	}}
}

func choice[T any](name, fallback, help string, at *T, of map[string]T, order ...string) setting {
	return setting{name, help, fallback, "one of " + strings.Join(order, ", "), func(text string) error {
		v, ok := of[text]
		if !ok {
			return errNotAllowed
		}
		*at = v
		return nil
	}}
}
