package demo

import (
	"crypto/rand"
	"encoding/hex"
	"math/big"
	"slices"
	"strings"
)

// tenant has a key, and a secret that only its own answers may hold.
type tenant struct{ name, key, secret string }

// secretWords is how many words a secret has.
const secretWords = 4

// lexicon is what secrets are made of: words of their own, so that a model that was
// trained on text repeats them as it repeats any. No two begin alike: the built-in
// model follows its last six letters, and where two words of a secret have those in
// common with the space between it goes round in a circle. None has an s: an answer
// that goes on in somebody's pages after the s of "secret" would begin in the secret.
var lexicon = strings.Fields(`amber bamboo comet dahlia ebony falcon garnet hazel indigo juniper kiwi lemon
	marble nutmeg orchid pepper quartz raven tulip umbrella violet walnut yellow zebra`)

// newTenants draws keys and secrets; no word is in two of them.
func newTenants(names ...string) (all []tenant) {
	words := slices.Clone(lexicon)
	for _, name := range names {
		t := tenant{name: name, key: random(16)}
		var secret []string
		for range secretWords {
			n, _ := rand.Int(rand.Reader, big.NewInt(int64(len(words)))) // never fails
			at := int(n.Int64())
			secret = append(secret, words[at])
			words = slices.Delete(words, at, at+1)
		}
		t.secret = strings.Join(secret, " ")
		all = append(all, t)
	}
	return all
}

// random is n random bytes in hexadecimal.
func random(n int) string {
	raw := make([]byte, n)
	_, _ = rand.Read(raw) // never fails
	return hex.EncodeToString(raw)
}
