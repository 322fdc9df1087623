// Command helm holds Helm's own tools against the chart: lint, strictly, and for several
// settings the rendered manifests, each read as Kubernetes reads it, without unknown
// fields. Operators' own kinds (ServiceMonitor, PrometheusRule) are only rendered.
//
//	go run . FOLDER
//
// It is a module of its own, so that nothing of Helm is in kvwitness: `make lint-chart`.
package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"
)

// settings are what the chart is rendered with.
var settings = map[string]map[string]any{
	"the defaults": {},
	"everything": {
		"probe": map[string]any{"enabled": true}, "nvml": map[string]any{"enabled": true},
		"serviceMonitor": map[string]any{"enabled": true}, "prometheusRule": map[string]any{"enabled": true, "labels": map[string]any{"release": "prometheus"}},
		"alertmanagers": []any{"http://a:9093", "http://b:9093"},
	},
	"https":         {"tlsSecret": "kvwitness-tls", "serviceMonitor": map[string]any{"enabled": true}},
	"an old kernel": {"probe": map[string]any{"enabled": true, "kernelBefore66": true}},
}

// kinds are read strictly as what Kubernetes has by that name.
var kinds = map[string]func() any{
	"ConfigMap":     func() any { return &corev1.ConfigMap{} },
	"DaemonSet":     func() any { return &appsv1.DaemonSet{} },
	"NetworkPolicy": func() any { return &networkingv1.NetworkPolicy{} },
	"Service":       func() any { return &corev1.Service{} },
}

// others belong to the Prometheus operator.
var others = []string{"ServiceMonitor", "PrometheusRule"}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run . FOLDER")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(dir string) error {
	c, err := loader.Load(dir)
	if err != nil {
		return err
	}
	var problems []error
	for name, values := range settings {
		linted := lint.All(dir, values, "default", true)
		for _, m := range linted.Messages {
			fmt.Printf("%s: %s\n", name, m)
			if m.Severity >= warning {
				problems = append(problems, fmt.Errorf("%s: lint: %w", name, m.Err))
			}
		}
		n, err := render(c, values)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", name, err))
		}
		fmt.Printf("%s: %d manifests\n", name, n)
	}
	if _, err := render(c, map[string]any{"unknown": true}); err == nil {
		problems = append(problems, errors.New("a key that nobody knows is taken"))
	}
	return errors.Join(problems...)
}

// warning is the severity from which a strict lint fails.
const warning = 2

// render renders the chart and reads each manifest.
func render(c *chart.Chart, values map[string]any) (n int, err error) {
	all, err := chartutil.ToRenderValues(c, values, chartutil.ReleaseOptions{Name: "kvwitness", Namespace: "default", Revision: 1, IsInstall: true}, nil)
	if err != nil {
		return 0, err
	}
	files, err := engine.Render(c, all)
	if err != nil {
		return 0, err
	}
	for name, text := range files {
		if strings.TrimSpace(text) == "" {
			continue
		}
		n++
		var head struct {
			Kind string `json:"kind"`
		}
		if err := yaml.Unmarshal([]byte(text), &head); err != nil {
			return n, fmt.Errorf("%s: %w", name, err)
		}
		of, known := kinds[head.Kind]
		if !known {
			if !slices.Contains(others, head.Kind) {
				return n, fmt.Errorf("%s: nobody checks a %s", name, head.Kind)
			}
			continue
		}
		if err := yaml.UnmarshalStrict([]byte(text), of()); err != nil {
			return n, fmt.Errorf("%s: %w", name, err)
		}
	}
	return n, nil
}
