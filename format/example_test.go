package format_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"

	"github.com/demi-weights/demi/format"
	"github.com/demi-weights/demi/tensor"
)

// exampleFile returns a small file.
func exampleFile() []byte {
	infos := []tensor.Info{
		{Name: "norm", DType: tensor.F32, Shape: []int64{2}, Size: 8},
		{Name: "w", DType: tensor.BF16, Shape: []int64{2, 3}, Size: 12},
	}
	var out bytes.Buffer
	sink := format.NewWriter(&out, nil)
	err := sink.Begin(infos, tensor.Metadata{{Key: "format", Value: "pt"}})
	if err == nil {
		err = sink.Write(0, 0, []byte{0, 0, 0x80, 0x3f, 0, 0, 0, 0x40})
	}
	if err == nil {
		err = sink.Write(1, 0, []byte{0x80, 0x3f, 0, 0x40, 0x40, 0x40, 0x80, 0xbf, 0, 0xc0, 0x40, 0xc0})
	}
	if err == nil {
		err = sink.Finish(nil)
	}
	if err != nil {
		log.Fatal(err)
	}
	return out.Bytes()
}

func ExampleCreate() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "model.demi")
	sink := format.Create(name, &format.WriteOptions{Align: 4096})
	defer sink.Abort() // does nothing after Finish
	infos := []tensor.Info{{Name: "zeros", DType: tensor.F32, Shape: []int64{1000, 1000}, Size: 4_000_000}}
	if err := sink.Begin(infos, nil); err != nil {
		log.Fatal(err)
	}
	if err := sink.Write(0, 0, make([]byte, 4_000_000)); err != nil {
		log.Fatal(err)
	}
	if err := sink.Finish(nil); err != nil {
		log.Fatal(err)
	}
	f, err := format.Open(name, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	_, offset := f.Place(0)
	fmt.Println(f.Len(), "tensor at", offset, "in", f.Size(), "bytes")
	// Output: 1 tensor at 4096 in 5460 bytes
}

func ExampleNewFile() {
	p := exampleFile()
	f, err := format.NewFile(bytes.NewReader(p), int64(len(p)), nil)
	if err != nil {
		log.Fatal(err)
	}
	for t := range f.All() {
		in := t.Info()
		fmt.Println(in.Name, in.DType, in.Shape, in.Size)
	}
	fmt.Println(f.Meta().Text("format"))
	// Output:
	// norm F32 [2] 8
	// w BF16 [2 3] 12
	// pt true
}

