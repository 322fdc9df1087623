package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/kvwitness/kvwitness/engine/scheduler"
)

// retryAfter is what a client is told to wait when the queue is full, in seconds.
const retryAfter = 1

// Error is an error of OpenAI's form.
type Error struct {
	Status  int    `json:"-"`
	Message string `json:"message"`
	Type    string `json:"type"`
	Param   string `json:"param,omitempty"`
	Code    string `json:"code,omitempty"`
}

func (e *Error) Error() string { return e.Message }

var kinds = map[int]string{
	http.StatusBadRequest: "invalid_request_error", http.StatusUnauthorized: "authentication_error",
	http.StatusForbidden: "permission_error", http.StatusNotFound: "not_found_error",
	http.StatusRequestEntityTooLarge: "invalid_request_error", http.StatusTooManyRequests: "rate_limit_error",
}

// Refuse is an error with a status.
func Refuse(status int, code, format string, args ...any) *Error {
	kind, ok := kinds[status]
	if !ok {
		kind = "server_error"
	}
	return &Error{Status: status, Message: fmt.Sprintf(format, args...), Type: kind, Code: code}
}

// codes name the reasons that a client may decide by.
var codes = []struct {
	err  error
	code string
}{
	{scheduler.ErrOverLong, "context_length_exceeded"},
	{scheduler.ErrPoolTooSmall, "context_length_exceeded"},
	{scheduler.ErrQueueFull, "queue_full"},
	{scheduler.ErrStopping, "stopping"},
	{scheduler.ErrShortHandoff, "short_handoff"},
	{scheduler.ErrDigest, "handoff_digest"},
	{scheduler.ErrPageTag, "page_tag"},
	{scheduler.ErrTimeout, "timeout"},
	{scheduler.ErrAborted, "aborted"},
}

// failure is how an engine's outcome reads to a client.
func failure(status int, err error) *Error {
	if err == nil {
		err = errors.New("the request failed")
	}
	code := ""
	for _, c := range codes {
		if errors.Is(err, c.err) {
			code = c.code
			break
		}
	}
	return Refuse(status, code, "%v", err)
}

// WriteError answers with an error of OpenAI's form.
func WriteError(w http.ResponseWriter, e *Error) {
	if e.Status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	}
	if e.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	WriteJSON(w, e.Status, map[string]*Error{"error": e})
}

// WriteJSON answers with v.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client has left, if anything
}
