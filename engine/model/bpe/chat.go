package bpe

import (
	"fmt"
	"strings"

	"github.com/kvwitness/kvwitness/engine/model"
	"github.com/kvwitness/kvwitness/engine/model/gguf"
)

// The specials of ChatML.
const (
	startName = "<|im_start|>"
	endName   = "<|im_end|>"
)

// The template of the ChatML family, of which one part differs: what is said first
// where a chat does not begin with a system message. \n may be spelled or be a line
// break.
const (
	beforeDefault = `{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '` + startName + "system\n"
	afterDefault  = endName + "\n' }}{% endif %}"
	noDefault     = "{% for message in messages %}"
	theRest       = `{{'` + startName + `' + message['role'] + '` + "\n" + `' + message['content'] + '` + endName + `' + '` + "\n" +
		`'}}{% endfor %}{% if add_generation_prompt %}{{ '` + startName + "assistant\n" + `' }}{% endif %}`
)

// chatML puts messages between specials.
type chatML struct {
	start, end  model.Token
	firstSystem string // "": nothing is said
}

// readTemplate reads a file's template. Templates are programs; of those only the
// ChatML family's is known here. Errors: model.ErrChat, which is no reason to refuse
// the file.
func readTemplate(f *gguf.File, control map[string]model.Token) (*chatML, error) {
	text, err := f.Text(keyTemplate)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", model.ErrChat, err)
	}
	c := &chatML{}
	var ok1, ok2 bool
	if c.start, ok1 = control[startName]; ok1 {
		c.end, ok2 = control[endName]
	}
	if !ok1 || !ok2 {
		return nil, fmt.Errorf("%w: the vocabulary has no %s and %s", model.ErrChat, startName, endName)
	}
	text = strings.ReplaceAll(text, `\n`, "\n")
	if text == noDefault+theRest {
		return c, nil
	}
	first, ok := strings.CutPrefix(text, beforeDefault)
	if ok {
		c.firstSystem, ok = strings.CutSuffix(first, afterDefault+theRest)
	}
	if !ok || strings.ContainsAny(c.firstSystem, "'{}\\") {
		return nil, fmt.Errorf("%w: its %s is not that of the ChatML family: send the whole prompt to /v1/completions", model.ErrChat, keyTemplate)
	}
	return c, nil
}

// EncodeChat implements model.Vocabulary.
func (t *Tokenizer) EncodeChat(messages []model.Message) ([]model.Token, error) {
	if t.chat == nil {
		return nil, t.chatProblem
	}
	var out []model.Token
	if t.addBOS {
		out = append(out, t.bos)
	}
	turn := func(role, content string) {
		out = t.encode([]byte(role+"\n"+content), append(out, t.chat.start))
		out = t.encode([]byte("\n"), append(out, t.chat.end))
	}
	if t.chat.firstSystem != "" && (len(messages) == 0 || messages[0].Role != "system") {
		turn("system", t.chat.firstSystem)
	}
	for _, m := range messages {
		turn(m.Role, m.Content)
	}
	return t.encode([]byte("assistant\n"), append(out, t.chat.start)), nil
}
