package nvml

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func pointer(n uint64) *uint64 { return &n }

func whole() *Sample {
	return &Sample{
		Version: Version, Begun: 1, Ended: 2, State: OK, Driver: "550", Count: 1,
		Devices: []Device{
			{UUID: "GPU-1", State: OK, Listed: OK, Total: pointer(8), Used: pointer(0), Split: true, XIDs: []XID{{79, 1}}},
			{UUID: "MIG-GPU-1/1/0", Parent: "GPU-1", State: Lost, Call: "c", Said: "s", Listed: Blank, Processes: []Process{{PID: 1}, {2, pointer(3)}}},
		},
	}
}

func TestASampleThatIsWrittenIsRead(t *testing.T) {
	line, err := whole().Encode()
	must(t, err)
	got, err := Decode(line[:len(line)-1])
	if err != nil || !reflect.DeepEqual(got, whole()) {
		t.Errorf("%+v, %v", got, err)
	}
	for s := range NumState {
		text, err := s.MarshalText()
		must(t, err)
		var back State
		if err := back.UnmarshalText(text); err != nil || back != s || s != OK && s.Remedy() == "" {
			t.Errorf("%s is read as %s, %v", s, back, err)
		}
	}
}

func TestWhatIsNoSampleIsRefused(t *testing.T) {
	for what, change := range map[string]func(s *Sample){
		"another version":  func(s *Sample) { s.Version++ },
		"ends too early":   func(s *Sample) { s.Ended = 0 },
		"too many GPUs":    func(s *Sample) { s.Count = MaxGPUs + 1 },
		"too many devices": func(s *Sample) { s.Devices = make([]Device, MaxDevices+1) },
		"named twice":      func(s *Sample) { s.Devices[1].UUID = "GPU-1" },
		"a name of bytes":  func(s *Sample) { s.Devices[0].UUID = "GPU\n" },
		"a long name":      func(s *Sample) { s.Devices[0].UUID = strings.Repeat("G", 200) },
		"of no GPU":        func(s *Sample) { s.Devices[1].Parent = "GPU-2" },
		"too many bytes":   func(s *Sample) { s.Devices[0].Used = pointer(1 << 60) },
		"a process's":      func(s *Sample) { s.Devices[1].Processes[1].Bytes = pointer(1 << 60) },
		"too many XIDs":    func(s *Sample) { s.Devices[0].XIDs = make([]XID, MaxXIDs+1) },
		"too many held":    func(s *Sample) { s.Devices[1].Processes = make([]Process, MaxProcesses+1) },
	} {
		s := whole()
		change(s)
		line, err := s.Encode()
		must(t, err)
		if _, err := Decode(line); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, line := range []string{"", "{", `{"version":1,"state":"fine"}`, `{"version":1,"begun":-1}`, strings.Repeat(" ", MaxLine+1)} {
		if _, err := Decode([]byte(line)); !errors.Is(err, ErrFormat) {
			t.Errorf("%.30q: %v", line, err)
		}
	}
}

// Whatever line comes, what is taken is within the bounds, and may be shown.
func FuzzDecode(f *testing.F) {
	line, err := whole().Encode()
	must(f, err)
	f.Add(line)
	f.Add([]byte(`{"version":1,"devices":[{"uuid":"","said":"\u0000"}]}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		s, err := Decode(line)
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Fatal(err)
			}
			return
		}
		if len(s.Devices) > MaxDevices || len(s.Said) > maxWord || strings.ContainsAny(s.Said, "\n\x00") {
			t.Fatalf("%+v", s)
		}
		for i := range s.Devices {
			d := &s.Devices[i]
			if d.UUID != "" && !isID(d.UUID) {
				t.Fatalf("%q", d.UUID)
			}
			if n, ok := d.Unlisted(); ok && n > *d.Used {
				t.Fatalf("%d of %d", n, *d.Used)
			}
		}
		again, err := s.Encode()
		must(t, err)
		if _, err := Decode(again); err != nil {
			t.Fatalf("%s: %v", again, err)
		}
	})
}
