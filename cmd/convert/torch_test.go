package main

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"os"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// maketorch KIND FILE writes a hostile file of PyTorch.
func makeTorch(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: maketorch KIND FILE")
	}
	kind, ok := hostile[args[0]]
	if !ok {
		ts.Fatalf("unknown kind %q", args[0])
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), kind(), 0o666))
}

var hostile = map[string]func() []byte{
	"nested": func() []byte { return torchZip(strings.Repeat("]", 1<<20) + strings.Repeat("a", 1<<20-1)) },
	// a place of the memo that would take gigabytes as an array
	"memo":    func() []byte { return torchZip("}r\xff\xff\xff\x7f") },
	"long":    func() []byte { return torchZip("\x8b\xff\xff\xff\x7f") },
	"doubled": func() []byte { return torchZip("]q\x00" + strings.Repeat("0(h\x00h\x00lq\x00", 60)) },
	"getattr": func() []byte { return torchZip("c__builtin__\neval\n(X\x04\x00\x00\x00os.xtR") },
	"bomb":    func() []byte { return zipOf(zip.Deflate, "archive/data.pkl", strings.Repeat("\x00", 4<<20)) },
	"overlap": overlapping,
}

// torchZip is an archive with one pickle, of protocol 2.
func torchZip(pickle string) []byte {
	return zipOf(zip.Store, "archive/data.pkl", "\x80\x02"+pickle+".", "archive/version", "3\n")
}

// zipOf makes an archive of names and contents.
func zipOf(method uint16, pairs ...string) []byte {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for i := 0; i < len(pairs); i += 2 {
		h := &zip.FileHeader{Name: pairs[i], Method: method}
		create := w.CreateHeader
		if method == zip.Store { // with sizes in the local header, as PyTorch writes
			h.CRC32, h.CompressedSize64, h.UncompressedSize64 = crc32.ChecksumIEEE([]byte(pairs[i+1])), uint64(len(pairs[i+1])), uint64(len(pairs[i+1]))
			create = w.CreateRaw
		}
		f, err := create(h)
		if err == nil {
			_, err = f.Write([]byte(pairs[i+1]))
		}
		if err != nil {
			panic(err)
		}
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// overlapping has an entry that lies in another one.
func overlapping() []byte {
	inner := zipOf(zip.Store, "archive/data/1", "abcd")
	inner = inner[:bytes.Index(inner, []byte("PK\x01\x02"))]
	file := zipOf(zip.Store, "archive/data.pkl", "\x80\x02}.", "archive/data/0", string(inner), "archive/data/1", "abcd", "archive/version", "3\n")
	at := bytes.Index(file, []byte("PK\x03\x04")) + 1
	for range 2 { // the third local header is the inner one
		at += bytes.Index(file[at:], []byte("PK\x03\x04")) + 1
	}
	central := bytes.LastIndex(file, []byte("archive/data/1")) - 46
	binary.LittleEndian.PutUint32(file[central+42:], uint32(at-1))
	return file
}
