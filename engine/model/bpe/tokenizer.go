package bpe

import (
	"fmt"
	"strings"

	"github.com/kvwitness/kvwitness/engine/model"
	"github.com/kvwitness/kvwitness/engine/model/gguf"
)

// The keys of a model file that are read here.
const (
	keyModel    = "tokenizer.ggml.model"
	keyPre      = "tokenizer.ggml.pre"
	keyTokens   = "tokenizer.ggml.tokens"
	keyKinds    = "tokenizer.ggml.token_type"
	keyMerges   = "tokenizer.ggml.merges"
	keyBOS      = "tokenizer.ggml.bos_token_id"
	keyEOS      = "tokenizer.ggml.eos_token_id"
	keyAddBOS   = "tokenizer.ggml.add_bos_token"
	keyTemplate = "tokenizer.chat_template"
)

// The kinds of tokens, by the format's numbers.
const (
	normalToken  = 1
	controlToken = 3
	userToken    = 4
)

// endNames are the specials at which an answer ends besides the file's own.
var endNames = []string{"<|endoftext|>", "<|im_end|>"}

// Tokenizer implements model.Vocabulary.
type Tokenizer struct {
	text        [][]byte // by token; nil for a special
	ids         map[string]model.Token
	bytes       [256]model.Token // gone: none
	merges      map[[2]model.Token]merge
	ends        map[model.Token]bool
	bos         model.Token
	addBOS      bool
	digitsAlone bool
	chat        *chatML // nil: the file has no template
	chatProblem error   // why not
}

var _ model.Vocabulary = (*Tokenizer)(nil)

// Load reads the tokenizer of a model file. Errors: ErrTokenizer, gguf.ErrKey.
func Load(f *gguf.File) (*Tokenizer, error) {
	t := &Tokenizer{ids: map[string]model.Token{}, merges: map[[2]model.Token]merge{}, ends: map[model.Token]bool{}}
	for _, read := range []func(*gguf.File) error{t.readRules, t.readTokens, t.readMerges, t.readSpecials} {
		if err := read(f); err != nil {
			return nil, fmt.Errorf("read the tokenizer: %w", err)
		}
	}
	return t, nil
}

// readRules checks that the file's tokenizer is one that is known here.
func (t *Tokenizer) readRules(f *gguf.File) error {
	name, err := f.Text(keyModel)
	if err != nil {
		return err
	}
	if name != "gpt2" {
		return fmt.Errorf("%w: %s is %.64q, only gpt2 is supported", ErrTokenizer, keyModel, name)
	}
	pre, err := f.Text(keyPre)
	if err != nil {
		return err
	}
	switch pre {
	case "gpt-2":
	case "smollm":
		t.digitsAlone = true
	default:
		return fmt.Errorf("%w: %s is %.64q, only gpt-2 and smollm are supported", ErrTokenizer, keyPre, pre)
	}
	return nil
}

// readTokens reads the texts of the tokens, which the file spells in letters that
// stand for bytes.
func (t *Tokenizer) readTokens(f *gguf.File) error {
	tokens, err := f.Texts(keyTokens)
	if err != nil {
		return err
	}
	kinds, err := f.Uints(keyKinds)
	if err != nil {
		return err
	}
	if len(kinds) != len(tokens) || len(tokens) == 0 {
		return fmt.Errorf("%w: %d tokens and the kinds of %d", ErrTokenizer, len(tokens), len(kinds))
	}
	t.text = make([][]byte, len(tokens))
	for i, s := range tokens {
		switch kinds[i] {
		case normalToken:
			raw, ok := unspell(s)
			if !ok {
				return fmt.Errorf("%w: token %d is not spelled in the letters of bytes", ErrTokenizer, i)
			}
			t.text[i] = raw
		case userToken:
			t.text[i] = []byte(s)
		}
		if kinds[i] == normalToken {
			t.ids[string(t.text[i])] = model.Token(i)
		}
	}
	for b := range t.bytes {
		t.bytes[b] = gone
		if id, ok := t.ids[string([]byte{byte(b)})]; ok {
			t.bytes[b] = id
		}
	}
	return nil
}

func (t *Tokenizer) readMerges(f *gguf.File) error {
	merges, err := f.Texts(keyMerges)
	if err != nil {
		return err
	}
	for rank, m := range merges {
		left, right, _ := strings.Cut(m, " ")
		a, ok1 := unspell(left)
		b, ok2 := unspell(right)
		first, ok3 := t.ids[string(a)]
		second, ok4 := t.ids[string(b)]
		to, ok5 := t.ids[string(a)+string(b)]
		if !(ok1 && ok2 && ok3 && ok4 && ok5) {
			return fmt.Errorf("%w: merge %d is not of two tokens to a third", ErrTokenizer, rank)
		}
		pair := [2]model.Token{first, second}
		if _, twice := t.merges[pair]; !twice {
			t.merges[pair] = merge{rank, to}
		}
	}
	return nil
}

// readSpecials reads which tokens begin and end what, and the chat template.
func (t *Tokenizer) readSpecials(f *gguf.File) (err error) {
	if t.bos, err = t.special(f, keyBOS); err != nil {
		return err
	}
	eos, err := t.special(f, keyEOS)
	if err != nil {
		return err
	}
	t.ends[eos] = true
	if f.Has(keyAddBOS) {
		if t.addBOS, err = f.Bool(keyAddBOS); err != nil {
			return err
		}
	}
	names, err := f.Texts(keyTokens)
	if err != nil {
		return err
	}
	control := map[string]model.Token{}
	for i, name := range names {
		if t.text[i] == nil {
			control[name] = model.Token(i)
		}
	}
	for _, name := range endNames {
		if id, ok := control[name]; ok {
			t.ends[id] = true
		}
	}
	t.chat, t.chatProblem = readTemplate(f, control)
	return nil
}

func (t *Tokenizer) special(f *gguf.File, key string) (model.Token, error) {
	id, err := f.Uint(key)
	if err == nil && id >= uint64(len(t.text)) {
		err = fmt.Errorf("%w: %s is %d of %d tokens", ErrTokenizer, key, id, len(t.text))
	}
	return model.Token(id), err
}

// Size implements model.Vocabulary.
func (t *Tokenizer) Size() int { return len(t.text) }

// Encode implements model.Vocabulary.
func (t *Tokenizer) Encode(text []byte) []model.Token {
	var out []model.Token
	if t.addBOS {
		out = append(out, t.bos)
	}
	if out = t.encode(text, out); len(out) == 0 {
		out = append(out, t.bos)
	}
	return out
}

func (t *Tokenizer) encode(text []byte, out []model.Token) []model.Token {
	words(text, t.digitsAlone, func(word []byte) { out = t.mergeWord(word, out) })
	return out
}

// Text implements model.Vocabulary.
func (t *Tokenizer) Text(token model.Token) []byte {
	if token < 0 || int(token) >= len(t.text) {
		return nil
	}
	return t.text[token]
}

// Ends implements model.Vocabulary.
func (t *Tokenizer) Ends(token model.Token) bool { return t.ends[token] }
