package format

import "github.com/demi-weights/demi/codec"

// Bytes returns the bytes of the tensor in the memory of the file, without a
// copy, if the file was opened with Options.Map and all blocks of the tensor
// are raw; else ok is false. They begin on a multiple of File.Align, are not to
// be written to, and are valid until release is called, which must be done
// once, also after Close. Nobody has checked them: Verify does.
func (t *Tensor) Bytes() (p []byte, release func(), ok bool) {
	return t.f.Bytes(t.i)
}

// Bytes is Tensor.Bytes of tensor i.
func (f *File) Bytes(i int) (p []byte, release func(), ok bool) {
	if f.mapped == nil || !f.raw(i) {
		return nil, nil, false
	}
	return f.mapped.Bytes(f.x.entries[i].offset, f.x.infos[i].Size)
}

// raw reports whether all blocks of tensor i are.
func (f *File) raw(i int) bool {
	e := &f.x.entries[i]
	for k := e.first; k < e.first+tileCount(&f.x.infos[i]); k++ {
		if _, id, _ := f.x.blocks.at(k); id != codec.Raw {
			return false
		}
	}
	return true
}
