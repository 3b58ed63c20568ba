package pytorch

import (
	"context"
	"hash/crc32"

	"github.com/demi-weights/demi/tensor"
)

// Verify reads the whole file and compares the CRC-32 of every entry of the
// archive, the storages and the pickle among them, with that of its directory.
// The first one that differs is the error, with the first
// tensor that lies there, if there is one. Files that PyTorch wrote after
// torch.serialization.set_crc32_options(False) have no valid sums. It ends when
// ctx does, with its error.
func (f *File) Verify(ctx context.Context) error {
	for _, k := range f.inOrder() {
		if err := (sum{f, k}).Read(ctx); err != nil {
			return err
		}
	}
	return nil
}

// A sum is the CRC-32 of an entry.
type sum struct {
	f     *File
	entry int
}

// Read reads the entry and compares.
func (s sum) Read(ctx context.Context) error {
	e := &s.f.entries[s.entry]
	if err := s.f.stored(e); err != nil {
		return err
	}
	buf := make([]byte, min(e.size, 256<<10))
	crc := uint32(0)
	for done := int64(0); done < e.size; {
		p := buf[:min(int64(len(buf)), e.size-done)]
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.f.read(p, e.data+done); err != nil {
			return err
		}
		crc = crc32.Update(crc, crc32.IEEETable, p)
		done += int64(len(p))
	}
	return s.Compare(crc)
}

// Compare compares crc with what the directory says.
func (s sum) Compare(crc uint32) error {
	e := &s.f.entries[s.entry]
	if crc == e.crc {
		return nil
	}
	return s.f.fail(s.tensor(), e.data, tensor.ErrFormat, "zip entry %s of %d bytes has the CRC-32 %08x, its directory says %08x", quote(e.name), e.size, crc, e.crc)
}

// tensor returns the name of the first tensor that lies in the entry.
func (s sum) tensor() string {
	for i := range s.f.views {
		if s.f.views[i].store == s.entry {
			return s.f.infos[i].Name
		}
	}
	return ""
}

// Sums returns the CRC-32 of the entry that tensor i lies in. It is whole if the
// tensor is contiguous and takes the entry from its first byte to its last; with
// Options.Once there are no others, and with Options.Lenient none.
func (f *File) Sums(i int) (sums []tensor.Sum, whole bool) {
	v := &f.views[i]
	e := &f.entries[v.store]
	whole = v.contiguous && v.place == e.data && f.infos[i].Size == e.size && e.size > 0
	if f.lenient || f.once && !whole {
		return nil, false
	}
	return []tensor.Sum{sum{f, v.store}}, whole
}

// OtherSums returns those of the entries that no tensor lies in, such as the
// pickle, in the order of the file; none with Options.Once or Options.Lenient.
func (f *File) OtherSums() (sums []tensor.Sum) {
	if f.lenient || f.once {
		return nil
	}
	used := make(map[int]bool, len(f.views))
	for i := range f.views {
		used[f.views[i].store] = true
	}
	for _, k := range f.inOrder() {
		if !used[k] {
			sums = append(sums, sum{f, k})
		}
	}
	return sums
}

// Verify is File.Verify for every file.
func (s *Set) Verify(ctx context.Context) error {
	for _, f := range s.files {
		if err := f.Verify(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Sums is File.Sums.
func (s *Set) Sums(i int) (sums []tensor.Sum, whole bool) { return tensor.Sums(s.joined, i) }

// OtherSums is File.OtherSums for every file.
func (s *Set) OtherSums() []tensor.Sum { return tensor.OtherSums(s.joined) }
