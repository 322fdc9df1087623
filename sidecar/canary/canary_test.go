package canary

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// service answers as a model that repeats what it is asked for; wrong changes the
// answer to the n-th request, which is of that key.
type service struct {
	wrong func(n int, key, prompt, text string) string
	usage func(prompt string) int
	cache func(key, salt, prompt string) (tokens int, said bool)
	limit int // bytes, beyond which a prompt is refused; 0: none

	mu sync.Mutex
	n  int
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Prompt   string
		Messages []struct{ Content string }
		Stream   bool
		Salt     string `json:"cache_salt"`
	}
	if json.NewDecoder(r.Body).Decode(&q) != nil {
		w.WriteHeader(400)
		return
	}
	prompt := q.Prompt
	if len(q.Messages) > 0 {
		prompt = q.Messages[0].Content
	}
	if s.limit > 0 && len(prompt) > s.limit {
		w.WriteHeader(400)
		_, _ = w.Write([]byte(`{"error":{"message":"too long"}}`))
		return
	}
	s.mu.Lock()
	s.n++
	n, key := s.n, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	text, cached, said := recall(prompt), 0, false
	if s.wrong != nil {
		text = s.wrong(n, key, prompt, text)
	}
	if s.cache != nil {
		cached, said = s.cache(key, q.Salt, prompt)
	}
	tokens := len(prompt) / 4
	if s.usage != nil {
		tokens = s.usage(prompt)
	}
	s.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	for i := 0; i < len(text); i += 3 { // markers are split over chunks
		chunk, _ := json.Marshal(text[i:min(i+3, len(text))])
		fmt.Fprintf(w, "data: {\"choices\":[{\"text\":%s}]}\n\n", chunk)
	}
	details := ""
	if said {
		details = fmt.Sprintf(`,"prompt_tokens_details":{"cached_tokens":%d}`, cached)
	}
	fmt.Fprintf(w, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":%d%s}}\n\ndata: [DONE]\n\n", tokens, details)
}

// recall is the right answer.
func recall(prompt string) string {
	last := prompt[strings.LastIndex(prompt, "Entry "):]
	_, after, _ := strings.Cut(prompt, last)
	marker, _, _ := strings.Cut(after, "\n")
	return marker + "\nand so on\n"
}

var tenants = []Tenant{{Name: "a", Key: "key-a", Salt: "a"}, {Name: "b", Key: "key-b", Salt: "b"}}

func plan() Plan {
	return Plan{Tenants: tenants, Lengths: []int{100, 400, 900}, PerLength: 6, Budget: 1 << 20}
}

