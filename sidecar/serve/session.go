package serve

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	cookieName = "kvwitness_session"
	// sessionLasts is how long a browser is known after it showed the token.
	sessionLasts = 12 * time.Hour
	maxForm      = 8 << 10
)

// gate lets in who shows the token: programs with each request, browsers once, after
// which a cookie that this process signed stands for it. Nothing is kept of sessions.
type gate struct {
	want [sha256.Size]byte
	key  []byte
}

func newGate(token string) *gate {
	g := &gate{want: sha256.Sum256([]byte(token)), key: make([]byte, 32)}
	_, _ = rand.Read(g.key) // it never fails
	return g
}

// token reports whether that is the token, in a time that does not tell how much of
// it is right.
func (g *gate) token(given string) bool {
	got := sha256.Sum256([]byte(given))
	return subtle.ConstantTimeCompare(got[:], g.want[:]) == 1
}

// session is the value of a cookie that ends then.
func (g *gate) session(ends time.Time) string {
	text := strconv.FormatInt(ends.Unix(), 10)
	mac := hmac.New(sha256.New, g.key)
	mac.Write([]byte(text))
	return text + "." + hex.EncodeToString(mac.Sum(nil))
}

func (g *gate) known(r *http.Request) bool {
	if given, shown := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); shown {
		return g.token(given)
	}
	c, err := r.Cookie(cookieName)
	if err != nil {
		return false
	}
	text, _, _ := strings.Cut(c.Value, ".")
	ends, err := strconv.ParseInt(text, 10, 64)
	return err == nil && time.Now().Unix() < ends && hmac.Equal([]byte(c.Value), []byte(g.session(time.Unix(ends, 0))))
}

// login takes the token of a browser.
func (g *gate) login(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if r.ParseForm() != nil || !g.token(strings.TrimSpace(r.PostForm.Get("token"))) {
		http.Redirect(w, r, "/login?wrong", http.StatusSeeOther)
		return
	}
	http.SetCookie(w, &http.Cookie{
		Name: cookieName, Value: g.session(time.Now().Add(sessionLasts)), Path: "/", MaxAge: int(sessionLasts.Seconds()),
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil,
	})
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// guarded asks for the token, and sends browsers to where they can show it.
func (g *gate) guarded(next http.Handler, pages bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case g.known(r):
			next.ServeHTTP(w, r)
		case pages && r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html"):
			http.Redirect(w, r, "/login", http.StatusSeeOther)
		default:
			w.Header().Set("WWW-Authenticate", "Bearer")
			answer(w, http.StatusUnauthorized, map[string]string{"error": "a token is needed"})
		}
	})
}

// named refuses requests for a name that is not one of this sidecar's: a page
// elsewhere could have made it up to reach what only this machine may. An address
// cannot be made up so.
func named(hosts []string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		host = strings.ToLower(strings.Trim(host, "[]"))
		if _, err := netip.ParseAddr(host); err != nil && host != "localhost" && !slices.Contains(hosts, host) {
			answer(w, http.StatusMisdirectedRequest, map[string]string{"error": "this sidecar is not asked for by that name; the key hosts lists those by which it is"})
			return
		}
		next.ServeHTTP(w, r)
	})
}
