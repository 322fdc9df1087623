//go:build !cuda

package cuda

import (
	"github.com/kvwitness/kvwitness/engine/backend"
	"github.com/kvwitness/kvwitness/engine/model"
)

// Built says whether this binary has the backend.
const Built = false

// New opens a pool on the first GPU. Errors: ErrNotBuilt.
func New(model.Network, Config) (backend.Backend, error) { return nil, ErrNotBuilt }

// GPU names the first GPU. Errors: ErrNotBuilt.
func GPU() (string, error) { return "", ErrNotBuilt }
