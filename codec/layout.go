package codec

import "encoding/binary"

const (
	maxElems  = 1 << 16 // of a Cascade tile
	maxPlanes = 4
	maxLevels = 6
	maxWidth  = 4

	group = 64 // codes that are packed together

	// slack is what may be read beyond the symbols of a scratch buffer, so
	// that a vector may be loaded wherever one of them is.
	slack = 64
)

// A level is one level of a plane: n codes of width bits.
type level struct {
	width int
	n     int
	rest  int // escapes; 0 if the level is closed
	table [1 << maxWidth]byte
	words []byte // the codes, in whole groups
}

// symbols returns the number of symbols in the table.
func (l *level) symbols() int { return 1<<l.width - min(l.rest, 1) }

// size returns the bytes of all codes.
func (l *level) size() int { return wordBytes(l.n, l.width) }

// open returns the bits of a group where an escape may be: all or none.
func (l *level) open() uint64 { return -uint64(min(l.rest, 1)) }

func wordBytes(n, width int) int { return (n + group - 1) / group * 8 * width }

// A plane is one plane of a tile, in its stored form.
type plane struct {
	store  [maxLevels]level
	levels []level // those of store in use
	raw    []byte  // what the levels leave
	rest   int     // length of raw
}

// constant tells whether the plane has one symbol only.
func (p *plane) constant() bool { return len(p.levels) == 1 && p.levels[0].width == 0 }

// A layout is where everything is in a Cascade tile of n elements.
type layout struct {
	store  [maxPlanes]plane
	planes []plane // those of store in use
	n      int
}

// reset prepares for a tile.
func (t *layout) reset(planes, n int) {
	t.planes, t.n = t.store[:planes], n
	for i := range t.planes {
		p := &t.planes[i]
		p.levels, p.raw, p.rest = p.store[:0], nil, n
	}
}

// add adds a level to a plane whose levels so far leave p.rest symbols.
func (p *plane) add(width, rest int) *level {
	p.levels = p.store[:len(p.levels)+1]
	l := &p.levels[len(p.levels)-1]
	l.width, l.n, l.rest = width, p.rest, rest
	clear(l.table[:])
	p.rest = rest
	return l
}

// head returns the bytes before the tables.
func (t *layout) head() int {
	n := 4
	for i := range t.planes {
		n += 4 * len(t.planes[i].levels)
	}
	return n
}

// tables returns the bytes of all tables.
func (t *layout) tables() (n int) {
	for i := range t.planes {
		for j := range t.planes[i].levels {
			n += t.planes[i].levels[j].symbols()
		}
	}
	return n
}

// codes returns the offset of the codes.
func (t *layout) codes() int { return (t.head() + t.tables() + 7) &^ 7 }

// size returns the bytes of the stored tile.
func (t *layout) size() int {
	n := t.codes()
	for i := range t.planes {
		p := &t.planes[i]
		for j := range p.levels {
			n += p.levels[j].size()
		}
		n += p.rest
	}
	return n
}

// place cuts the codes and the raw bytes of all planes out of a tile, of which
// b must have t.size() bytes.
func (t *layout) place(b []byte) {
	b = b[t.codes():]
	for i := range t.planes {
		for j := range t.planes[i].levels {
			l := &t.planes[i].levels[j]
			l.words, b = cut(b, l.size())
		}
	}
	for i := range t.planes {
		t.planes[i].raw, b = cut(b, t.planes[i].rest)
	}
}

func cut(b []byte, n int) (head, tail []byte) { return b[:n:n], b[n:] }

// write writes all but the codes and the raw bytes.
func (t *layout) write(b []byte) {
	clear(b[:t.codes()])
	entry, table := b[4:t.head()], b[t.head():]
	for i := range t.planes {
		p := &t.planes[i]
		b[i] = byte(len(p.levels))
		for j := range p.levels {
			l := &p.levels[j]
			entry[0] = byte(l.width)
			binary.LittleEndian.PutUint16(entry[2:], uint16(l.rest))
			entry = entry[4:]
			table = table[copy(table, l.table[:l.symbols()]):]
		}
	}
}

// read sets t to what the tile b of n elements says, after every check that
// needs no decoding.
func (t *layout) read(b []byte, planes, n int) error {
	t.reset(planes, n)
	if err := t.readCounts(b); err != nil {
		return err
	}
	if err := t.readEntries(b[4:]); err != nil {
		return err
	}
	if t.size() != len(b) {
		return corrupt("%d bytes, want %d", len(b), t.size())
	}
	if err := t.readTables(b[t.head():t.codes()]); err != nil {
		return err
	}
	t.place(b)
	return t.checkPadding()
}

// readCounts sets the number of levels of every plane.
func (t *layout) readCounts(b []byte) error {
	if len(b) < 4 {
		return corrupt("%d bytes", len(b))
	}
	for i, n := range b[:4] {
		if n > maxLevels || n > 0 && i >= len(t.planes) {
			return corrupt("%d levels in plane %d", n, i)
		}
		if i < len(t.planes) {
			t.planes[i].levels = t.planes[i].store[:n]
		}
	}
	if len(b) < t.head() {
		return corrupt("%d bytes", len(b))
	}
	return nil
}

// readEntries sets width and counts of every level.
func (t *layout) readEntries(b []byte) error {
	for i := range t.planes {
		p := &t.planes[i]
		count := len(p.levels)
		p.levels = p.store[:0]
		for j := range count {
			width, rest := int(b[0]), int(binary.LittleEndian.Uint16(b[2:]))
			switch {
			case width > maxWidth || b[1] != 0 || width == 0 && rest > 0:
				return corrupt("plane %d, level %d: width %d with %d escapes", i, j+1, width, rest)
			case rest >= p.rest || rest == 0 && j < count-1:
				return corrupt("plane %d, level %d: %d escapes of %d symbols", i, j+1, rest, p.rest)
			}
			p.add(width, rest)
			b = b[4:]
		}
	}
	return nil
}

// readTables sets the table of every level. The rest of b must be zeros.
func (t *layout) readTables(b []byte) error {
	for i := range t.planes {
		for j := range t.planes[i].levels {
			l := &t.planes[i].levels[j]
			b = b[copy(l.table[:l.symbols()], b):]
		}
	}
	for _, c := range b {
		if c != 0 {
			return corrupt("tables end with %d, not zeros", c)
		}
	}
	return nil
}

// checkPadding checks that the last group of every level ends with zeros, so
// that nothing there is an escape.
func (t *layout) checkPadding() error {
	for i := range t.planes {
		for j := range t.planes[i].levels {
			l := &t.planes[i].levels[j]
			if used := uint(l.n % group); used != 0 && !endsWithZeros(l.words, l.width, used) {
				return corrupt("plane %d, level %d: codes beyond the last", i, j+1)
			}
		}
	}
	return nil
}

// endsWithZeros tells whether the last words have no bit from used on.
func endsWithZeros(words []byte, width int, used uint) bool {
	words = words[len(words)-8*width:]
	var all uint64
	for ; len(words) >= 8; words = words[8:] {
		all |= binary.LittleEndian.Uint64(words)
	}
	return all>>used == 0
}
