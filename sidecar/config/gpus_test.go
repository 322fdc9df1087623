package config

import (
	"errors"
	"slices"
	"testing"
	"time"
)

func TestGPUsAreAskedAboutUnlessToldOtherwise(t *testing.T) {
	cfg, _, err := Load(Source{})
	if g := cfg.GPUs; err != nil || g.Mode != GPUsAuto || g.Every != 2*time.Second || g.Proc != "/proc" || g.Allow != nil {
		t.Errorf("%+v, %v", g, err)
	}
	cfg, _, err = Load(Source{Env: []string{"KVWITNESS_GPUS=required", "KVWITNESS_GPU_ALLOW=exporter, /opt/*/tool"}})
	if g := cfg.GPUs; err != nil || g.Mode != GPUsRequired || !slices.Equal(g.Allow, []string{"exporter", "/opt/*/tool"}) {
		t.Errorf("%+v, %v", g, err)
	}
	for _, env := range []string{"KVWITNESS_GPUS=maybe", "KVWITNESS_GPU_ALLOW=a/b", "KVWITNESS_GPU_ALLOW=[", "KVWITNESS_GPU_ALLOW=a,a", "KVWITNESS_GPU_EVERY=0s"} {
		if _, _, err := Load(Source{Env: []string{env}}); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v", env, err)
		}
	}
}
