package canary

import (
	"fmt"
	"math"
	"net/http"
	"strings"
)

// Outcome is what an answer shows.
type Outcome uint8

// The outcomes, the worst last.
const (
	Recalled   Outcome = iota // the marker that was asked for is in it
	Refused                   // refused in words, 4xx
	Failed                    // no answer, an error, or one that broke off
	Lost                      // 200, and the marker is not in it
	WrongUsage                // 200, and the engine counts another prompt
	Leaked                    // a marker of another tenant is in it
	NumOutcome
)

var outcomeNames = [NumOutcome]string{"recalled", "refused", "failed", "lost", "wrong_usage", "leaked"}

func (o Outcome) String() string { return outcomeNames[o] }

// Read says what an answer to p shows, where others are the markers of all other
// tenants.
func Read(p Prompt, a *Answer, scale Scale, others func(text string) bool) Outcome {
	switch {
	case others(a.Text): // whatever its status is
		return Leaked
	case a.Status >= 400 && a.Status < 500 && a.Reason != "":
		return Refused
	case a.Status != http.StatusOK || a.Broken:
		return Failed
	case !scale.Right(len(p.Text), a.PromptTokens):
		return WrongUsage
	case !strings.Contains(plain(a.Text), p.Want):
		return Lost
	}
	return Recalled
}

// Length is what the questions of one length came to.
type Length struct {
	Tokens   int            `json:"tokens"`
	Outcomes map[string]int `json:"outcomes"`
	Reason   string         `json:"reason,omitzero"` // of the last refusal or failure
	counts   [NumOutcome]int
}

func (l *Length) note(o Outcome, a *Answer) {
	l.counts[o]++
	l.Outcomes[o.String()] = l.counts[o]
	if o == Refused || o == Failed {
		l.Reason = a.Reason
	}
}

func (l *Length) asked() (n int) {
	for _, c := range l.counts {
		n += c
	}
	return n
}

// answered counts the answers with HTTP 200 that say anything of recall.
func (l *Length) answered() int { return l.counts[Recalled] + l.counts[Lost] }

// Status is what a run comes to.
type Status uint8

// The ends of a run; their numbers are the exit statuses of the command.
const (
	Clean     Status = 0
	Alarm     Status = 3
	Unchecked Status = 4
)

// Judgement is what a run says.
type Judgement struct {
	Status  Status
	Reasons []string // of an alarm, or why it could not be checked
	Verdict string   // in one line
	// FalseAlarm is the common logarithm of the chance that the alarm is none, or
	// that there would have been one by chance.
	FalseAlarm float64
}

// How much must be recalled at the shortest length for a loss to mean anything, and
// how much must be lost at another to be one.
const (
	leastRecall = 0.8
	mostLost    = 1.0 / 3
)

// Judge decides what a run comes to. lengths are in order, the shortest first.
func Judge(lengths []Length, shared Sharing, markers, characters int) (j Judgement) {
	total := Length{Outcomes: map[string]int{}}
	for i := range lengths {
		for o, n := range lengths[i].counts {
			total.counts[o] += n
		}
	}
	leak := Odds(characters, markers)
	j.FalseAlarm = leak
	if n := total.counts[Leaked]; n > 0 {
		j.alarm(leak, "%d answers hold another tenant's marker", n)
	}
	if n := total.counts[WrongUsage]; n > 0 {
		j.alarm(0, "%d answers count another prompt than was sent", n)
	}
	j.recall(lengths)
	if shared.Found() {
		j.alarm(shared.Odds(), "tenants share the prefix cache: %s", shared.Say())
	}
	if j.Status == Clean && total.counts[Recalled] == 0 {
		j.unchecked("no answer of %d came with HTTP 200", total.asked())
	}
	j.Verdict = j.say(&total)
	return j
}

// recall asks at which lengths answers have lost their prompts.
func (j *Judgement) recall(lengths []Length) {
	if len(lengths) == 0 {
		return
	}
	base := &lengths[0]
	p := (float64(base.counts[Lost]) + 1) / (float64(base.answered()) + 2) // of losing one by itself
	for i := range lengths {
		l := &lengths[i]
		lost, n := l.counts[Lost], l.answered()
		switch {
		case lost == 0:
			continue
		case i == 0 && float64(base.counts[Recalled]) < leastRecall*float64(n):
			j.unchecked("at %d tokens %d of %d are lost: this model does not repeat what it is asked for, or pages are wrong at every length", l.Tokens, lost, n)
			return
		case float64(lost) > mostLost*float64(n):
			j.alarm(float64(lost)*math.Log10(p), "at %d tokens %d of %d answers with HTTP 200 lack what their prompt holds", l.Tokens, lost, n)
		}
	}
}

// alarm adds a reason, with the logarithm of its chance to be none: all of them are
// wrong only if the surest is.
func (j *Judgement) alarm(odds float64, format string, args ...any) {
	if j.Status != Alarm {
		j.Status, j.Reasons, j.FalseAlarm = Alarm, nil, 0
	}
	j.FalseAlarm = min(j.FalseAlarm, odds)
	j.Reasons = append(j.Reasons, fmt.Sprintf(format, args...))
}

func (j *Judgement) unchecked(format string, args ...any) {
	if j.Status == Alarm {
		return
	}
	j.Status = Unchecked
	j.Reasons = append(j.Reasons, fmt.Sprintf(format, args...))
}

func (j *Judgement) say(total *Length) string {
	odds := "none"
	if !math.IsInf(j.FalseAlarm, -1) {
		odds = fmt.Sprintf("10^%.0f", j.FalseAlarm)
	}
	switch j.Status {
	case Alarm:
		return fmt.Sprintf("ALARM: %s (odds of a false alarm %s)", strings.Join(j.Reasons, "; "), odds)
	case Unchecked:
		return "not checked: " + strings.Join(j.Reasons, "; ")
	}
	return fmt.Sprintf("clean: %d of %d answers hold what their prompts do and nothing of another tenant, %d were refused (odds of a false alarm %s)",
		total.counts[Recalled], total.asked(), total.counts[Refused], odds)
}
