package format

import (
	"maps"
	"path/filepath"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/demi-weights/demi/tensor"
)

// An Index is the index of a set: the content of stem.demi.index.json. Files
// are named without a directory; they are in that of the index.
type Index struct {
	Metadata struct {
		// TotalSize is the bytes of all tensors, before compression.
		TotalSize int64 `json:"total_size"`
		// Digests has File.Digest of each file, in hexadecimal.
		Digests map[string]string `json:"digests,omitempty"`
	} `json:"metadata"`
	// Files has the file of each tensor.
	Files map[string]string `json:"weight_map"`
}

// ParseIndex reads an index. It refuses what is not strict JSON, names that
// come twice, a missing weight_map, and file names that are not plain names of
// files of a set. Members that it does not know are accepted.
func ParseIndex(text []byte) (*Index, error) {
	x := &Index{}
	if err := json.Unmarshal(text, x); err != nil {
		return nil, classed(tensor.ErrFormat, "index: %v", err)
	}
	if x.Files == nil {
		return nil, classed(tensor.ErrFormat, "index: weight_map is missing")
	}
	for _, name := range x.Names() {
		if err := checkFileName(name); err != nil {
			return nil, err
		}
	}
	return x, nil
}

// Names returns the files of the set, sorted.
func (x *Index) Names() []string {
	return slices.Compact(slices.Sorted(maps.Values(x.Files)))
}

// IndexOf makes the index of a set that consists of these files. Files that are
// not of one set are tensor.ErrFormat, as far as they say so, and so is a tensor
// that two of them have.
func IndexOf(files []*File) (*Index, error) {
	if err := checkMembers(files); err != nil {
		return nil, err
	}
	x := &Index{Files: make(map[string]string)}
	x.Metadata.Digests = make(map[string]string, len(files))
	for _, f := range files {
		name := filepath.Base(f.name)
		x.Metadata.Digests[name] = f.Digest().String()
		for i := range f.x.infos {
			in := &f.x.infos[i]
			if other := x.Files[in.Name]; other != "" {
				return nil, f.fail(in.Name, -1, tensor.ErrFormat, "it is in %s as well", other)
			}
			x.Files[in.Name] = name
			x.Metadata.TotalSize += in.Size
		}
	}
	return x, nil
}

// AppendJSON appends the text of the index.
func (x *Index) AppendJSON(p []byte) ([]byte, error) {
	text, err := json.Marshal(x, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return nil, err
	}
	return append(append(p, text...), '\n'), nil
}
