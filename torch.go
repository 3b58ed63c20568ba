package demi

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/demi-weights/demi/internal/httpfile"
	"github.com/demi-weights/demi/pytorch"
)

// torchExtensions are those of the files that PyTorch writes.
var torchExtensions = []string{".bin", ".pt", ".pth", ".ckpt"}

func hasTorchExtension(name string) bool {
	return slices.Contains(torchExtensions, strings.ToLower(path.Ext(name)))
}

// isTorch tells the files of PyTorch by their first bytes: a zip archive, or a
// pickle, whose reader says what is to be done with it. No header of a
// safetensors file begins so and has its brace in the ninth byte.
func isTorch(head string) bool {
	pickle := len(head) > 1 && head[0] == 0x80 && head[1] >= 2 && head[1] <= 5
	return (strings.HasPrefix(head, "PK\x03\x04") || pickle) && !strings.HasPrefix(head[min(8, len(head)):], "{")
}

// torchIn reports whether a directory has files by the names of PyTorch's.
func (o *opener) torchIn(dir string) bool {
	entries, err := o.tree.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, e := range entries {
		if name := e.Name(); hasTorchExtension(strings.TrimSuffix(name, indexSuffix)) && !e.IsDir() && !strings.HasPrefix(name, ".") {
			return true
		}
	}
	return false
}

func (o *opener) openTorch(path string) (*Checkpoint, error) {
	_, remote := o.tree.FS.(*httpfile.Site)
	set, err := pytorch.OpenSet(path, &pytorch.Options{FS: o.tree.FS, Map: o.Map, Lenient: o.Lenient, Once: remote, MaxHeader: o.MaxHeader})
	if err != nil {
		return nil, err
	}
	c := newCheckpoint(set, PyTorch, set.Warnings(), torchSections(set))
	if aliases := set.Aliases(); len(aliases) > 0 {
		c.shared = aliases
	}
	return c, nil
}

func torchSections(set *pytorch.Set) (list []Section) {
	for _, f := range set.Files() {
		s := Section{File: f.Name(), Size: f.Size(), Header: f.HeaderSize(), Tensors: f.StorageSize()}
		s.Extra = s.Size - s.Header - s.Tensors
		list = append(list, s)
	}
	return list
}

// torchStem returns what the names of the files of a model begin with whose
// PyTorch file has the name base: Hugging Face's libraries look for
// model.safetensors where they had pytorch_model.bin.
func torchStem(base string) string {
	stem, _, _, ok := pytorch.ParseShardName(base)
	if !ok {
		stem = strings.TrimSuffix(base, filepath.Ext(base))
	}
	if stem == pytorch.ModelStem {
		return "model"
	}
	return stem
}

// torchDigest reads the header of a file again, by its path.
func torchDigest(s *Section) (string, error) {
	f, err := pytorch.Open(s.File, &pytorch.Options{MaxHeader: max(s.Header, pytorch.MaxHeader), Lenient: true})
	if err != nil {
		return "", err
	}
	defer f.Close()
	return torchHeaderHash(f)
}

func torchHeaderHash(f *pytorch.File) (string, error) {
	h := sha256.New()
	if _, err := io.Copy(h, f.HeaderSection()); err != nil {
		return "", fmt.Errorf("read the header of %s: %w", f.Name(), err)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}
