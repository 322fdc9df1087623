package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/kvwitness/kvwitness/sidecar/canary"
	"github.com/kvwitness/kvwitness/sidecar/gate"
	"github.com/kvwitness/kvwitness/sidecar/gate/gather"
)

// gateFlags are what the gate can be told.
type gateFlags struct {
	file              string
	prefills, decodes []string
	unified           []string
	router, sidecar   string
	sidecarToken      string
	sidecarCert       string
	sidecarKey        string
	keyFiles          []string
	caFile            string
	api, model        string
	live, asJSON      bool
	budget, preempt   int
	timeout           time.Duration
	without           []string
	junit             string
	seed              uint64
}

func gateCommand() *cobra.Command {
	var f gateFlags
	cmd := &cobra.Command{
		Use:   "gate pool|admission|transfer|lifetime|all",
		Short: "check a deployment before it goes on: pools, admission, transfers, lifetime",
		Long: `gate asks a deployment what an operator should know before traffic goes to it:

  pool       each pool against each context that is declared, on every engine; layouts
  admission  ordinary, over-long, re-entering and preempted requests, and ones that
             hold pages, are each answered or refused as they should be
  transfer   every handoff of the gate's traffic was seen, and is as it should be
  lifetime   pages are handed out, written and given back once, and to whom they belong

  kvwitness gate pool --prefill http://p:30000 --decode http://d:30000
  kvwitness gate all --file deployment.yaml --junit gate.xml

pool only asks. The others send traffic, which can provoke a real leak: on anything but
loopback they want --allow-live. transfer and lifetime use the verdicts of a sidecar
(--sidecar) that watches the engines; without it they are not witnessed, which is no
pass. Exit status: 0 pass, 3 fail, 4 could not be checked, 2 wrong use.`,
		Args:      cobra.ExactArgs(1),
		ValidArgs: []string{"pool", "admission", "transfer", "lifetime", "all"},
		RunE:      func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.file, "file", "", "deployment file (YAML): router, sidecar, engines, key_files, sidecar_token_file, sidecar_cert_file, sidecar_key_file, ca_file, api, model")
	fl.StringArrayVar(&f.prefills, "prefill", nil, "URL of a prefill engine; may be repeated, and be NAME=URL")
	fl.StringArrayVar(&f.decodes, "decode", nil, "URL of a decode engine; may be repeated")
	fl.StringArrayVar(&f.unified, "engine", nil, "URL of an engine that does both; may be repeated")
	fl.StringVar(&f.router, "router", "", "URL where clients ask")
	fl.StringVar(&f.sidecar, "sidecar", "", "URL of a sidecar that follows the engines")
	fl.StringVar(&f.sidecarToken, "sidecar-token-file", "", "file with the sidecar's token")
	fl.StringVar(&f.sidecarCert, "sidecar-cert-file", "", "certificate to show to a sidecar that asks for one")
	fl.StringVar(&f.sidecarKey, "sidecar-key-file", "", "the key of that certificate")
	fl.StringArrayVar(&f.keyFiles, "key-file", nil, "file with a tenant's API key; give two")
	fl.StringVar(&f.caFile, "ca-file", "", "authorities that may vouch for https; empty: the system's")
	fl.StringVar(&f.api, "api", "", "completions or chat; empty: completions")
	fl.StringVar(&f.model, "model", "", "model to ask; empty: the service's only one")
	fl.BoolVar(&f.live, "allow-live", false, "send traffic beyond loopback")
	fl.IntVar(&f.budget, "budget", 20_000_000, "tokens that the traffic may cost at most")
	fl.IntVar(&f.preempt, "preempt-requests", 0, "requests sent at once to have some preempted; 0: as many as fill the smallest pool one and a half times, at most 128")
	fl.DurationVar(&f.timeout, "timeout", canary.DefaultTimeout, "how long one answer may take")
	fl.StringSliceVar(&f.without, "without", nil, "protections that are done without: deferred-release, checksum, canary")
	fl.BoolVar(&f.asJSON, "json", false, "the report as JSON")
	fl.StringVar(&f.junit, "junit", "", "also write the report to this file as JUnit XML")
	fl.Uint64Var(&f.seed, "seed", 0, "decides all that is drawn; 0: chance does")
	return cmd
}

func (f *gateFlags) run(cmd *cobra.Command, section string) error {
	sections, err := gate.Select(section)
	if err != nil {
		return err
	}
	cfg, err := f.config(sections)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	picture, err := gather.Look(ctx, cfg)
	if err != nil {
		return err
	}
	picture.Without = map[string]bool{}
	for _, name := range f.without {
		picture.Without[name] = true
	}
	report := gate.Decide(sections, picture)
	if f.junit != "" {
		if err := f.writeJUnit(&report); err != nil {
			return err
		}
	}
	write := report.WriteText
	if f.asJSON {
		write = report.WriteJSON
	}
	if err := write(cmd.OutOrStdout()); err != nil {
		return err
	}
	return statusOf(report.Exit())
}

func (f *gateFlags) writeJUnit(r *gate.Report) error {
	file, err := os.Create(f.junit)
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return errors.Join(r.WriteJUnit(file), file.Close())
}

// config is the deployment of the file, and what flags add to it or say instead.
func (f *gateFlags) config(sections []gate.Section) (c gather.Config, err error) {
	if f.file != "" {
		if c.Deployment, err = gather.Load(f.file); err != nil {
			return c, err
		}
	}
	d := &c.Deployment
	for _, of := range []struct {
		role string
		urls []string
	}{{"prefill", f.prefills}, {"decode", f.decodes}, {"unified", f.unified}} {
		for _, u := range of.urls {
			e := gather.Engine{URL: u, Role: of.role}
			if name, rest, named := strings.Cut(u, "="); named && !strings.Contains(name, ":") {
				e.Name, e.URL = name, rest
			}
			d.Engines = append(d.Engines, e)
		}
	}
	for _, s := range []struct{ from, to *string }{
		{&f.router, &d.Router}, {&f.sidecar, &d.Sidecar}, {&f.sidecarToken, &d.SidecarTokenFile}, {&f.sidecarCert, &d.SidecarCertFile}, {&f.sidecarKey, &d.SidecarKeyFile}, {&f.caFile, &d.CAFile}, {&f.api, &d.API}, {&f.model, &d.Model},
	} {
		if *s.from != "" {
			*s.to = *s.from
		}
	}
	if f.keyFiles != nil {
		d.KeyFiles = f.keyFiles
	}
	c.Traffic = slices.ContainsFunc(sections, func(s gate.Section) bool { return s.Live })
	c.Live, c.Budget, c.Preempt, c.Timeout, c.Rand = f.live, f.budget, f.preempt, f.timeout, chance(f.seed)
	if f.budget < 1 {
		return c, errors.New("--budget must be above 0")
	}
	return c, nil
}
