package lifecycle

// The plain lines that make up nearly all of a trace (names in ASCII without
// escapes, whole numbers that are not negative, lists of runs) are checked and
// cut in one pass. Whatever is not plain, and whatever is wrong, is left to
// jsontext, so that there is one judge of what JSON is: scan never refuses, it
// only declines.

// scan cuts a plain object into vals, and reports whether it could. What vals
// holds after it declined is undefined.
func scan(raw []byte, vals *values) bool {
	i := blank(raw, 0)
	if i == len(raw) || raw[i] != '{' {
		return false
	}
	for {
		i = blank(raw, i+1)
		end := plainText(raw, i)
		if end < 0 {
			return false
		}
		f := fieldOf(raw[i+1 : end-1])
		i = blank(raw, end)
		if f == numFields || vals[f] != nil || i == len(raw) || raw[i] != ':' {
			return false
		}
		i = blank(raw, i+1)
		if end = plainValue(raw, i, plainDepth); end < 0 {
			return false
		}
		vals[f] = raw[i:end]
		i = blank(raw, end)
		if i == len(raw) || raw[i] != ',' {
			break
		}
	}
	return i < len(raw) && raw[i] == '}' && blank(raw, i+1) == len(raw)
}

// plainDepth is how deep arrays nest in a plain value: runs are two deep.
const plainDepth = 2

// plainValue is where the plain value that begins at i ends, -1 if there is none.
func plainValue(raw []byte, i, depth int) int {
	if i == len(raw) {
		return -1
	}
	switch c := raw[i]; {
	case c == '"':
		return plainText(raw, i)
	case '0' <= c && c <= '9':
		return plainNumber(raw, i)
	case c == '[' && depth > 0:
		return plainArray(raw, i, depth)
	case c == 't' && len(raw)-i >= 4 && string(raw[i:i+4]) == "true":
		return i + 4
	case c == 'f' && len(raw)-i >= 5 && string(raw[i:i+5]) == "false":
		return i + 5
	}
	return -1
}

func plainArray(raw []byte, i, depth int) int {
	i = blank(raw, i+1)
	if i < len(raw) && raw[i] == ']' {
		return i + 1
	}
	for {
		end := plainValue(raw, i, depth-1)
		if end < 0 {
			return -1
		}
		i = blank(raw, end)
		switch {
		case i == len(raw):
			return -1
		case raw[i] == ']':
			return i + 1
		case raw[i] != ',':
			return -1
		}
		i = blank(raw, i+1)
	}
}

// plainText is where the string at i ends: printable ASCII without escapes.
func plainText(raw []byte, i int) int {
	if i == len(raw) || raw[i] != '"' {
		return -1
	}
	for i++; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '"':
			return i + 1
		case c < ' ' || c >= 0x7f || c == '\\':
			return -1
		}
	}
	return -1
}

// plainNumber is where the digits at i end. A zero stands alone, as in JSON; a
// fraction or an exponent is not consumed, so that the caller declines.
func plainNumber(raw []byte, i int) int {
	if raw[i] == '0' {
		if i++; i < len(raw) && '0' <= raw[i] && raw[i] <= '9' {
			return -1
		}
		return i
	}
	for i++; i < len(raw) && '0' <= raw[i] && raw[i] <= '9'; i++ {
	}
	return i
}

func blank(raw []byte, i int) int {
	for i < len(raw) && raw[i] == ' ' {
		i++
	}
	return i
}

// fieldSlots is a hash table of the field names, a power of two in size; free
// slots hold numFields.
var fieldSlots = func() (slots [256]field) {
	for i := range slots {
		slots[i] = numFields
	}
	for f, name := range fieldNames {
		i := fieldHash([]byte(name))
		for ; slots[i] != numFields; i++ { // i wraps, being a byte
		}
		slots[i] = field(f)
	}
	return slots
}()

// fieldHash mixes what tells the names apart best: their length and three of
// their letters. The name is not empty.
func fieldHash(name []byte) uint8 {
	n := len(name)
	return uint8(n)*31 ^ name[0]*7 ^ name[n/2]*13 ^ name[n-1]*59
}

// fieldOf is the field of that name, numFields if there is none.
func fieldOf(name []byte) field {
	if len(name) == 0 {
		return numFields
	}
	for i := fieldHash(name); ; i++ {
		f := fieldSlots[i]
		if f == numFields || string(name) == fieldNames[f] {
			return f
		}
	}
}
