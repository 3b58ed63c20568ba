package codec_test

import (
	"encoding/binary"
	"fmt"

	"github.com/demi-weights/demi/codec"
)

// Tiles are encoded one after another into memory of the caller.
func ExampleEncoder_Encode() {
	var tile []byte // 1000 values of BF16: 1, 1/2 and 1/4
	for i := range 1000 {
		tile = binary.LittleEndian.AppendUint16(tile, 0x3f80-uint16(i%3)<<7)
	}
	e, d := codec.NewEncoder(), codec.NewDecoder()
	stored, kind := e.Encode(nil, tile, codec.BF16, codec.Fast)
	fmt.Println(kind, len(tile), len(stored))

	values := make([]float32, 1000)
	err := d.Float32s(values, stored, codec.BF16, kind)
	fmt.Println(values[:4], err)

	err = d.Decode(make([]byte, 10), stored, codec.BF16, kind)
	fmt.Println(err)
	// Output:
	// cascade 2000 240
	// [1 0.5 0.25 1] <nil>
	// codec: corrupt tile: plane 1, level 1: 666 escapes of 5 symbols
}
