package tensor

import "encoding/hex"

// A Hash is the value hash of one tensor: the same in every container (the
// root package says how it is made).
type Hash [32]byte

// String returns the hash in hexadecimal.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// MarshalText writes the hash in hexadecimal.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// A Record says how one tensor came to be: what it was, what it is, by which
// rule, and at what cost. The words for rounding and overflow are those of the
// kernels package; they are empty for a tensor that was copied.
type Record struct {
	Name     string  `json:"name"`
	Source   string  `json:"source,omitempty"` // its name in the source, if that is another
	From     string  `json:"from"`             // element type in the source
	To       string  `json:"to"`               // element type in the output
	Reason   string  `json:"reason"`
	Shape    []int64 `json:"shape"`
	SizeIn   int64   `json:"bytes_in"`
	SizeOut  int64   `json:"bytes_out"`
	Rounding string  `json:"rounding,omitempty"`
	Overflow string  `json:"overflow,omitempty"`
	Flush    bool    `json:"flush,omitempty"` // subnormal results became zero
	Seed     uint64  `json:"seed,omitempty"`
	Stats    *Stats  `json:"stats,omitempty"` // nil for a tensor that was copied
	Hash     Hash    `json:"hash"`            // of the bytes as they are stored in the output
}
