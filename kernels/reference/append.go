package reference

// Append stores one token's keys (or values) as row slot of each kv head of a
// page: kv holds KVHeads × HeadDim numbers, head after head. Rows of other slots
// are not touched. The caller checks MayAppend before and sets the written tag
// after.
func (l Layout) Append(page []byte, slot int, kv []float32) {
	row := l.RowBytes()
	for h := range l.KVHeads {
		dst := l.Head(page, h)[slot*row : (slot+1)*row]
		src := kv[h*l.HeadDim : (h+1)*l.HeadDim]
		if l.DType == Float32 {
			copy(floats(dst), src)
			continue
		}
		narrow(l.DType, halves(dst), src)
	}
}
