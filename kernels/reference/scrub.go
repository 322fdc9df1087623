package reference

// Scrub zeroes page p of a region that begins at region[0]: exactly the
// PageBytes of the page, not the gap up to the stride and nothing of a neighbour.
// The caller clears the written tags first, so that nobody reads a half-zeroed
// page as whole.
func (l Layout) Scrub(region []byte, stride, p int) {
	at := p * stride
	clear(region[at : at+l.PageBytes()])
}
