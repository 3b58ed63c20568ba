package safetensors_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/safetensors"
	"github.com/demi-weights/demi/tensor"
)

var update = flag.Bool("update", false, "write the files of testdata/safetensors")

const vectorDir = "../testdata/safetensors"

// A vector is a small file that proves one claim.
type vector struct {
	name    string
	bytes   []byte
	strict  string // class of the error, or ok
	lenient string // the same with Options.Lenient
	want    string // strict: the tensors, or a part of the error
	claim   string
}

func vectors() []vector {
	all := slices.Concat(accepted(), refusedText(), refusedContent(), ofReference())
	for d := tensor.U64; d < tensor.Opaque; d++ { // 24 elements are whole bytes of every type
		n := 24 * d.Bits() / 8
		all = append(all, vector{"dtype_" + strings.ToLower(d.String()), one(d.String(), "2,12", fmt.Sprintf("0,%d", n), n), "ok", "ok",
			fmt.Sprintf(`"a":%v:[2,12]:%d`, d, n), "24 elements of a type"})
	}
	return all
}

// nested is an array in an array, n deep.
func nested(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

// withExtra is a file with a surplus field.
func withExtra(extra string) []byte {
	return made(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],`+extra+`}}`, 4)
}

// accepted are files of which the reference thinks as we do.
func accepted() []vector {
	return []vector{
		{"ok_one", one("F32", "1", "0,4", 4), "ok", "ok", `"a":F32:[1]:4`, "the smallest file with a value"},
		{"ok_scalar", one("F32", "", "0,4", 4), "ok", "ok", `"a":F32:[]:4`, "no dimensions are one element"},
		{"ok_no_tensors", made("{}", 0), "ok", "ok", "", "an empty object"},
		{"ok_spaces", made("\n\t {"+a4+"}\r\n  ", 4), "ok", "ok", `"a":F32:[1]:4`, "white space before and after the object"},
		{"ok_unaligned", made("{"+a4+"} ", 4), "ok", "ok", `"a":F32:[1]:4`, "data at an odd offset"},
		{"ok_any_order", made(`{"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]},`+a4+`}`, 8), "ok", "ok", `"a":F32:[1]:4 "b":F32:[1]:4`, "entries in another order than the data"},
		{"ok_fields_any_order", made(`{"a":{"data_offsets":[0,4],"shape":[1],"dtype":"F32"}}`, 4), "ok", "ok", `"a":F32:[1]:4`, "fields in any order"},
		{"ok_escaped_field", made(`{"a":{"d\u0074ype":"F\u00332","shape":[1],"data_offsets":[0,4]}}`, 4), "ok", "ok", `"a":F32:[1]:4`, "a field name and a type with escapes"},
		{"ok_extra_field", withExtra(`"x":{"y":[1e3,null,true,"z"]}`), "ok", "ok", `"a":F32:[1]:4`, "a surplus field"},
		{"ok_nesting_127", withExtra(`"x":` + nested(125)), "ok", "ok", `"a":F32:[1]:4`, "127 levels in all"},
		{"ok_empty_name", made(`{"":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 4), "ok", "ok", `"":F32:[1]:4`, "a name without letters"},
		{"ok_names", made(`{"\u0000\u2028é权":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 1), "ok", "ok", `"\x00\u2028é权":U8:[1]:1`, "any Unicode in a name"},
		{"ok_metadata", made(`{"__metadata__":{"z":"1","a":""},`+a4+`}`, 4), "ok", "ok", `"a":F32:[1]:4`, "a map of strings"},
		{"ok_metadata_null", made(`{"__metadata__":null,`+a4+`}`, 4), "ok", "ok", `"a":F32:[1]:4`, "null in place of the map"},
		{"ok_no_data", one("F32", "2,0", "0,0", 0), "ok", "ok", `"a":F32:[2,0]:0`, "a dimension of 0"},
		{"ok_no_data_between", made(`{"z":{"dtype":"F32","shape":[0],"data_offsets":[4,4]},`+a4+`,"y":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}`, 4), "ok", "ok", `"y":U8:[0]:0 "a":F32:[1]:4 "z":F32:[0]:0`, "tensors without data before and after others"},
		{"ok_zero_then_large", one("F32", "0,4611686018427387904,4", "0,0", 0), "ok", "ok", `"a":F32:[0,4611686018427387904,4]:0`, "a product that is 0 before it overflows"},
		{"ok_rank_100", one("F32", strings.Repeat("1,", 99)+"1", "0,4", 4), "ok", "ok", `"a":F32:[` + strings.Repeat("1,", 99) + `1]:4`, "100 dimensions"},
		{"ok_f4", one("F4", "3,2", "0,3", 3), "ok", "ok", `"a":F4:[3,2]:3`, "elements of 4 bits that fill bytes"},
		{"ok_f6", one("F6_E2M3", "4", "0,3", 3), "ok", "ok", `"a":F6_E2M3:[4]:3`, "elements of 6 bits that fill bytes"},
	}
}

