package main

import (
	"bytes"
	"cmp"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"slices"
)

// alike is how near two colours are, as the sum of squares of 16-bit differences, that
// need no place of their own in a palette: four steps of 256 in each channel.
const alike = 3 * (4 * 257) * (4 * 257)

// fewer writes a PNG anew with the 256 colours that most of its pixels have, none like
// another, and each other pixel in the nearest of them: charts have few colours, and a
// file in the tree should be small.
func fewer(text []byte) ([]byte, error) {
	full, err := png.Decode(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	bounds := full.Bounds()
	pixels := image.NewRGBA(bounds)
	draw.Draw(pixels, bounds, full, bounds.Min, draw.Src)
	counts := map[color.RGBA]int{}
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			counts[pixels.RGBAAt(x, y)]++
		}
	}
	often := slices.SortedFunc(maps.Keys(counts), func(a, b color.RGBA) int { return cmp.Compare(counts[b], counts[a]) })
	var palette color.Palette
	for _, c := range often {
		if len(palette) < 256 && (len(palette) == 0 || distance(c, palette.Convert(c)) > alike) {
			palette = append(palette, c)
		}
	}
	nearest := make(map[color.RGBA]uint8, len(often))
	for _, c := range often {
		nearest[c] = uint8(palette.Index(c))
	}
	out := image.NewPaletted(bounds, palette)
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			out.SetColorIndex(x, y, nearest[pixels.RGBAAt(x, y)])
		}
	}
	var made bytes.Buffer
	err = (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&made, out)
	return made.Bytes(), err
}

func distance(a, b color.Color) (sum uint64) {
	ar, ag, ab, _ := a.RGBA()
	br, bg, bb, _ := b.RGBA()
	for _, d := range []int64{int64(ar) - int64(br), int64(ag) - int64(bg), int64(ab) - int64(bb)} {
		sum += uint64(d * d)
	}
	return sum
}
