package verify

import (
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/demi-weights/demi/tensor"
)

// A Renaming gives the tensors whose names match other names.
type Renaming struct {
	Match *regexp.Regexp
	To    string // as regexp.Expand has it: $1 or ${1} is the first group
}

// ParseRenaming reads "regex=replacement"; the last "=" divides them.
func ParseRenaming(s string) (Renaming, error) {
	i := strings.LastIndexByte(s, '=')
	if i < 0 {
		return Renaming{}, fmt.Errorf("%q is not regex=replacement", s)
	}
	re, err := regexp.Compile(s[:i])
	if err != nil {
		return Renaming{}, err
	}
	return Renaming{re, s[i+1:]}, nil
}

// Rename returns src with other names: of the first renaming that matches, each
// match is replaced. Two tensors that get one name are tensor.ErrFormat. Closing
// the result closes src.
func Rename(src tensor.Source, renamings []Renaming) (tensor.Source, error) {
	v := newRemapped(src)
	for i := range v.infos {
		for _, r := range renamings {
			if name := v.infos[i].Name; r.Match.MatchString(name) {
				v.infos[i].Name = r.Match.ReplaceAllString(name, r.To)
				break
			}
		}
	}
	return v, v.unique()
}

// A remapped is a Source whose tensors have other names or are read through a
// transform.
type remapped struct {
	tensor.Source
	infos []tensor.Info
	data  []func(io.ReaderAt) io.ReaderAt // nil: as it is
}

func newRemapped(src tensor.Source) *remapped {
	infos := src.Tensors()
	return &remapped{src, append([]tensor.Info(nil), infos...), make([]func(io.ReaderAt) io.ReaderAt, len(infos))}
}

func (v *remapped) unique() error {
	seen := make(map[string]int, len(v.infos))
	for i, in := range v.infos {
		if j, ok := seen[in.Name]; ok {
			old := v.Source.Tensors()
			return fmt.Errorf("%w: tensors %q and %q both get the name %q", tensor.ErrFormat, old[j].Name, old[i].Name, in.Name)
		}
		seen[in.Name] = i
	}
	return nil
}

// Tensors returns the tensors under their new names.
func (v *remapped) Tensors() []tensor.Info { return v.infos }

// Data returns the bytes of tensor i, after its transform.
func (v *remapped) Data(i int) io.ReaderAt {
	r := v.Source.Data(i)
	if t := v.data[i]; t != nil {
		return t(r)
	}
	return r
}

// Sums returns those of the source below. A transform reads the bytes in another
// order.
func (v *remapped) Sums(i int) (sums []tensor.Sum, whole bool) {
	sums, whole = tensor.Sums(v.Source, i)
	return sums, whole && v.data[i] == nil
}

// OtherSums returns those of the source below.
func (v *remapped) OtherSums() []tensor.Sum { return tensor.OtherSums(v.Source) }

// permuted reads rows of a tensor in another order: row i is from(i) of r.
type permuted struct {
	r         io.ReaderAt
	row, size int64 // bytes of a row, of the tensor
	from      func(i int64) int64
}

// ReadAt reads each row where it is.
func (p *permuted) ReadAt(b []byte, off int64) (n int, err error) {
	for n < len(b) {
		at := off + int64(n)
		if at >= p.size {
			return n, io.EOF
		}
		i, within := at/p.row, at%p.row
		part := b[n:min(int64(len(b)), int64(n)+p.row-within)]
		k, err := p.r.ReadAt(part, p.from(i)*p.row+within)
		n += k
		if k < len(part) {
			return n, err
		}
	}
	return n, nil
}
