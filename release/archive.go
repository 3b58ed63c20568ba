package main

import (
	"archive/tar"
	"archive/zip"
	"cmp"
	"compress/gzip"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// An entry is a file of an archive.
type entry struct {
	name       string
	data       []byte
	executable bool
}

func (e entry) mode() fs.FileMode {
	if e.executable {
		return 0o755
	}
	return 0o644
}

// writeArchive writes base.tar.gz, or base.zip, with all entries in a directory
// called like base, and returns its name. The bytes follow from entries and time
// alone: names are sorted, no owner is named, modes are fixed.
func writeArchive(base string, zipped bool, entries []entry, at time.Time) (string, error) {
	sorted := slices.SortedFunc(slices.Values(entries), func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	for i := range sorted {
		sorted[i].name = filepath.Base(base) + "/" + sorted[i].name
	}
	name, write := base+".tar.gz", writeTar
	if zipped {
		name, write = base+".zip", writeZip
	}
	f, err := os.Create(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if err := write(f, sorted, at.UTC()); err != nil {
		return "", err
	}
	return name, f.Close()
}

func writeTar(w io.Writer, entries []entry, at time.Time) error {
	zw, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	tw := tar.NewWriter(zw)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: int64(e.mode()), Size: int64(len(e.data)), ModTime: at, Format: tar.FormatUSTAR}
		if err := tw.WriteHeader(h); err != nil {
			return err
		}
		if _, err := tw.Write(e.data); err != nil {
			return err
		}
	}
	if err := tw.Close(); err != nil {
		return err
	}
	return zw.Close()
}

func writeZip(w io.Writer, entries []entry, at time.Time) error {
	zw := zip.NewWriter(w)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: at}
		h.SetMode(e.mode())
		f, err := zw.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := f.Write(e.data); err != nil {
			return err
		}
	}
	return zw.Close()
}
