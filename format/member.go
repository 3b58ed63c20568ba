package format

import (
	"fmt"
	"path/filepath"

	"github.com/zeebo/blake3"

	"github.com/demi-weights/demi/internal/atomicfile"
	"github.com/demi-weights/demi/tensor"
)

// A member says which file of which set a file is.
type member struct {
	no, count uint32 // no counts from 1; 0 if the file does not say
	link      tensor.Hash
}

// firstLink is the link of the first file of every set.
var firstLink = tensor.Hash(blake3.Sum256([]byte("demi set 1\n")))

// nextLink returns the link of the file after the one with this link and these
// blocks. It depends on the values of all files before.
func nextLink(link tensor.Hash, blocks blockTable) (next tensor.Hash) {
	h := blake3.New()
	h.Write(link[:])
	h.Write(blocks)
	h.Sum(next[:0])
	return next
}

// pending returns m with the link of a file that does not know it yet: all
// zeros.
func (m member) pending() member { return member{no: m.no, count: m.count} }

// UnlinkedDigest returns the Digest that the file has, or had, while its link in a
// set is pending: see Sink.Omit. Of a file that is in no set it is the Digest.
func (f *File) UnlinkedDigest() (d tensor.Hash, err error) {
	s := f.x.section(secSet)
	if s == nil {
		return f.Digest(), nil
	}
	index := make([]byte, f.foot.length)
	if err := f.read(index, f.foot.index); err != nil {
		return d, err
	}
	pending := f.x.member.pending()
	copy(index[s.at-f.foot.index:], pending.append(nil))
	return digestOf(index), nil
}

// relink gives a file that is complete, but for its link, its place in the set.
// What changes is of one length, at the end of the file, and written at once.
func (p *part) relink(place member) error {
	f, err := Open(p.name, nil)
	if err != nil {
		return err
	}
	defer f.Close()
	s := f.x.section(secSet)
	index := make([]byte, f.foot.length)
	if err := f.read(index, f.foot.index); err != nil {
		return err
	}
	from := s.at - f.foot.index
	copy(index[from:], place.append(nil))
	foot := f.foot
	foot.digest = digestOf(index)
	if err := atomicfile.Overwrite(p.name, foot.append(index[from:]), s.at); err != nil {
		return err
	}
	p.x.member, p.digest = place, foot.digest
	return nil
}

func (m *member) append(p []byte) []byte {
	p = le.AppendUint32(le.AppendUint32(p, m.no), m.count)
	return append(p, m.link[:]...)
}

// parseMember reads the sections that say what the file is a part of and what
// it was made from.
func (f *File) parseMember() error {
	if s := f.x.section(secContainer); s != nil {
		c, err := f.open(s)
		if err != nil {
			return err
		}
		if f.x.container = c.str("container"); c.end() != nil {
			return c.err
		}
	}
	s := f.x.section(secSet)
	if s == nil {
		return nil
	}
	c, err := f.open(s)
	if err != nil {
		return err
	}
	m := &f.x.member
	m.no, m.count, m.link = c.u32("number of the file"), c.u32("number of files"), c.hash("link")
	if c.err == nil && (m.no < 1 || m.no > m.count) {
		c.fail(0, tensor.ErrFormat, "file %d of %d", m.no, m.count)
	}
	return c.end()
}

// checkMembers says which of the files of a set is not of it, as far as they
// themselves say.
func checkMembers(files []*File) error {
	order := make([]*File, len(files))
	silent := 0
	for _, f := range files {
		switch m := &f.x.member; {
		case m.no == 0:
			silent++
		case int64(m.count) != int64(len(files)):
			return f.fail("", -1, tensor.ErrFormat, "it is one of %d files of a set, and here there are %d", m.count, len(files))
		case order[m.no-1] != nil:
			return f.fail("", -1, tensor.ErrFormat, "it is file %d of %d of its set, as is %s", m.no, m.count, filepath.Base(order[m.no-1].name))
		default:
			order[m.no-1] = f
		}
	}
	if silent == len(files) {
		return nil
	}
	want := firstLink
	for i, f := range order {
		if f == nil {
			return files[0].fail("", -1, tensor.ErrFormat, "file %d of the set does not say so: it is of another model", i+1)
		}
		if f.x.member.link != want {
			return f.fail("", -1, tensor.ErrFormat, "it is of another model than %s: its link is %v, want %v", before(order, i), f.x.member.link, want)
		}
		want = nextLink(want, f.x.blocks)
	}
	return nil
}

// before names the files before number i.
func before(files []*File, i int) string {
	if i == 0 {
		return "the first of a set"
	}
	name := filepath.Base(files[i-1].name)
	if i == 1 {
		return name
	}
	return fmt.Sprintf("the %d files up to %s", i, name)
}
