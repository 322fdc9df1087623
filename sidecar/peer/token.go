package peer

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
)

// On loopback two sidecars know each other by a token. Neither sends it: each shows
// that it has it, for a nonce that the other made up just now.

func newNonce() []byte {
	b := make([]byte, nonceBytes)
	_, _ = rand.Read(b) // never fails
	return b
}

// proofOf shows that a side has the token: role keeps one side's from being sent back
// to it.
func proofOf(token, role string, theirs, ours []byte) []byte {
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write([]byte("kvwitness peer 1 " + role + "\n"))
	mac.Write(theirs)
	mac.Write(ours)
	return mac.Sum(nil)
}

const (
	roleDials  = "dials"
	roleServes = "serves"
)

// proves reports whether the other side, in that role, has the token.
func proves(proof []byte, token, role string, ours, theirs []byte) bool {
	return hmac.Equal(proof, proofOf(token, role, ours, theirs))
}
