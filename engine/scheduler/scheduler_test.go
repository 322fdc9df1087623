package scheduler

import "errors"

var errTest = errors.New("made by the test")
