// Package web looks at a running sidecar's pages in a real browser: whether they show
// what happens while it happens, lead from an alert to its evidence, draw a million
// pages, and can be read and used by everybody.
//
// It needs what test/chromium sees to, and leaves none of it out.
package web
