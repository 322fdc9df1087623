package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/kvwitness/kvwitness/sidecar/canary"
	"github.com/kvwitness/kvwitness/sidecar/source/engineinfo"
)

// canaryFlags are what the canary can be told.
type canaryFlags struct {
	keyFiles        []string
	caFile          string
	api, model      string
	lengths         []int
	pool, context   int
	perLength       int
	sharing         int
	salts           bool
	budget, perHour int
	timeout         time.Duration
	seed            uint64
	keep            string
	asJSON          bool
	watch           bool
	interval        time.Duration
	listen          string
}

func canaryCommand() *cobra.Command {
	var f canaryFlags
	cmd := &cobra.Command{
		Use:   "canary URL",
		Short: "ask a running service whether its answers belong to their prompts",
		Long: `canary asks an OpenAI-compatible service, as two or more tenants, for markers that
it has put into its own prompts at several depths. An answer with status 200 that
lacks them, or an usage.prompt_tokens that is not the prompt's, means that pages
were not this request's; a marker of another tenant means that they were another's.
It also asks whether tenants with different cache salts share a prefix cache.

  kvwitness canary http://127.0.0.1:8000 --key-file a.key --key-file b.key --pool 681280 --context 1048576

Without --lengths it asks short prompts, and ones just below and above --pool and
just below --context, as far as they are known; where the service itself says them
they need not be given. No text of an answer is kept unless --keep-answers names a
file. Exit status: 0 clean, 3 alarm, 4 could not be checked, 2 wrong use.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	fl := cmd.Flags()
	fl.StringArrayVar(&f.keyFiles, "key-file", nil, "file with a tenant's API key; give one for each tenant (without any, two tenants without keys ask)")
	fl.StringVar(&f.caFile, "ca-file", "", "authorities that may vouch for the service at https; empty: the system's")
	fl.StringVar(&f.api, "api", "completions", "completions or chat")
	fl.StringVar(&f.model, "model", "", "model to ask; empty: the service's only one")
	fl.IntSliceVar(&f.lengths, "lengths", nil, "lengths of prompts in tokens")
	fl.IntVar(&f.pool, "pool", 0, "tokens that the smallest pool holds; 0: as the service says, if it does")
	fl.IntVar(&f.context, "context", 0, "the declared context in tokens; 0: as the service says, if it does")
	fl.IntVar(&f.perLength, "per-length", 3, "questions of each tenant at each length")
	fl.IntVar(&f.sharing, "sharing", 1024, "length of the prompts that show whether tenants share a prefix cache; 0: do not ask")
	fl.BoolVar(&f.salts, "salts", true, "send a cache_salt of its own for each tenant")
	fl.IntVar(&f.budget, "budget", 20_000_000, "tokens that one run may cost at most, prompts and answers")
	fl.IntVar(&f.perHour, "budget-per-hour", 20_000_000, "tokens that --watch may spend in an hour")
	fl.DurationVar(&f.timeout, "timeout", canary.DefaultTimeout, "how long one answer may take")
	fl.Uint64Var(&f.seed, "seed", 0, "decides all that is drawn; 0: chance does")
	fl.StringVar(&f.keep, "keep-answers", "", "also write the answers to this new file, for its owner alone")
	fl.BoolVar(&f.asJSON, "json", false, "results as JSON, one object a line")
	fl.BoolVar(&f.watch, "watch", false, "ask again and again until interrupted")
	fl.DurationVar(&f.interval, "interval", 10*time.Minute, "time between the beginnings of runs, with --watch")
	fl.StringVar(&f.listen, "listen", "127.0.0.1:9465", "address of the metrics, with --watch")
	return cmd
}

func (f *canaryFlags) run(cmd *cobra.Command, url string) error {
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	plan, err := f.plan(ctx, url)
	if err != nil {
		return err
	}
	api := map[string]canary.API{"completions": canary.Completions, "chat": canary.Chat}
	form, known := api[f.api]
	if !known {
		return fmt.Errorf("--api %q: want completions or chat", f.api)
	}
	client, err := canary.NewClient(canary.Endpoint{URL: url, CA: f.caFile, API: form, Model: f.model, Timeout: f.timeout})
	if err != nil {
		return err
	}
	runner := canary.NewRunner(client, chance(f.seed))
	if f.keep != "" {
		file, err := os.OpenFile(f.keep, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return fmt.Errorf("keep the answers: %w", err)
		}
		defer file.Close()
		runner.Answers = file
	}
	if f.watch {
		return f.watchOn(ctx, cmd, runner, plan)
	}
	res, err := runner.Run(ctx, plan)
	if err != nil && !errors.Is(err, canary.ErrBudget) {
		return err
	}
	f.show(cmd.OutOrStdout(), &res)
	return statusOf(int(res.Judgement.Status))
}

func (f *canaryFlags) watchOn(ctx context.Context, cmd *cobra.Command, runner *canary.Runner, plan canary.Plan) error {
	if f.interval <= 0 || f.perHour <= 0 {
		return errors.New("--interval and --budget-per-hour must be above 0")
	}
	registry := prometheus.NewRegistry()
	at, err := canary.Serve(ctx, f.listen, registry)
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "metrics at http://%s/metrics\n", at)
	w := canary.Watch{Runner: runner, Plan: plan, Interval: f.interval, PerHour: f.perHour, Said: func(r canary.Result) { f.show(cmd.OutOrStdout(), &r) }}
	return w.Run(ctx, registry)
}

// plan is what to ask.
func (f *canaryFlags) plan(ctx context.Context, url string) (p canary.Plan, err error) {
	p = canary.Plan{PerLength: f.perLength, Sharing: f.sharing, Budget: f.budget}
	if p.Tenants, err = f.tenants(); err != nil {
		return p, err
	}
	if p.Lengths = slices.Clone(f.lengths); len(p.Lengths) == 0 {
		if err := f.ask(ctx, url, p.Tenants[0].Key); err != nil {
			return p, err
		}
		p.Lengths = canary.Around(f.pool, f.context)
	}
	slices.Sort(p.Lengths)
	if longest := p.Lengths[len(p.Lengths)-1]; p.Sharing > longest {
		p.Sharing = longest
	}
	return p, p.Check()
}

// ask fills in what the service says of its pool and context.
func (f *canaryFlags) ask(ctx context.Context, url, key string) error {
	client, err := engineinfo.New(engineinfo.Config{URL: url, Key: key, CA: f.caFile})
	if err != nil {
		return err
	}
	said := client.Ask(ctx, engineinfo.Poll{})
	if f.pool == 0 {
		f.pool = int(said.Pool.Or(0))
	}
	if f.context == 0 {
		f.context = int(said.Longest().Or(0))
	}
	return nil
}

func (f *canaryFlags) tenants() (all []canary.Tenant, err error) {
	keys := []string{"", ""}
	if len(f.keyFiles) > 0 {
		keys = nil
	}
	for _, path := range f.keyFiles {
		key, err := engineinfo.ReadKey(path)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	for i, key := range keys {
		t := canary.Tenant{Name: fmt.Sprint("tenant-", i+1), Key: key}
		if f.salts {
			t.Salt = "kvwitness-canary-" + t.Name
		}
		all = append(all, t)
	}
	if len(f.keyFiles) == 0 && !f.salts && f.sharing > 0 {
		return nil, errors.New("without keys and salts there is one tenant: name two --key-file, or set --sharing 0")
	}
	return all, nil
}

func (f *canaryFlags) show(out io.Writer, r *canary.Result) {
	if f.asJSON {
		_ = json.MarshalWrite(out, r, json.Deterministic(true))
		fmt.Fprintln(out)
		return
	}
	fmt.Fprintf(out, "%-14s", "PROMPT TOKENS")
	for o := range canary.NumOutcome {
		fmt.Fprintf(out, "  %-11s", strings.ToUpper(strings.ReplaceAll(o.String(), "_", " ")))
	}
	fmt.Fprintln(out)
	for i := range r.Lengths {
		l := &r.Lengths[i]
		fmt.Fprintf(out, "%-14d", l.Tokens)
		for o := range canary.NumOutcome {
			fmt.Fprintf(out, "  %-11d", l.Outcomes[o.String()])
		}
		fmt.Fprintln(out, l.Reason)
	}
	fmt.Fprintf(out, "%d questions, about %d tokens, %.1f s\n%s\n", r.Asked, r.Tokens, r.Seconds, r.Verdict)
}

// chance is a source of it from a seed, 0: from one that nobody knows.
func chance(seed uint64) *mathrand.Rand {
	if seed == 0 {
		seed = mathrand.Uint64()
	}
	return mathrand.New(mathrand.NewPCG(seed, 0))
}
