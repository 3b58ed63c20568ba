package format

import (
	"slices"

	"github.com/demi-weights/demi/codec"
	"github.com/demi-weights/demi/internal/tile"
	"github.com/demi-weights/demi/tensor"
)

const foreignCode = 255

// typeCodes has the types in the order of their numbers in the file, from 0.
var typeCodes = []tensor.DType{
	tensor.Invalid,
	tensor.F64, tensor.F32, tensor.F16, tensor.BF16,
	tensor.F8E4M3, tensor.F8E5M2, tensor.F8E4M3FNUZ, tensor.F8E5M2FNUZ, tensor.F8E8M0,
	tensor.F6E2M3, tensor.F6E3M2, tensor.F4,
	tensor.I64, tensor.I32, tensor.I16, tensor.I8,
	tensor.U64, tensor.U32, tensor.U16, tensor.U8, tensor.Bool, tensor.C64,
}

// codeOf returns the number of a type, 0 if it has none.
func codeOf(d tensor.DType) byte {
	if d == tensor.Opaque {
		return foreignCode
	}
	return byte(max(slices.Index(typeCodes, d), 0))
}

// typeOf is the reverse of codeOf; tensor.Invalid for a number that is unknown.
func typeOf(code byte) tensor.DType {
	switch {
	case code == foreignCode:
		return tensor.Opaque
	case int(code) < len(typeCodes):
		return typeCodes[code]
	}
	return tensor.Invalid
}

// elemOf returns what the codec takes the bytes of a tensor for.
func elemOf(d tensor.DType) codec.Elem {
	switch d {
	case tensor.F32:
		return codec.F32
	case tensor.F16:
		return codec.F16
	case tensor.BF16:
		return codec.BF16
	}
	return codec.Bytes
}

// checkSize compares the size of a tensor with that by shape and type.
func checkSize(in *tensor.Info) error {
	elems, err := tensor.Elements(in.Shape)
	if err != nil {
		return err
	}
	var size int64
	switch t := in.Foreign; {
	case in.DType != tensor.Opaque:
		size, err = tensor.ByteSize(in.DType, elems)
	case t.BlockElems < 0 || t.BlockBytes < 0 || in.Size < 0:
		return classed(tensor.ErrFormat, "size of %d bytes, in blocks of %d elements and %d bytes", in.Size, t.BlockElems, t.BlockBytes)
	case t.BlockElems == 0 || t.BlockBytes == 0:
		return nil
	default:
		size, err = tensor.BlockSize(elems, t.BlockElems, t.BlockBytes)
	}
	if err == nil && size != in.Size {
		err = classed(tensor.ErrFormat, "size is %d bytes, %s of shape %v takes %d", in.Size, in.TypeName(), in.Shape, size)
	}
	return err
}

// tileSize returns the bytes of a whole tile of a tensor.
func tileSize(d tensor.DType) int64 { return tile.Size(d.Bits()) }

// tileCount returns the tiles of a tensor, each of which is a block.
func tileCount(in *tensor.Info) int64 { return tile.Count(in.Size, in.DType.Bits()) }
