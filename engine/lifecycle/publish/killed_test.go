package publish

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// TestTheEngineThatIsKilled is the process that another test starts and kills. By
// itself it has nothing to do.
func TestTheEngineThatIsKilled(t *testing.T) {
	dir := os.Getenv("KVW_TEST_DIR")
	if dir == "" {
		return
	}
	epoch, err := strconv.ParseUint(os.Getenv("KVW_TEST_EPOCH"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	s := newSteady(t, newTestPublisher(t, Config{Identity: testIdentity("killed", epoch), Dir: dir}))
	for i := range 60_000 { // a minute, lest it stay behind
		s.event(i)
		time.Sleep(time.Millisecond)
	}
}
