package api

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/kvwitness/kvwitness/engine/kvcache"
)

// Bounds of a key file.
const (
	MaxKeyFile = 1 << 20
	MaxKeys    = 10000
	domainLen  = 16 // bytes of a domain's hash
)

// Keys maps API keys to tenants. Keys are kept as hashes.
type Keys struct {
	tenants map[[sha256.Size]byte]string
	secret  [sha256.Size]byte // under which domains are hashed
}

// NoKeys lets everybody in as one tenant, whose domain is shared unless a request
// brings a cache_salt.
func NoKeys() *Keys {
	k := &Keys{}
	_, _ = rand.Read(k.secret[:]) // never fails
	return k
}

// LoadKeys reads a key file: a line "TENANT KEY" for each key, # begins a comment.
// Engines that are given the same file hash a tenant to the same domain.
func LoadKeys(path string) (*Keys, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open the key file: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, MaxKeyFile+1))
	if err != nil {
		return nil, fmt.Errorf("read the key file: %w", err)
	}
	if len(text) > MaxKeyFile {
		return nil, fmt.Errorf("read the key file %s: longer than %d bytes", path, MaxKeyFile)
	}
	return ParseKeys(text)
}

// ParseKeys reads the text of a key file.
func ParseKeys(text []byte) (*Keys, error) {
	k := &Keys{tenants: map[[sha256.Size]byte]string{}, secret: sha256.Sum256(append([]byte("kvengine domain\x00"), text...))}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if len(fields) != 2 {
			return nil, fmt.Errorf("key file, line %d: want TENANT KEY", n)
		}
		h := sha256.Sum256([]byte(fields[1]))
		if _, twice := k.tenants[h]; twice {
			return nil, fmt.Errorf("key file, line %d: the key stands there twice", n)
		}
		if k.tenants[h] = fields[0]; len(k.tenants) > MaxKeys {
			return nil, fmt.Errorf("key file, line %d: more than %d keys", n, MaxKeys)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the key file: %w", err)
	}
	if len(k.tenants) == 0 {
		return nil, fmt.Errorf("the key file holds no key: leave it out to let everybody in")
	}
	return k, nil
}

// Tenant finds whose key a request carries.
func (k *Keys) Tenant(r *http.Request) (string, *Error) {
	if k.tenants == nil {
		return "", nil
	}
	key, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return "", Refuse(http.StatusUnauthorized, "invalid_api_key", "no API key: send Authorization: Bearer KEY")
	}
	// The hash is looked up, not the key: how long that takes tells nothing of it.
	tenant, ok := k.tenants[sha256.Sum256([]byte(key))]
	if !ok {
		return "", Refuse(http.StatusUnauthorized, "invalid_api_key", "the API key is not known")
	}
	return tenant, nil
}

// Domain is the isolation of a tenant's requests with a cache salt; empty, shared
// by all, for nobody without one.
func (k *Keys) Domain(tenant, salt string) kvcache.Domain {
	if tenant == "" && salt == "" {
		return ""
	}
	h := hmac.New(sha256.New, k.secret[:])
	fmt.Fprintf(h, "%d:%s%s", len(tenant), tenant, salt)
	return kvcache.Domain(hex.EncodeToString(h.Sum(nil)[:domainLen]))
}
