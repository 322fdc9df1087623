package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// Prefix begins every environment variable of kvengine, and FileVariable names the
// file where no --config does.
const (
	Prefix       = "KVENGINE_"
	FileVariable = Prefix + "CONFIG"
)

// ErrConfig is wrapped by every error about a key, a variable or a value.
var ErrConfig = errors.New("configuration")

var errNotAllowed = errors.New("not allowed")

// Source is where settings come from.
type Source struct {
	File  string         // path of the file, "" for none
	Env   []string       // KEY=value, as os.Environ gives them
	Flags *pflag.FlagSet // those of Register, parsed; nil for none
}

// Table is the settings of one command.
type Table []setting

// setting is one key.
type setting struct {
	name     string
	help     string
	fallback string
	allowed  string
	set      func(text string) error
}

// variable is the environment variable of a key: KVENGINE_CONTROL_PORT.
func (s setting) variable() string {
	return Prefix + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(s.name))
}

// flag is the flag of a key, without its dashes.
func (s setting) flag() string { return strings.ReplaceAll(s.name, ".", "-") }

// Register adds a flag for every key.
func (t Table) Register(flags *pflag.FlagSet) {
	for _, s := range t {
		flags.String(s.flag(), s.fallback, s.help)
		if s.allowed == truth {
			flags.Lookup(s.flag()).NoOptDefVal = "true"
		}
	}
}

// Load reads all sources. The error joins everything that is wrong with them.
func (t Table) Load(src Source) error {
	var problems []error
	env := t.environment(src.Env, &problems)
	if src.File == "" {
		src.File = env[FileVariable]
	}
	file, err := readFile(src.File)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	for _, key := range slices.Sorted(maps.Keys(file)) {
		if !slices.ContainsFunc(t, func(s setting) bool { return s.name == key }) {
			problems = append(problems, fmt.Errorf("%w: key %.80q in file %s is not known; allowed are %s", ErrConfig, key, src.File, strings.Join(t.keys(), ", ")))
		}
	}
	for _, s := range t {
		text, from := s.fallback, "default"
		if value, said := file[s.name]; said {
			text, from = value, "file "+src.File
		}
		if value, said := env[s.variable()]; said {
			text, from = value, "environment "+s.variable()
		}
		if src.Flags != nil && src.Flags.Changed(s.flag()) {
			text, from = src.Flags.Lookup(s.flag()).Value.String(), "flag --"+s.flag()
		}
		if s.set(text) != nil {
			problems = append(problems, fmt.Errorf("%w: %s from %s: %.80q is not allowed; want %s", ErrConfig, s.name, from, text, s.allowed))
		}
	}
	return errors.Join(problems...)
}

// environment picks the variables of kvengine and reports unknown ones.
func (t Table) environment(all []string, problems *[]error) map[string]string {
	env := map[string]string{}
	for _, entry := range all {
		name, value, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, Prefix) {
			continue
		}
		if name != FileVariable && !slices.ContainsFunc(t, func(s setting) bool { return s.variable() == name }) {
			*problems = append(*problems, fmt.Errorf("%w: environment variable %.80s is not known; allowed are those of %s", ErrConfig, name, strings.Join(t.keys(), ", ")))
			continue
		}
		env[name] = value
	}
	return env
}

func (t Table) keys() (names []string) {
	for _, s := range t {
		names = append(names, s.name)
	}
	return names
}
