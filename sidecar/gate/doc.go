// Package gate decides whether a deployment may go on: named checks of its pools
// against its context, of admission, of transfers, and of the lifetime of pages.
//
// It imports sidecar/source/engineinfo and sidecar/canary for their words. It is
// pure: sidecar/gate/gather asks, and hands over a [Picture]. It promises:
//
//  1. Each check says what was asked, what was expected, what was found, and how to
//     mend it.
//  2. What was not seen passes no check: it could not be checked. What nobody watched
//     is not witnessed, which is not a pass either.
//  3. A protection that is off, or on and not shown to have run, counts as none.
package gate
