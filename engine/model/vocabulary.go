package model

import "errors"

// ErrChat says that a model has no way to put the messages of a chat.
var ErrChat = errors.New("the model cannot be asked by messages")

// Message is one turn of a chat.
type Message struct{ Role, Content string }

// Vocabulary turns text into a model's tokens and back. It may be used from several
// goroutines.
type Vocabulary interface {
	// Size is the number of tokens: they run from 0 to Size-1.
	Size() int
	// Encode returns the tokens of a text, at least one. No text makes a special.
	Encode(text []byte) []Token
	// EncodeChat returns the tokens of a chat whose next turn is the model's; what
	// the messages say makes no special. Errors: ErrChat.
	EncodeChat(messages []Message) ([]Token, error)
	// Text returns a token's bytes, none for a special; they must not be changed.
	Text(t Token) []byte
	// Ends reports whether an answer ends at a token.
	Ends(t Token) bool
}

// Bytes is the vocabulary of the built-in network: a token a byte, and two specials.
type Bytes struct{}

// Size implements Vocabulary.
func (Bytes) Size() int { return Vocab }

// Encode implements Vocabulary.
func (Bytes) Encode(text []byte) []Token { return Encode(text) }

// EncodeChat implements Vocabulary. Who speaks is not said: see EncodeTurns.
func (Bytes) EncodeChat(messages []Message) ([]Token, error) {
	texts := make([][]byte, len(messages))
	for i, m := range messages {
		texts[i] = []byte(m.Content)
	}
	return EncodeTurns(texts...), nil
}

// Text implements Vocabulary.
func (Bytes) Text(t Token) []byte {
	if _, ok := t.Byte(); !ok {
		return nil
	}
	return allBytes[t : t+1 : t+1]
}

// Ends implements Vocabulary.
func (Bytes) Ends(t Token) bool { return t == EOT }

// allBytes are the texts of the tokens of Bytes.
var allBytes = func() (all [256]byte) {
	for i := range all {
		all[i] = byte(i)
	}
	return all
}()
