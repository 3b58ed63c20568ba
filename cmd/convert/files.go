package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/tensor"
)

// A fileDocument is an input or an output in a document.
type fileDocument struct {
	demi.Section
	Identity string `json:"identity,omitempty"` // demi.FileIdentity.Header
	SHA256   string `json:"sha256,omitempty"`   // of the whole file
}

func newFiles(c *demi.Checkpoint) []fileDocument {
	files := []fileDocument{}
	for _, s := range c.Sections() {
		files = append(files, fileDocument{Section: s})
	}
	return files
}

// hashFiles completes the files of a document: their identities and hashes. out
// is nil for an output that is no file. The source must be what it was when the
// conversion began.
func (j *job) hashFiles(ctx context.Context, d *document, c, out *demi.Checkpoint) error {
	checkpoints, files := []*demi.Checkpoint{c}, [][]fileDocument{d.Inputs}
	if out != nil {
		checkpoints, files = append(checkpoints, out), append(files, d.Outputs)
	}
	sums, err := demi.HashFiles(ctx, &j.run, checkpoints...)
	if err != nil {
		return err
	}
	for k, c := range checkpoints {
		ids, err := c.Identity()
		if err != nil {
			return err
		}
		if k == 0 && !slices.Equal(ids, j.source) {
			return &tensor.FileError{File: j.src, Offset: -1, Err: fmt.Errorf("%w while it was converted", tensor.ErrChanged)}
		}
		for i := range ids {
			files[k][i].Identity = ids[i].Header
			if i < len(sums[k]) { // a file behind a URL is not read again for it
				files[k][i].SHA256 = sums[k][i]
			}
		}
	}
	return nil
}