func runner(t testing.TB, s *service, seed uint64, api API) *Runner {
	t.Helper()
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	c, err := NewClient(Endpoint{URL: web.URL, API: api, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return NewRunner(c, rand.New(rand.NewPCG(seed, 1)))
}

func run(t *testing.T, s *service, p Plan) Result {
	t.Helper()
	res, err := runner(t, s, 7, Completions).Run(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func TestAServiceThatAnswersRightlyIsClean(t *testing.T) {
	for _, api := range []API{Completions, Chat} {
		res, err := runner(t, &service{}, 7, api).Run(t.Context(), plan())
		if err != nil || res.Status != "clean" || res.Asked != 2+(1+2+2)*6*2 {
			t.Errorf("%+v, %v", res, err)
		}
		for i, l := range res.Lengths {
			if want := []int{3 * 12, 12, 12}[i]; l.Outcomes["recalled"] != want {
				t.Errorf("%+v, want %d", l, want)
			}
		}
	}
}

// answersEnv makes the test of normal traffic longer: CANARY_ANSWERS=10000.
const answersEnv = "CANARY_ANSWERS"

// Answers of a service that is well, one in a hundred of which does not hold what it
// was asked for, raise no alarm.
func TestNormalTrafficRaisesNoAlarm(t *testing.T) {
	const seed = 20
	most := 1000
	if n, err := strconv.Atoi(os.Getenv(answersEnv)); err == nil {
		most = n
	}
	chance := rand.New(rand.NewPCG(seed, 2))
	s := &service{
		wrong: func(_ int, _, _, text string) string {
			if chance.IntN(100) == 0 {
				return word(chance, 60) // anything at all
			}
			return text
		},
		cache: func(string, string, string) (int, bool) { return 12, true }, // a template's
	}
	r := runner(t, s, seed, Completions)
	p := plan()
	p.Lengths, p.PerLength, p.Sharing = []int{80, 120, 200}, 40, 100
	for asked := 0; asked < most; {
		res, err := r.Run(t.Context(), p)
		if err != nil || res.Status != "clean" {
			t.Fatalf("seed %d, after %d: %+v, %v", seed, asked, res, err)
		}
		asked += res.Asked
	}
}

func TestAnothersMarkerIsFoundHoweverItIsWritten(t *testing.T) {
	for name, how := range map[string]func(marker string) string{
		"whole":     func(m string) string { return "it is " + m },
		"in part":   func(m string) string { return m[4:15] + "…" },
		"re-cased":  strings.ToUpper,
		"spelt out": func(m string) string { return strings.Join(strings.Split(m, ""), "-") },
		"in lines":  func(m string) string { return m[:10] + "\n  " + m[10:] },
	} {
		t.Run(name, func(t *testing.T) {
			stolen := ""
			s := &service{wrong: func(_ int, key, prompt, text string) string {
				if key == "key-a" {
					stolen, _, _ = strings.Cut(recall(prompt), "\n")
				} else if len(prompt) > 2000 {
					return text + how(stolen)
				}
				return text
			}}
			if res := run(t, s, plan()); res.Judgement.Status != Alarm || res.Lengths[2].Outcomes["leaked"] != 6 || !strings.Contains(res.Verdict, "another tenant's") {
				t.Errorf("%+v", res)
			}
		})
	}
}

func TestALostPromptIsFoundAndAModelThatCannotRepeatIsNotAccused(t *testing.T) {
	long := &service{wrong: func(_ int, _, prompt, text string) string {
		if len(prompt) > 3000 {
			return "fluent text of no use"
		}
		return text
	}}
	if res := run(t, long, plan()); res.Judgement.Status != Alarm || !strings.Contains(res.Verdict, "at 900 tokens 12 of 12") {
		t.Errorf("%+v", res)
	}
	never := &service{wrong: func(int, string, string, string) string { return "I cannot do that" }}
	if res := run(t, never, plan()); res.Judgement.Status != Unchecked {
		t.Errorf("%+v", res)
	}
}

func TestAWrongCountOfThePromptIsFound(t *testing.T) {
	s := &service{usage: func(prompt string) int {
		if len(prompt) > 3000 {
			return 1 // as prefill said in the incident
		}
		return len(prompt) / 4
	}}
	if res := run(t, s, plan()); res.Judgement.Status != Alarm || res.Lengths[2].Outcomes["wrong_usage"] != 12 {
		t.Errorf("%+v", res)
	}
	s.usage = func(string) int { return 0 } // not said
	p := plan()
	p.Lengths = []int{100, 200}
	if res := run(t, s, p); res.Judgement.Status != Clean {
		t.Errorf("%+v", res)
	}
}

func TestARefusalInWordsIsNoAlarmAndNoCheckEither(t *testing.T) {
	p := plan()
	s := &service{limit: 3000}
	if res := run(t, s, p); res.Judgement.Status != Clean || res.Lengths[2].Outcomes["refused"] != 12 || res.Lengths[2].Reason != "too long" {
		t.Errorf("%+v", res)
	}
	s.limit = 1
	if res := run(t, s, p); res.Judgement.Status != Unchecked {
		t.Errorf("%+v", res)
	}
}

func TestASharedCacheIsFoundByWhatTheServiceCounts(t *testing.T) {
	for name, c := range map[string]struct {
		key  func(key, salt string) string
		want Status
	}{
		"by tenant":       {func(key, salt string) string { return key + salt }, Clean},
		"salt is dropped": {func(string, string) string { return "" }, Alarm},
	} {
		known := map[string]bool{}
		s := &service{cache: func(key, salt, prompt string) (int, bool) {
			k := c.key(key, salt) + prompt
			if known[k] {
				return 64, true
			}
			known[k] = true
			return 0, true
		}}
		p := plan()
		p.Sharing = 300
		if res := run(t, s, p); res.Judgement.Status != c.want {
			t.Errorf("%s: %+v", name, res)
		}
	}
}

func TestASharedCacheIsFoundByTimeAndNotByNoise(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	sample := func(n int, mean time.Duration) (all []time.Duration) {
		for range n {
			all = append(all, mean+time.Duration(rng.NormFloat64()*float64(mean)/10))
		}
		return all
	}
	found := Sharing{Repeated: sample(sharingRounds, 10*time.Millisecond), Fresh: sample(sharingRounds, 40*time.Millisecond)}
	if !found.Found() {
		t.Errorf("not found: %s, odds %f", found.Say(), found.Odds())
	}
	for range 2000 {
		same := Sharing{Repeated: sample(sharingRounds, 40*time.Millisecond), Fresh: sample(sharingRounds, 40*time.Millisecond)}
		if same.Found() {
			t.Fatalf("found where there is none: %s", same.Say())
		}
	}
}

func TestRankSumsAreThoseOfAllOrders(t *testing.T) {
	for _, n := range []int{1, 2, 5, 12} {
		all := 0.0
		for _, w := range rankSums(n, n) {
			all += w
		}
		want := 1.0
		for i := range n {
			want = want * float64(n+i+1) / float64(i+1)
		}
		if math.Abs(all-want) > want/1e9 {
			t.Errorf("%d: %f orders, want %f", n, all, want)
		}
	}
	if got := rankSums(2, 2); fmt.Sprint(got) != "[1 1 2 1 1]" {
		t.Errorf("%v", got)
	}
}

func TestTheBudgetIsKept(t *testing.T) {
	p := plan()
	p.Budget = 3000
	res, err := runner(t, &service{}, 7, Completions).Run(t.Context(), p)
	if err == nil || res.Judgement.Status != Unchecked || res.Tokens > p.Budget || res.Asked == 0 {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestAnswersAreKeptOnlyWhereAFileIsNamed(t *testing.T) {
	var kept strings.Builder
	r := runner(t, &service{}, 7, Completions)
	r.Answers = &kept
	res, err := r.Run(t.Context(), plan())
	if err != nil || strings.Count(kept.String(), "\n") != res.Asked {
		t.Errorf("%v: %s", err, kept.String())
	}
	shown, err := json.Marshal(res)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range r.mine["a"].kept {
		if strings.Contains(string(shown), m) {
			t.Fatal("a result holds a marker")
		}
	}
}

func TestMarkersAreForgottenAtTheirBound(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var m Markers
	first := word(rng, markerLength)
	m.Add(first)
	for range MaxMarkers {
		if !m.In(first) {
			t.Fatal("forgotten early")
		}
		m.Add(word(rng, markerLength))
	}
	if m.In(first) || len(m.kept) != MaxMarkers || len(m.parts) > MaxMarkers*(markerLength-partLength+1) {
		t.Error("more is kept than the bound")
	}
}

// Whatever a service answers, what is read of it is bounded and fit to be shown.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte("data: {\"choices\":[{\"text\":\"x\"}]}\n\ndata: [DONE]\n"), true)
	f.Add([]byte(`{"error":{"message":"a\nb"}}`), false)
	f.Add([]byte(`{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":-5,"prompt_tokens_details":{"cached_tokens":3}}}`), false)
	f.Fuzz(func(t *testing.T, raw []byte, stream bool) {
		kind := "application/json"
		if stream {
			kind = "text/event-stream"
		}
		a := Answer{Status: 200}
		a.read(strings.NewReader(string(raw)), time.Now(), kind)
		if len(a.Text) > MaxText || len(a.Reason) > maxReason || strings.ContainsAny(a.Reason, "\n\r\x00") || a.PromptTokens < 0 {
			t.Fatalf("%+v", a)
		}
		_ = Read(Prompt{Want: "x"}, &a, Scale{}, func(string) bool { return false })
	})
}