// refusedText are files whose header is not what it should be, up to the JSON.
func refusedText() []vector {
	return []vector{
		{"bad_empty", nil, "truncated", "truncated", "file is empty", "no byte"},
		{"bad_7_bytes", []byte("\x02\x00\x00\x00\x00\x00\x00"), "truncated", "truncated", "file has 7 bytes", "a length that is not whole"},
		{"bad_length_0", made("", 0), "format", "format", "header is empty", "a header of 0 bytes"},
		{"bad_length_2e63", []byte("\x00\x00\x00\x00\x00\x00\x00\x80{}"), "format", "format", "header length 9223372036854775808", "a length beyond 63 bits"},
		{"bad_length_2e40", append([]byte("\x00\x00\x00\x00\x00\x01\x00\x00"), make([]byte, 52)...), "format", "format", "header length 1099511627776, the limit is 100000000, the file has 60 bytes", "60 bytes that claim 2^40"},
		{"bad_length_over_limit", []byte("\x01\xe1\xf5\x05\x00\x00\x00\x00{}"), "format", "format", "header length 100000001", "100,000,001 bytes of header"},
		{"bad_length_at_limit", []byte("\x00\xe1\xf5\x05\x00\x00\x00\x00{}"), "truncated", "truncated", "truncated by 99999998", "100,000,000 bytes of header are allowed, but not there"},
		{"bad_utf8", made("{\"\xff\":{}}", 0), "format", "format", "not UTF-8 at byte 10", "a byte that is no UTF-8"},
		{"bad_overlong", made("{\"\xc0\x80\":{}}", 0), "format", "format", "not UTF-8 at byte 10", "an overlong encoding"},
		{"bad_surrogate", made(`{"\ud800":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 4), "format", "format", "surrogate", "half a surrogate pair"},
		{"bad_control", made("{\"\x01\":{}}", 0), "format", "format", "control character", "a raw control character"},
		{"bad_bom", made("\ufeff{"+a4+"}", 4), "format", "format", "not valid JSON", "a byte order mark"},
		{"bad_comment", made("{"+a4+"/**/}", 4), "format", "format", "not valid JSON", "a comment"},
		{"bad_trailing_comma", made("{"+a4+",}", 4), "format", "format", "not valid JSON", "a comma before the brace"},
		{"bad_two_objects", made("{}{}", 0), "format", "format", `2 bytes after the JSON object, beginning with "{}"`, "two objects"},
		{"bad_nul_padding", made("{"+a4+"}\x00\x00\x00", 4), "format", "ok", "header is padded with 3 NUL bytes", "a header padded with NUL"},
		{"bad_array", made("[]", 0), "format", "format", "header is an array, want an object", "an array in place of the object"},
		{"bad_nesting_128", withExtra(`"x":` + nested(126)), "format", "format", "nested deeper than 127", "128 levels in all"},
		{"bad_extra_number", withExtra(`"x":1e999`), "format", "format", "number 1e999 does not fit", "a surplus number that overflows a float"},
		{"bad_nan", made(`{"a":{"dtype":"F32","shape":[NaN],"data_offsets":[0,4]}}`, 4), "format", "format", "not valid JSON", "NaN"},
	}
}

// refusedContent are files whose header is JSON, and wrong.
func refusedContent() []vector {
	return []vector{
		{"bad_twice", made(`{`+a4+`,`+a4+`}`, 4), "format", "format", `duplicate tensor name "a" in header`, "a name twice, both alike"},
		{"bad_twice_last_tiles", made(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[4,12]},`+a4+`}`, 4), "format", "format", `duplicate tensor name "a" in header`, "a name twice, of which the last would be a whole file"},
		{"bad_twice_escaped", made(`{`+a4+`,"\u0061":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 4), "format", "format", `duplicate tensor name "a" in header`, "a name twice, once escaped"},
		{"bad_twice_empty_name", made(`{"":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}`, 0), "format", "format", `duplicate tensor name "" in header`, "the empty name twice"},
		{"bad_field_twice", made(`{"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 4), "format", "format", `duplicate field "dtype"`, "a field twice"},
		{"bad_metadata_twice", made(`{"__metadata__":{},"__metadata__":{}}`, 0), "format", "format", "__metadata__ comes twice", "the metadata twice"},
		{"bad_metadata_key_twice", made(`{"__metadata__":{"k":"1","k":"2"}}`, 0), "format", "format", `__metadata__: duplicate field "k"`, "a key of the metadata twice"},
		{"bad_metadata_number", made(`{"__metadata__":{"k":1}}`, 0), "format", "format", `value of "k" is a number, want a string`, "metadata that is no string"},
		{"bad_metadata_list", made(`{"__metadata__":[]}`, 0), "format", "format", "__metadata__: it is an array", "metadata that is no map"},
		{"bad_info_array", made(`{"a":["F32",[1],[0,4]]}`, 4), "format", "format", "description is an array, want an object", "a description as an array"},
		{"bad_info_null", made(`{"a":null}`, 0), "format", "format", "description is null", "no description"},
		{"bad_dtype_map", made(`{"a":{"dtype":{"F32":null},"shape":[1],"data_offsets":[0,4]}}`, 4), "format", "format", "dtype is an object, want a string", "a type as a map"},
		{"bad_dtype_case", one("f32", "1", "0,4", 4), "unsupported", "ok", `unknown dtype "f32"`, "a type in lower case"},
		{"bad_dtype_unknown", one("F6_E9M9", "8", "0,6", 6), "unsupported", "ok", `unknown dtype "F6_E9M9"`, "a type that is not known"},
		{"bad_field_case", made(`{"a":{"Dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 4), "format", "format", "field dtype is missing", "a field in another case"},
		{"bad_no_dtype", made(`{"a":{"shape":[1],"data_offsets":[0,4]}}`, 4), "format", "format", "field dtype is missing", "no type"},
		{"bad_no_shape", made(`{"a":{"dtype":"F32","data_offsets":[0,4]}}`, 4), "format", "format", "field shape is missing", "no shape"},
		{"bad_no_offsets", made(`{"a":{"dtype":"F32","shape":[1]}}`, 4), "format", "format", "field data_offsets is missing", "no offsets"},
		{"bad_shape_null", made(`{"a":{"dtype":"F32","shape":null,"data_offsets":[0,4]}}`, 4), "format", "format", "shape is null", "a shape that is no array"},
		{"bad_shape_nested", one("F32", "[1]", "0,4", 4), "format", "format", "shape has an array", "a shape in a shape"},
		{"bad_shape_string", one("F32", `"1"`, "0,4", 4), "format", "format", "shape has a string", "a dimension as a string"},
		{"bad_shape_negative", one("F32", "-1", "0,4", 4), "format", "format", "shape has -1, want integers of 0 and more", "a negative dimension"},
		{"bad_shape_overflow", one("F32", "4294967296,4294967296", "0,0", 0), "format", "format", "element count", "a product of 2^64"},
		{"bad_shape_overflow_then_0", one("F32", "4611686018427387904,4,0", "0,0", 0), "format", "format", "element count", "a product that overflows before it is 0"},
		{"bad_size_wraps", one("F32", "1152921504606846977", "0,4", 4), "format", "format", "byte size", "a size in bits that is 2^65+32"},
		{"bad_dim_2e63", one("F32", "0,9223372036854775808", "0,0", 0), "unsupported", "unsupported", "dimension 9223372036854775808 does not fit 63 bits", "legal, but no tensor.Info can hold it"},
		{"bad_offsets_1", one("F32", "1", "0", 4), "format", "format", "data_offsets has 1 numbers", "one offset"},
		{"bad_offsets_0", one("F32", "1", "", 4), "format", "format", "data_offsets has 0 numbers", "no offset"},
		{"bad_offsets_3", one("F32", "1", "0,4,8", 4), "format", "format", "data_offsets has more than 2", "three offsets"},
		{"bad_offsets_float", one("F32", "1", "0,4.0", 4), "format", "format", "data_offsets has 4.0", "an offset with a point"},
		{"bad_offsets_exponent", one("F32", "1", "0,4e0", 4), "format", "format", "data_offsets has 4e0", "an offset with an exponent"},
		{"bad_offsets_minus_0", one("F32", "1", "-0,4", 4), "format", "format", "data_offsets has -0", "-0"},
		{"bad_offsets_00", one("F32", "1", "00,4", 4), "format", "format", "not valid JSON", "a leading zero"},
		{"bad_offsets_2e64", one("F32", "1", "0,18446744073709551616", 4), "format", "format", "does not fit 64 bits", "an offset of 2^64"},
		{"bad_offsets_long", one("F32", "1", "0,"+strings.Repeat("9", 400), 4), "format", "format", "(400 characters), which does not fit 64 bits", "an offset of 400 digits"},
		{"bad_offsets_2e64_less_1", one("F32", "1", "0,18446744073709551615", 4), "format", "format", "data_offsets [0, 18446744073709551615] end beyond 2^63", "an offset of 2^64-1"},
		{"bad_opaque_2e63_less_1", one("X", "1", "0,9223372036854775807", 4), "unsupported", "format", `unknown dtype "X"`, "an unknown type with an offset of 2^63-1"},
		{"bad_offsets_backwards", one("F32", "1", "4,0", 4), "format", "format", "end before they begin", "offsets that run backwards"},
		{"bad_offsets_backwards_next", made(`{`+a4+`,"b":{"dtype":"F32","shape":[0],"data_offsets":[4,2]}}`, 4), "format", "format", `tensor "b": invalid file: data_offsets [4, 2] end before they begin`, "offsets that run backwards from where they should begin"},
		{"bad_opaque_backwards", made(`{`+a4+`,"b":{"dtype":"X","shape":[0],"data_offsets":[4,2]}}`, 2), "unsupported", "format", `unknown dtype "X"`, "an unknown type with offsets that run backwards"},
		{"bad_start", one("F32", "1", "4,8", 8), "format", "format", "a hole of 4 bytes after the start of the data", "a hole at the start"},
		{"bad_hole", made(`{`+a4+`,"b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}}`, 12), "format", "format", `a hole of 4 bytes after tensor "a", which ends at 4`, "a hole between tensors"},
		{"bad_overlap", made(`{`+a4+`,"b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}}`, 6), "format", "format", `overlap tensor "a", which ends at 4`, "tensors that share bytes"},
		{"bad_alias", made(`{`+a4+`,"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 4), "format", "format", `overlap tensor "a", which ends at 4`, "tensors that share all bytes"},
		{"bad_no_data_inside", made(`{`+a4+`,"z":{"dtype":"F32","shape":[0],"data_offsets":[2,2]}}`, 4), "format", "format", `overlap tensor "a"`, "no data, in the middle of a tensor"},
		{"bad_size", one("F32", "2", "0,4", 4), "format", "format", "hold 4 bytes, F32 of shape [2] takes 8", "a size that is not that of the shape"},
		{"bad_half_byte", one("F4", "3", "0,1", 1), "format", "format", "3 elements of F4 do not fill whole bytes", "elements that do not fill bytes"},
		{"bad_trailing", made("{"+a4+"}", 9), "format", "ok", "5 bytes after the last tensor", "bytes after the last tensor"},
		{"bad_truncated", made(`{`+a4+`,"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, 6), "truncated", "truncated", `truncated by 2; last complete tensor "a" (1 of 2)`, "a file that ends early"},
		{"bad_1_tib", one("U8", "1099511627776", "0,1099511627776", 4), "truncated", "truncated", "truncated by 1099511627772; no tensor is complete", "2^40 bytes of data that are not there"},
	}
}

// ofReference are inputs of the reference's unit tests, as these spell them.
func ofReference() []vector {
	ref := func(length byte, header, data string) []byte {
		return []byte(string(length) + "\x00\x00\x00\x00\x00\x00\x00" + header + data)
	}
	zeros := strings.Repeat("\x00", 16)
	return []vector{
		{"ref_ok_scalar", ref('8', `{"test":{"dtype":"I32","shape":[],"data_offsets":[0,4]}}`, zeros[:4]), "ok", "ok", `"test":I32:[]:4`, "an input of the reference's unit tests"},
		{"ref_ok_2x2", ref('<', `{"test":{"dtype":"I32","shape":[2,2],"data_offsets":[0,16]}}`, zeros), "ok", "ok", `"test":I32:[2,2]:16`, "an input of the reference's unit tests"},
		{"ref_ok_padded", ref(6, "{}\r \t\n", ""), "ok", "ok", "", "an input of the reference's unit tests"},
		{"ref_ok_padded_start", ref(6, "\t\n{}\r ", ""), "ok", "ok", "", "an input of the reference's unit tests, for a later version there"},
		{"ref_ok_no_data", ref('<', `{"test":{"dtype":"I32","shape":[2,0],"data_offsets":[0, 0]}}`, ""), "ok", "ok", `"test":I32:[2,0]:0`, "an input of the reference's unit tests"},
		{"ref_bad_polyglot", ref('<', `{"test":{"dtype":"I32","shape":[2,2],"data_offsets":[0,16]}}`, zeros+"extra_bogus_data_for_polyglot_file"), "format", "ok", "34 bytes after the last tensor", "an input of the reference's unit tests"},
		{"ref_bad_short", ref('<', `{"test":{"dtype":"I32","shape":[2,2],"data_offsets":[0,16]}}`, zeros[:14]), "truncated", "truncated", "truncated by 2", "an input of the reference's unit tests"},
		{"ref_bad_length", []byte("<\x00\x00\x00\x00\xff\xff\xff{\"test\":{}}"), "format", "format", "header length 18446742974197923900", "an input of the reference's unit tests, cut"},
		{"ref_bad_header_only", ref('<', "", ""), "truncated", "truncated", "truncated by 60", "an input of the reference's unit tests"},
		{"ref_bad_utf8", ref(1, "\xff", ""), "format", "format", "not UTF-8 at byte 8", "an input of the reference's unit tests"},
		{"ref_bad_json", ref(1, "{", ""), "format", "format", "JSON ends too early", "an input of the reference's unit tests"},
		{"ref_bad_info", ref('<', `{"test":{"dtype":"I32","shape":[2,2],"data_offsets":[0, 4]}}`, ""), "format", "format", "hold 4 bytes, I32 of shape [2 2] takes 16", "an input of the reference's unit tests"},
		{"ref_bad_overflow", ref('O', `{"test":{"dtype":"I32","shape":[2,18446744073709551614],"data_offsets":[0,16]}}`, zeros), "format", "format", "dimension 18446744073709551614", "an input of the reference's unit tests"},
		{"ref_bad_overflow_bytes", ref('N', `{"test":{"dtype":"I32","shape":[2,9223372036854775807],"data_offsets":[0,16]}}`, zeros), "format", "format", "does not fit 63 bits", "an input of the reference's unit tests"},
	}
}

// expectations is the index of the vectors, as text.
func expectations(all []vector) string {
	var b strings.Builder
	b.WriteString("# file\tverdict\twith Lenient\ttensors (name:type:shape:bytes), or a part of the error\tclaim\n")
	for _, v := range all {
		fmt.Fprintf(&b, "%s.safetensors\t%s\t%s\t%s\t%s\n", v.name, v.strict, v.lenient, v.want, v.claim)
	}
	return b.String()
}

func TestVectorFiles(t *testing.T) {
	all := vectors()
	if *update {
		require.NoError(t, os.MkdirAll(vectorDir, 0o755))
		for _, v := range all {
			require.NoError(t, os.WriteFile(filepath.Join(vectorDir, v.name+".safetensors"), v.bytes, 0o644))
		}
		require.NoError(t, os.WriteFile(filepath.Join(vectorDir, "EXPECT.tsv"), []byte(expectations(all)), 0o644))
	}
	index, err := os.ReadFile(filepath.Join(vectorDir, "EXPECT.tsv"))
	require.NoError(t, err)
	require.Equal(t, expectations(all), string(index))
	files, err := filepath.Glob(filepath.Join(vectorDir, "*.safetensors"))
	require.NoError(t, err)
	require.Len(t, files, len(all))
	for _, v := range all {
		got, err := os.ReadFile(filepath.Join(vectorDir, v.name+".safetensors"))
		require.NoError(t, err)
		require.Equal(t, string(v.bytes), string(got), v.name)
	}
}

func TestVectors(t *testing.T) {
	for _, v := range vectors() {
		t.Run(v.name, func(t *testing.T) {
			f, err := safetensors.Open(filepath.Join(vectorDir, v.name+".safetensors"), nil)
			require.Equal(t, v.strict, class(err), "%v", err)
			if err != nil {
				require.ErrorContains(t, err, v.want)
				require.ErrorContains(t, err, v.name, "the error names the file")
			} else {
				require.Equal(t, v.want, shown(f))
				require.Empty(t, f.Warnings())
				content(t, f)
				require.NoError(t, f.Close())
			}
			lenient, err := open(v.bytes, &safetensors.Options{Lenient: true})
			require.Equal(t, v.lenient, class(err), "%v", err)
			if v.strict != v.lenient && err == nil {
				require.NotEmpty(t, lenient.Warnings(), "what was let pass is told")
			}
		})
	}
}

// TestVectorNames: each name once, in a form that every system takes.
func TestVectorNames(t *testing.T) {
	var names []string
	for _, v := range vectors() {
		require.Regexp(t, `^[a-z0-9_]+$`, v.name)
		names = append(names, v.name)
	}
	slices.Sort(names)
	require.Len(t, slices.Compact(slices.Clone(names)), len(names))
}
