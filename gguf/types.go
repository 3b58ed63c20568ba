package gguf

import (
	"fmt"

	"github.com/demi-weights/demi/tensor"
)

// A ggmlType is one element type of ggml.
type ggmlType struct {
	name       string
	dtype      tensor.DType // Opaque for block-quantised types
	blockElems int64
	blockBytes int64
	fileType   int32 // llama_ftype of a model that is mostly this; -1 if there is none
}

// ggmlTypes is indexed by ggml's number of the type; a row without a block
// size is a type that ggml has removed.
var ggmlTypes = [...]ggmlType{
	0:  {"F32", tensor.F32, 1, 4, 0},
	1:  {"F16", tensor.F16, 1, 2, 1},
	2:  {"Q4_0", tensor.Opaque, 32, 18, 2},
	3:  {"Q4_1", tensor.Opaque, 32, 20, 3},
	4:  {name: "Q4_2"},
	5:  {name: "Q4_3"},
	6:  {"Q5_0", tensor.Opaque, 32, 22, 8},
	7:  {"Q5_1", tensor.Opaque, 32, 24, 9},
	8:  {"Q8_0", tensor.Opaque, 32, 34, 7},
	9:  {"Q8_1", tensor.Opaque, 32, 36, -1},
	10: {"Q2_K", tensor.Opaque, 256, 84, 10},
	11: {"Q3_K", tensor.Opaque, 256, 110, 12},
	12: {"Q4_K", tensor.Opaque, 256, 144, 15},
	13: {"Q5_K", tensor.Opaque, 256, 176, 17},
	14: {"Q6_K", tensor.Opaque, 256, 210, 18},
	15: {"Q8_K", tensor.Opaque, 256, 292, -1},
	16: {"IQ2_XXS", tensor.Opaque, 256, 66, 19},
	17: {"IQ2_XS", tensor.Opaque, 256, 74, 20},
	18: {"IQ3_XXS", tensor.Opaque, 256, 98, 23},
	19: {"IQ1_S", tensor.Opaque, 256, 50, 24},
	20: {"IQ4_NL", tensor.Opaque, 32, 18, 25},
	21: {"IQ3_S", tensor.Opaque, 256, 110, 26},
	22: {"IQ2_S", tensor.Opaque, 256, 82, 28},
	23: {"IQ4_XS", tensor.Opaque, 256, 136, 30},
	24: {"I8", tensor.I8, 1, 1, -1},
	25: {"I16", tensor.I16, 1, 2, -1},
	26: {"I32", tensor.I32, 1, 4, -1},
	27: {"I64", tensor.I64, 1, 8, -1},
	28: {"F64", tensor.F64, 1, 8, -1},
	29: {"IQ1_M", tensor.Opaque, 256, 56, 31},
	30: {"BF16", tensor.BF16, 1, 2, 32},
	31: {name: "Q4_0_4_4"},
	32: {name: "Q4_0_4_8"},
	33: {name: "Q4_0_8_8"},
	34: {"TQ1_0", tensor.Opaque, 256, 54, 36},
	35: {"TQ2_0", tensor.Opaque, 256, 66, 37},
	36: {name: "IQ4_NL_4_4"},
	37: {name: "IQ4_NL_4_8"},
	38: {name: "IQ4_NL_8_8"},
	39: {"MXFP4", tensor.Opaque, 32, 17, 38},
	40: {"NVFP4", tensor.Opaque, 64, 36, 39},
	41: {"Q1_0", tensor.Opaque, 128, 18, 40},
	42: {"Q2_0", tensor.Opaque, 64, 18, 41},
}

// TypeByID returns name and geometry of a ggml type by its number; ok is false
// for numbers that ggml does not know or has removed.
func TypeByID(id uint32) (t tensor.Foreign, ok bool) {
	if id >= uint32(len(ggmlTypes)) || ggmlTypes[id].blockElems == 0 {
		return tensor.Foreign{}, false
	}
	row := &ggmlTypes[id]
	return tensor.Foreign{Name: row.name, ID: id, BlockElems: row.blockElems, BlockBytes: row.blockBytes}, true
}

// TypeByName returns name and geometry of a ggml type by its exact name, such
// as "Q4_K" or "BF16"; ok is false for names that ggml does not know or has
// removed.
func TypeByName(name string) (t tensor.Foreign, ok bool) {
	for id := range uint32(len(ggmlTypes)) {
		if ggmlTypes[id].name == name {
			return TypeByID(id)
		}
	}
	return tensor.Foreign{}, false
}

// typeIDOf returns the ggml number of a tensor type that is not Opaque.
func typeIDOf(d tensor.DType) (id uint32, ok bool) {
	for id := range ggmlTypes {
		if ggmlTypes[id].dtype == d && d != tensor.Opaque && d != tensor.Invalid {
			return uint32(id), true
		}
	}
	return 0, false
}

// unknownName is the name of a type that ggml does not know, as a lenient
// reader gives it out and the writer takes it back.
func unknownName(id uint32) string { return fmt.Sprintf("ggml_type_%d", id) }

// refusal says why type id cannot be read.
func refusal(id uint32) string {
	if id < uint32(len(ggmlTypes)) {
		return fmt.Sprintf("type %d (%s) was removed from ggml", id, ggmlTypes[id].name)
	}
	return fmt.Sprintf("type %d is not a ggml type known here (0 to %d)", id, len(ggmlTypes)-1)
}

// FileType returns the value of the key general.file_type (llama_ftype) for a
// model that is mostly of the type with this name: 0 for "F32", 1 for "F16",
// 32 for "BF16", 15 for "Q4_K". Where llama.cpp knows several mixes of a type
// it is the medium one, as llama.cpp itself guesses. ok is false for types
// without such a number, such as integers and F64.
func FileType(typeName string) (n uint32, ok bool) {
	t, ok := TypeByName(typeName)
	if !ok || ggmlTypes[t.ID].fileType < 0 {
		return 0, false
	}
	return uint32(ggmlTypes[t.ID].fileType), true
}

// MajorityType returns the name of the type that most elements have, among the
// types for which FileType has a number; "" if there are none. On a tie the
// type that comes first wins.
func MajorityType(infos []tensor.Info) string {
	count := make(map[string]int64)
	best := ""
	for _, in := range infos {
		if _, ok := FileType(in.TypeName()); ok {
			count[in.TypeName()] += in.Elements()
		}
	}
	for _, in := range infos {
		if name := in.TypeName(); count[name] > count[best] {
			best = name
		}
	}
	return best
}
