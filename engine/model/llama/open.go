package llama

import (
	"errors"
	"fmt"

	"github.com/kvwitness/kvwitness/engine/model"
	"github.com/kvwitness/kvwitness/engine/model/bpe"
	"github.com/kvwitness/kvwitness/engine/model/gguf"
)

// Open maps a model file and reads network and vocabulary. Errors: gguf.ErrFormat,
// gguf.ErrKey, gguf.ErrTensor, bpe.ErrTokenizer, ErrModel, or the system's.
func Open(path string) (*model.Model, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	m, err := load(f)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read the model file %s: %w", path, err), f.Close())
	}
	return m, nil
}

// load makes a model of a file, which it closes at the model's end.
func load(f *gguf.File) (*model.Model, error) {
	vocabulary, err := bpe.Load(f)
	if err != nil {
		return nil, err
	}
	n, err := New(f, vocabulary.Size())
	if err != nil {
		return nil, err
	}
	return &model.Model{Network: n, Vocabulary: vocabulary, Release: func() error {
		n.Close()
		return f.Close()
	}}, nil
}
