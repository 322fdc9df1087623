package model

// Model is a network with the vocabulary in which it was trained.
type Model struct {
	Network
	Vocabulary
	Release func() error // nil: there is nothing to give back
}

// Builtin is the built-in network over bytes.
func Builtin() *Model { return &Model{Network: NewInduction(), Vocabulary: Bytes{}} }

// Close gives back what the model holds. Nothing of it may be used any more.
func (m *Model) Close() error {
	if m.Release == nil {
		return nil
	}
	return m.Release()
}