func ExampleOpen() {
	f, err := format.Open(filepath.Join("..", "testdata", "demi", "v1", "raw.demi"), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	t, ok := f.Lookup("c")
	fmt.Println(t.Info().DType, t.Info().Shape, ok)
	// Output: BF16 [8 8] true
}

func ExampleFile_All() {
	f, err := format.Open(filepath.Join("..", "testdata", "demi", "v1", "raw.demi"), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	for t := range f.All() {
		fmt.Println(t.Info().Name, t.Info().Size, t.Stored(), t.Blocks())
	}
	// Output:
	// a 60 60 1
	// b 7 7 1
	// nothing 0 0 0
	// c 128 128 1
}

func ExampleTensor_ReadAt() {
	p := exampleFile()
	f, err := format.NewFile(bytes.NewReader(p), int64(len(p)), nil)
	if err != nil {
		log.Fatal(err)
	}
	t, _ := f.Lookup("w")
	row := make([]byte, 3*2)
	if _, err := t.ReadAt(row, 1*3*2); err != nil { // the second row
		log.Fatal(err)
	}
	fmt.Printf("% x\n", row)
	// Output: 80 bf 00 c0 40 c0
}

func ExampleTensor_Float32s() {
	p := exampleFile()
	f, err := format.NewFile(bytes.NewReader(p), int64(len(p)), nil)
	if err != nil {
		log.Fatal(err)
	}
	t, _ := f.Lookup("w")
	row := make([]float32, 3)
	if err := t.Float32s(row, 1*3); err != nil {
		log.Fatal(err)
	}
	fmt.Println(row)
	// Output: [-1 -2 -3]
}

func ExampleTensor_ReadAll() {
	p := exampleFile()
	f, err := format.NewFile(bytes.NewReader(p), int64(len(p)), nil)
	if err != nil {
		log.Fatal(err)
	}
	t, _ := f.Lookup("norm")
	all := make([]byte, t.Info().Size)
	if err := t.ReadAll(context.Background(), all, 2); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("% x\n", all)
	// Output: 00 00 80 3f 00 00 00 40
}

func ExampleFile_Verify() {
	p := exampleFile()
	p[64] ^= 1 // the first byte of the first tensor
	f, err := format.NewFile(bytes.NewReader(p), int64(len(p)), &format.Options{Name: "model.demi"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(f.Verify(context.Background(), 2))
	// Output: model.demi: tensor "norm": byte 64: block 0: invalid file: checksum does not match: CRC-32C of 8 bytes is e615b41a, want 122b6252
}

func ExampleTensor_Bytes() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "model.demi")
	if err := os.WriteFile(name, exampleFile(), 0o644); err != nil {
		log.Fatal(err)
	}
	f, err := format.Open(name, &format.Options{Map: true})
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	if p, release, ok := f.At(0).Bytes(); ok { // the tensor is stored raw
		fmt.Printf("% x\n", p)
		release()
	}
	// Output: 00 00 80 3f 00 00 00 40
}

// Goroutines encode tiles; one appends them in order.
func ExampleSink_Append() {
	infos := []tensor.Info{{Name: "zeros", DType: tensor.U8, Shape: []int64{3 * 131072}, Size: 3 * 131072}}
	sink := format.NewWriter(io.Discard, nil)
	if err := sink.Begin(infos, nil); err != nil {
		log.Fatal(err)
	}
	type result struct {
		e   format.Encoded
		err error
	}
	var tiles [3]chan *result
	for k := range tiles {
		tiles[k] = make(chan *result)
		go func() {
			r := &result{}
			r.err = sink.NewTileEncoder().Encode(&r.e, 0, int64(k)*131072, make([]byte, 131072))
			tiles[k] <- r
		}()
	}
	for k := range tiles {
		r := <-tiles[k]
		if r.err != nil {
			log.Fatal(r.err)
		}
		if err := sink.Append(0, int64(k)*131072, &r.e); err != nil {
			log.Fatal(err)
		}
		fmt.Println(r.e.ID, len(r.e.Data))
	}
	if err := sink.Finish(nil); err != nil {
		log.Fatal(err)
	}
	// Output:
	// constant 1
	// constant 1
	// constant 1
}

func ExampleDump() {
	p := exampleFile()
	if err := format.Dump(os.Stdout, bytes.NewReader(p), int64(len(p))); err != nil {
		log.Fatal(err)
	}
	// Output:
	//            0         10  header: magic
	//           10          2  header: version 1
	//           12         48  header: zeros
	//           60          4  header: CRC-32C
	//           64          8  tensor "norm" F32 [2], block 1 of 1: 8 bytes, raw, CRC-32C 122b6252
	//           72         56  padding
	//          128         12  tensor "w" BF16 [2 3], block 1 of 1: 12 bytes, raw, CRC-32C 1105cada
	//          140         52  padding
	//          192          4  index: alignment 64
	//          196          4  index: 0 features
	//          200          4  index: 3 sections
	//          204         28  index: section "tensors", flags 0x1, stored, 145 bytes
	//          232        145  index: section "tensors", its bytes: 2 tensors
	//          377         27  index: section "blocks", flags 0x1, stored, 16 bytes
	//          404         16  index: section "blocks", its bytes: 2 blocks
	//          420         29  index: section "metadata", flags 0x0, stored, 24 bytes
	//          449         24  index: section "metadata", its bytes: 1 keys
	//          473          8  footer: index at 192
	//          481          8  footer: index of 281 bytes
	//          489         32  footer: digest fe93d89b565930596d6150ce6e5d20d597cfcc69233cdddb51f2c64033e52351
	//          521          2  footer: version 1
	//          523          2  footer: zeros
	//          525          4  footer: CRC-32C
	//          529          8  footer: magic
	//          537             end
}

func ExampleSet() {
	set, err := format.OpenSet(filepath.Join("..", "testdata", "demi", "v1", "set"), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer set.Close()
	for i, in := range set.Tensors() {
		file, _ := set.Place(i)
		fmt.Println(in.Name, in.Shape, filepath.Base(file))
	}
	// Output:
	// a [20] model-00001-of-00002.demi
	// b [10] model-00002-of-00002.demi
	// c [2 5] model-00002-of-00002.demi
}
