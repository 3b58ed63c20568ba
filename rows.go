package demi

import (
	"fmt"

	"github.com/demi-weights/demi/gguf"
	"github.com/demi-weights/demi/tensor"
)

// Rows returns the number of rows, which is the first and slowest dimension,
// and the bytes of one; rows lie one after another. Tensors without dimensions,
// and types whose rows are not whole bytes (below 8 bits) or not whole blocks
// (opaque ones, if their blocks are known at all) are tensor.ErrUnsupported.
func (t *Tensor) Rows() (n, size int64, err error) {
	in := t.Info()
	if len(in.Shape) == 0 {
		return 0, 0, t.noRows("it has no dimensions")
	}
	elems, err := tensor.Elements(in.Shape[1:])
	unit := "bytes"
	switch b := in.Foreign; {
	case err != nil: // dimensions that only a dimension of 0 makes a tensor
	case in.DType != tensor.Opaque:
		size, err = tensor.ByteSize(in.DType, elems)
	case b.BlockElems <= 0 || b.BlockBytes <= 0:
		return 0, 0, t.noRows("the blocks of type %s are not known", in.TypeName())
	default:
		size, err = tensor.BlockSize(elems, b.BlockElems, b.BlockBytes)
		unit = fmt.Sprintf("blocks of %d", b.BlockElems)
	}
	if err != nil {
		return 0, 0, t.noRows("rows of shape %v of %s are not whole %s", in.Shape[1:], in.TypeName(), unit)
	}
	return in.Shape[0], size, nil
}

func (t *Tensor) noRows(format string, args ...any) error {
	return fmt.Errorf("tensor %q: %w: no rows to read: %s", t.Info().Name, tensor.ErrUnsupported, fmt.Sprintf(format, args...))
}

// ReadRows fills dst with rows from number from on; its length must be that of
// whole rows. What Rows refuses, it refuses. Of a store it costs the blocks
// that the rows touch.
func (t *Tensor) ReadRows(dst []byte, from int64) error {
	rows, size, err := t.Rows()
	if err != nil {
		return err
	}
	length := int64(len(dst))
	n := length / max(size, 1)
	switch {
	case length != n*size:
		return fmt.Errorf("tensor %q: memory of %d bytes is not whole rows of %d", t.Info().Name, length, size)
	case from < 0 || from > rows || n > rows-from:
		return fmt.Errorf("tensor %q: rows %d to %d of %d", t.Info().Name, from, from+n, rows)
	case n == 0:
		return nil
	}
	return tensor.ReadFull(t.c.src, t.i, dst, from*size)
}

// Block returns the element type as ggml knows it: its name and number, and the
// elements and bytes of a block, which for types such as F16 is one element. ok
// is false for types that ggml does not have, and for opaque ones of which only
// the name is known. Of a safetensors file, an unknown type that has the name
// of a type of ggml, and the size that it would have, is taken for that.
func (t *Tensor) Block() (b tensor.Foreign, ok bool) {
	in := t.Info()
	if b = in.Foreign; b.BlockElems > 0 && b.BlockBytes > 0 {
		return b, true
	}
	if b, ok = gguf.TypeByName(in.TypeName()); !ok {
		return tensor.Foreign{}, false
	}
	elems, err := tensor.Elements(in.Shape)
	if err == nil {
		size, err := tensor.BlockSize(elems, b.BlockElems, b.BlockBytes)
		if err == nil && size == in.Size {
			return b, true
		}
	}
	return tensor.Foreign{}, false
}

// Bytes returns the bytes of the tensor in memory, little-endian and row-major,
// without a copy, if the checkpoint was opened with OpenOptions.Map and they
// lie in the file like that; else ok is false: where the system could not map
// it, in a big-endian GGUF, and in a store but for tensors of which all blocks
// are raw. They are not to be written to, and are valid until release is
// called, also after Close; release may be called more than once.
//
// The bytes are aligned as their offset in the file is, see Place: in GGUF and
// in a store to 32 and 64 bytes at least unless their writer chose less, in
// safetensors to 8 if their writer padded the header, and to nothing if not.
// Nobody has compared checksums of a store. For files that become shorter, see
// OpenOptions.Map.
func (t *Tensor) Bytes() (p []byte, release func(), ok bool) { return tensor.Bytes(t.c.src, t.i) }
