package finding

// Explanation says what a kind of finding means, for whoever is woken by it.
// The lines are whole sentences, without line breaks.
type Explanation struct {
	Kind     Kind     `json:"kind"`
	Severity Severity `json:"severity"`
	Rule     string   `json:"rule"`    // the rule that was broken, as DESIGN section 6 has it
	Meaning  string   `json:"meaning"` // what happened
	Matters  string   `json:"matters"` // why anybody should get up
	Causes   []string `json:"causes"`  // what usually is behind it
	Reports  []Report `json:"reports"` // the same, in public
	Todo     []string `json:"todo"`    // what to do, the most urgent first
}

// Report is a public account of a broken rule: a project and the number of its
// issue or change. Other accounts have a title instead of a number.
type Report struct {
	Project string `json:"project"`
	Number  int    `json:"number,omitzero"`
	What    string `json:"what"`
}

// Explain says what a kind means. k must be one of the kinds.
func Explain(k Kind) Explanation {
	e := explanations[k]
	e.Kind, e.Severity = k, k.Severity()
	return e
}
