package tensor

import (
	"fmt"
	"strings"
)

// A DType is an element type. The zero value is not a type.
//
// The order of the constants is the order in which safetensors lays tensors
// out: the widest alignment first.
type DType uint8

// The element types, with the spelling of their safetensors names.
const (
	Invalid    DType = iota
	U64              // unsigned integer, 64 bits
	I64              // signed integer, 64 bits
	F64              // IEEE 754 binary64
	C64              // complex number of two binary32
	F32              // IEEE 754 binary32
	U32              // unsigned integer, 32 bits
	I32              // signed integer, 32 bits
	BF16             // bfloat16: the high half of a binary32
	F16              // IEEE 754 binary16
	U16              // unsigned integer, 16 bits
	I16              // signed integer, 16 bits
	F8E5M2FNUZ       // 8-bit float, 5 exponent bits, finite, no negative zero
	F8E4M3FNUZ       // 8-bit float, 4 exponent bits, finite, no negative zero
	F8E8M0           // 8-bit power of two, no sign
	F8E4M3           // 8-bit float, 4 exponent bits, finite (E4M3FN)
	F8E5M2           // 8-bit float, 5 exponent bits
	I8               // signed integer, 8 bits
	U8               // unsigned integer, 8 bits
	F6E3M2           // 6-bit float, 3 exponent bits
	F6E2M3           // 6-bit float, 2 exponent bits
	F4               // 4-bit float, 2 exponent bits
	Bool             // one byte, 0 or 1
	Opaque           // known to its container only: see Info.Foreign
	dtypeEnd
)

var dtypes = [dtypeEnd]struct {
	name string
	bits uint8
	kind kind
}{
	Invalid: {"invalid", 0, kindOther},
	U64:     {"U64", 64, kindInteger}, I64: {"I64", 64, kindInteger},
	F64: {"F64", 64, kindFloat}, C64: {"C64", 64, kindOther},
	F32: {"F32", 32, kindFloat}, U32: {"U32", 32, kindInteger}, I32: {"I32", 32, kindInteger},
	BF16: {"BF16", 16, kindFloat}, F16: {"F16", 16, kindFloat},
	U16: {"U16", 16, kindInteger}, I16: {"I16", 16, kindInteger},
	F8E5M2FNUZ: {"F8_E5M2FNUZ", 8, kindSmallFloat}, F8E4M3FNUZ: {"F8_E4M3FNUZ", 8, kindSmallFloat},
	F8E8M0: {"F8_E8M0", 8, kindSmallFloat}, F8E4M3: {"F8_E4M3", 8, kindSmallFloat},
	F8E5M2: {"F8_E5M2", 8, kindSmallFloat}, I8: {"I8", 8, kindInteger}, U8: {"U8", 8, kindInteger},
	F6E3M2: {"F6_E3M2", 6, kindSmallFloat}, F6E2M3: {"F6_E2M3", 6, kindSmallFloat},
	F4: {"F4", 4, kindSmallFloat}, Bool: {"BOOL", 8, kindOther}, Opaque: {"OPAQUE", 0, kindOther},
}

type kind uint8

const (
	kindOther kind = iota
	kindFloat
	kindSmallFloat
	kindInteger
)

// String returns the safetensors name of d, such as "BF16" or "F8_E4M3".
func (d DType) String() string {
	if d >= dtypeEnd {
		return fmt.Sprintf("DType(%d)", uint8(d))
	}
	return dtypes[d].name
}

// Bits returns the width of one element in bits; 0 for Opaque and Invalid,
// whose elements have no width of their own.
func (d DType) Bits() int {
	if d >= dtypeEnd {
		return 0
	}
	return int(dtypes[d].bits)
}

// IsFloat reports whether d is F64, F32, F16 or BF16: the types that a
// conversion may read and write. Floats of 8 bits and fewer are not among
// them, for they mean little without a scale that lies elsewhere.
func (d DType) IsFloat() bool { return d < dtypeEnd && dtypes[d].kind == kindFloat }

// IsSmallFloat reports whether d is a float of 8 bits or fewer.
func (d DType) IsSmallFloat() bool { return d < dtypeEnd && dtypes[d].kind == kindSmallFloat }

// IsInteger reports whether d is a signed or unsigned integer.
func (d DType) IsInteger() bool { return d < dtypeEnd && dtypes[d].kind == kindInteger }

// MarshalText writes the name, so that plans and reports read "BF16".
func (d DType) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText accepts what ParseDType accepts, and "OPAQUE".
func (d *DType) UnmarshalText(text []byte) error {
	if string(text) == dtypes[Opaque].name {
		*d = Opaque
		return nil
	}
	v, err := ParseDType(string(text))
	if err == nil {
		*d = v
	}
	return err
}

// dtypeAliases has the spellings of other tools, lower case.
var dtypeAliases = map[string]DType{
	"float64": F64, "double": F64, "fp64": F64,
	"float32": F32, "float": F32, "fp32": F32, "single": F32,
	"float16": F16, "half": F16, "fp16": F16,
	"bfloat16": BF16, "bfloat": BF16,
	"float8_e4m3fn": F8E4M3, "f8_e4m3fn": F8E4M3, "float8_e5m2": F8E5M2,
	"float8_e4m3fnuz": F8E4M3FNUZ, "float8_e5m2fnuz": F8E5M2FNUZ, "float8_e8m0fnu": F8E8M0,
	"float4_e2m1": F4, "float6_e2m3": F6E2M3, "float6_e3m2": F6E3M2,
	"int64": I64, "long": I64, "int32": I32, "int": I32, "int16": I16, "short": I16, "int8": I8,
	"uint64": U64, "uint32": U32, "uint16": U16, "uint8": U8, "byte": U8,
	"boolean": Bool, "complex64": C64,
}

// ParseDType reads the name of an element type in the spellings of both
// ecosystems, whatever the case: "F16", "fp16", "float16", "half",
// "torch.float16". It does not know Opaque. Readers of a format compare exact
// names instead (see FromName).
func ParseDType(s string) (DType, error) {
	name := strings.TrimPrefix(strings.ToLower(s), "torch.")
	if d, ok := dtypeAliases[name]; ok {
		return d, nil
	}
	if d := FromName(strings.ToUpper(name)); d != Invalid {
		return d, nil
	}
	return Invalid, fmt.Errorf("unknown element type %q", s)
}

// FromName returns the type with exactly this safetensors name, or Invalid.
// Opaque and Invalid have no such name.
func FromName(name string) DType {
	for d := Invalid + 1; d < Opaque; d++ {
		if dtypes[d].name == name {
			return d
		}
	}
	return Invalid
}
