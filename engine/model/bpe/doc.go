// Package bpe is the vocabulary of a model file: byte-level pair merging as GPT-2
// has it, and the chat template of the ChatML family.
//
// It imports engine/model and engine/model/gguf. It promises: any bytes can be
// encoded, in time that grows little faster than their number, and decode to what
// they were, less those bytes for which the vocabulary has no token; no text, of a prompt or of a message, makes a special token; a file
// whose rules are not known here is refused and the rule named.
//
// The splitting of text into words is that of the GPT-2 tokenizer ("gpt-2"), with
// every digit on its own for "smollm".
package bpe

import "errors"

// ErrTokenizer says that a file's tokenizer is not one that is known here.
var ErrTokenizer = errors.New("tokenizer of the model file")
