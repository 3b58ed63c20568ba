package demi_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/tensor"
)

// Weights can be part of a program (embed.FS), or of any other file system
// whose files are read at random places.
func ExampleOpenFS() {
	fsys := os.DirFS("testdata/charlm")
	for _, name := range []string{"sharded", "model.gguf"} {
		c, err := demi.OpenFS(fsys, name, nil)
		if err != nil {
			log.Fatal(err)
		}
		for _, s := range c.Sections()[:1] {
			fmt.Println(c.Format(), c.Len(), "tensors, in", s.File)
		}
		c.Close()
	}
	// Output:
	// safetensors 30 tensors, in sharded/model-00001-of-00003.safetensors
	// gguf 30 tensors, in model.gguf
}

// All tensors but the embeddings, into memory of the caller's; each can be used
// while the others are read.
func ExampleCheckpoint_ReadAll() {
	c, err := demi.Open("testdata/charlm/sharded", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	params := map[string][]byte{}
	bytes := int64(0)
	err = c.ReadAll(context.Background(), func(in tensor.Info) []byte {
		if in.Name == "model.embed_tokens.weight" {
			return nil
		}
		params[in.Name] = make([]byte, in.Size)
		return params[in.Name]
	}, demi.ReadOptions{Progress: func(done, total int64) { bytes = done }})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(params), "tensors,", bytes, "bytes")
	// Output:
	// 29 tensors, 2007552 bytes
}

// Two rows of a matrix.
func ExampleTensor_ReadRows() {
	c, err := demi.Open("testdata/charlm/model.safetensors", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	x, _ := c.Tensor("model.embed_tokens.weight")
	rows, size, err := x.Rows()
	if err != nil {
		log.Fatal(err)
	}
	p := make([]byte, 2*size)
	if err := x.ReadRows(p, rows-2); err != nil {
		log.Fatal(err)
	}
	fmt.Println(rows, "rows of", size, "bytes")
	// Output:
	// 74 rows of 512 bytes
}
