package control

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/kvwitness/kvwitness/engine/pdwire"
)

// The fourth frame of a status is free text in SGLang. kvengine fills it with what
// its peer can use: "STATUS reason" of a failure, with the status of HTTP; "PAGES
// TOKENS" of a success. A success without it, as SGLang says it, says no length.

func failureText(status int, reason string) string {
	text := fmt.Sprintf("%d %s", status, reason)
	return text[:min(len(text), pdwire.MaxReasonBytes)]
}

// parseFailure reads a failure's text; 502 where it begins with no status.
func parseFailure(text string) (status int, reason string) {
	first, rest, _ := strings.Cut(text, " ")
	n, err := strconv.Atoi(first)
	if err != nil || n < 400 || n > 599 {
		return 502, text
	}
	return n, rest
}

func lengthText(pages, tokens int) string { return fmt.Sprintf("%d %d", pages, tokens) }

// parseLength reads a success's text; ok is false where it says no length.
func parseLength(text string) (pages, tokens int, ok bool) {
	first, rest, found := strings.Cut(text, " ")
	pages, err := strconv.Atoi(first)
	tokens, err2 := strconv.Atoi(rest)
	if !found || err != nil || err2 != nil || pages < 0 || tokens < 0 {
		return 0, 0, false
	}
	return pages, tokens, true
}
