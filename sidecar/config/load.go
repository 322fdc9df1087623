package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// Prefix begins every environment variable of kvwitness.
const Prefix = "KVWITNESS_"

// FileVariable names the file where no --config does.
const FileVariable = Prefix + "CONFIG"

// reserved are variables of that prefix that set no key: the file's name, and
// the engine's own switch for its invariants.
var reserved = []string{FileVariable, Prefix + "VERIFY"}

// ErrConfig is wrapped by every error about a key, a variable or a value.
var ErrConfig = errors.New("configuration")

var errNotAllowed = errors.New("not allowed")

// Source is where settings come from. The zero Source gives the defaults.
type Source struct {
	File  string         // path of the file, "" for none
	Env   []string       // KEY=value, as os.Environ gives them
	Flags *pflag.FlagSet // those of Register, parsed; nil for none
}

// Origin says for each key where its value came from.
type Origin map[string]string

// Register adds a flag for every key but those that only a sidecar needs. Those
// of the limits are hidden from --help, since they are many; `kvwitness config`
// shows them.
func Register(flags *pflag.FlagSet) {
	register(flags, slices.DeleteFunc(slices.Clone(settings), func(s setting) bool { return s.live() }))
}

// RegisterAll adds a flag for every key.
func RegisterAll(flags *pflag.FlagSet) { register(flags, settings) }

func register(flags *pflag.FlagSet, these []setting) {
	for _, s := range these {
		flags.String(s.flag(), s.fallback, s.help)
		if s.allowed == truth {
			flags.Lookup(s.flag()).NoOptDefVal = "true"
		}
		if strings.HasPrefix(s.name, "limits.") {
			_ = flags.MarkHidden(s.flag()) // fails only for a flag that is not there
		}
	}
}

// Load reads all sources. The error joins everything that is wrong with them.
func Load(src Source) (Config, Origin, error) {
	var problems []error
	env := environment(src.Env, &problems)
	if src.File == "" {
		src.File = env[FileVariable]
	}
	file, err := readFile(src.File)
	if err != nil {
		return Config{}, nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	problems = append(problems, unknownKeys(file, src.File)...)

	var cfg Config
	origin := make(Origin, len(settings))
	for _, s := range settings {
		text, from := s.fallback, "default"
		if value, said := file[s.name]; said {
			text, from = s.read(value), "file "+src.File
		}
		if value, said := env[s.variable()]; said {
			text, from = value, "environment "+s.variable()
		}
		if src.Flags != nil && src.Flags.Changed(s.flag()) {
			text, from = src.Flags.Lookup(s.flag()).Value.String(), "flag --"+s.flag()
		}
		origin[s.name] = from
		if s.set(&cfg, text) != nil {
			problems = append(problems, fmt.Errorf("%w: %s from %s: %.80q is not allowed; want %s", ErrConfig, s.name, from, text, s.allowed))
		}
	}
	return cfg, origin, errors.Join(problems...)
}

// environment picks the variables of kvwitness and reports unknown ones.
func environment(all []string, problems *[]error) map[string]string {
	env := make(map[string]string)
	for _, entry := range all {
		name, value, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, Prefix) {
			continue
		}
		known := slices.Contains(reserved, name) ||
			slices.ContainsFunc(settings, func(s setting) bool { return s.variable() == name })
		if !known {
			*problems = append(*problems, fmt.Errorf("%w: environment variable %.80s is not known; allowed are %s",
				ErrConfig, name, strings.Join(append(variables(), reserved...), ", ")))
			continue
		}
		env[name] = value
	}
	return env
}

func variables() []string {
	names := make([]string, len(settings))
	for i, s := range settings {
		names[i] = s.variable()
	}
	return names
}

// Keys are the names of all keys.
func Keys() []string {
	names := make([]string, len(settings))
	for i, s := range settings {
		names[i] = s.name
	}
	return names
}
