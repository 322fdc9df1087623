package serve

import (
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"
)

const goodToken = "0123456789abcdef"

func paged(t *testing.T, token string, hosts ...string) *Server {
	src := source(true)
	src.Hosts = hosts
	src.Web = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "page "+r.URL.Path) })
	return serve(t, token, src)
}

func asked(t *testing.T, client *http.Client, method, at string, header map[string]string, form url.Values) (int, string, http.Header) {
	t.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	req, err := http.NewRequestWithContext(t.Context(), method, at, body)
	if err != nil {
		t.Fatal(err)
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for name, value := range header {
		if name == "Host" {
			req.Host = value
		} else {
			req.Header.Set(name, value)
		}
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text), resp.Header
}

// Promise: a browser is let in once it has shown the token, and by nothing else.
func TestABrowserLogsInWithTheToken(t *testing.T) {
	s := paged(t, goodToken)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Jar: jar}
	html := map[string]string{"Accept": "text/html"}
	if status, body, _ := asked(t, client, "GET", s.URL()+"/", html, nil); status != 200 || body != "page /login" {
		t.Errorf("a stranger gets %d %s", status, body)
	}
	if status, _, h := asked(t, client, "GET", s.URL()+"/", nil, nil); status != 401 || h.Get("WWW-Authenticate") != "Bearer" {
		t.Errorf("a program gets %d", status)
	}
	for _, wrong := range []string{"", "0123456789abcdeg", strings.Repeat("x", 1<<20)} {
		_, _, _ = asked(t, client, "POST", s.URL()+"/login", html, url.Values{"token": {wrong}})
		if _, body, _ := asked(t, client, "GET", s.URL()+"/", html, nil); body != "page /login" {
			t.Errorf("let in with %.20q: %s", wrong, body)
		}
	}
	elsewhere := map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "http://evil.example"}
	if status, _, _ := asked(t, client, "POST", s.URL()+"/login", elsewhere, url.Values{"token": {goodToken}}); status != 403 {
		t.Errorf("a form of another origin logs in: %d", status)
	}
	if _, body, _ := asked(t, client, "POST", s.URL()+"/login", html, url.Values{"token": {goodToken}}); body != "page /" {
		t.Errorf("after logging in: %s", body)
	}
	at, _ := url.Parse(s.URL())
	c := jar.Cookies(at)
	if len(c) != 1 || strings.Contains(c[0].Value, goodToken) {
		t.Fatalf("cookies %v", c)
	}
	for _, forged := range []string{c[0].Value + "0", "9" + c[0].Value, "99999999999.00", "", strings.Repeat("9", 4000)} {
		if status, _, _ := asked(t, http.DefaultClient, "GET", s.URL()+"/", map[string]string{"Cookie": cookieName + "=" + forged}, nil); status != 401 {
			t.Errorf("let in with %.40q: %d", forged, status)
		}
	}
	g := newGate(goodToken)
	old := &http.Request{Header: http.Header{"Cookie": {cookieName + "=" + g.session(time.Now().Add(-time.Second))}}}
	if g.known(old) {
		t.Error("a session does not end")
	}
}

// Promise: under a name that is not this sidecar's there is nothing but health and
// metrics, with the token or without.
func TestOnlyItsOwnNamesAreAnswered(t *testing.T) {
	for _, token := range []string{"", goodToken} {
		s := paged(t, token, "node-a.example")
		for host, want := range map[string]int{
			"127.0.0.1:9464": 200, "localhost": 200, "[::1]:9464": 200, "10.1.2.3": 200, "node-a.example:9464": 200, "NODE-A.example": 200,
			"evil.example": 421, "evil.example:9464": 421, "127.0.0.1.evil.example": 421, "localhost.evil": 421, "x": 421,
		} {
			for _, path := range []string{"/", "/api/v1/findings", "/api/v1/state", "/incident/x"} {
				header := map[string]string{"Host": host, "Authorization": "Bearer " + token}
				if status, _, _ := asked(t, http.DefaultClient, "GET", s.URL()+path, header, nil); status != want {
					t.Errorf("%s for %s: %d, want %d", path, host, status, want)
				}
			}
			for _, path := range []string{"/livez", "/metrics"} {
				if status, _, _ := asked(t, http.DefaultClient, "GET", s.URL()+path, map[string]string{"Host": host, "Authorization": "Bearer " + token}, nil); status != 200 {
					t.Errorf("%s for %s: %d", path, host, status)
				}
			}
		}
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
}
