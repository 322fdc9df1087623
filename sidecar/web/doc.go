// Package web is what people look at in a browser: now (the pages of each pool,
// handoffs as they end, what is blind), an incident (what was claimed and what was
// seen, side by side, and whose data was exposed), and the history.
//
// It imports sidecar/evidence, sidecar/ledger's views and sidecar/finding. It
// promises:
//
//  1. A page needs nothing but this server, and little script; its policy lets in
//     nothing else.
//  2. A map of a million pages is drawn by the server into [MaxCells] cells, and
//     looked at by the judge a strip at a time, once for all who watch.
//  3. There are at most [MaxViews] live views, and one that reads slowly is ended.
//  4. What is shown is escaped, whatever an engine calls its things.
//  5. Who may ask is the business of sidecar/serve; here nothing is changed by a
//     request of another origin.
package web
