package format

import (
	"hash/crc32"
	"io"
	"math"

	"github.com/zeebo/blake3"

	"github.com/demi-weights/demi/codec"
	"github.com/demi-weights/demi/internal/sniff"
	"github.com/demi-weights/demi/tensor"
)

// Version is the version of the format that this package reads and writes.
const Version = 1

const (
	magic      = "\x89Demi\r\n\x1a\n\x00"
	endMagic   = "\r\n\x1a\nimeD"
	headerSize = 64
	footerSize = 64
	blockAlign = 64 // bytes, of blocks and of the index

	// MinAlign and MaxAlign are the limits of WriteOptions.Align, in bytes.
	MinAlign = 64
	MaxAlign = 64 << 10

	slackSize = 1 << 20 // what compressed sections may have beyond the size of the file
	tailSize  = 64 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// blockCRC is the checksum of a block: of its stored bytes and its codec.
func blockCRC(stored []byte, id codec.ID) uint32 {
	return crc32.Update(crc32.Checksum(stored, castagnoli), castagnoli, []byte{byte(id)})
}

// appendHeader appends the header of a file.
func appendHeader(p []byte) []byte {
	var h [headerSize]byte
	copy(h[:], magic)
	le.PutUint16(h[10:], Version)
	le.PutUint32(h[60:], crc32.Checksum(h[:60], castagnoli))
	return append(p, h[:]...)
}

// A footer says where the index is.
type footer struct {
	index, length int64
	digest        tensor.Hash
}

func (f *footer) append(p []byte) []byte {
	var b [footerSize]byte
	le.PutUint64(b[0:], uint64(f.index))
	le.PutUint64(b[8:], uint64(f.length))
	copy(b[16:], f.digest[:])
	le.PutUint16(b[48:], Version)
	le.PutUint32(b[52:], crc32.Checksum(b[:52], castagnoli))
	copy(b[56:], endMagic)
	return append(p, b[:]...)
}

// checkVersion is for a version that a checksum vouches for.
func (f *File) checkVersion(v uint16, off int64) error {
	if v != Version {
		return f.fail("", off, tensor.ErrUnsupported, "version %d of the format, this program reads version %d", v, Version)
	}
	return nil
}

// checkHeader reads the first bytes of the file. Whether the file is one at
// all is seen here, whether it is whole by the footer.
func (f *File) checkHeader() error {
	if f.size == 0 {
		return f.fail("", 0, tensor.ErrTruncated, "file is empty")
	}
	head := make([]byte, min(f.size, sniff.Size))
	if err := f.read(head, 0); err != nil {
		return err
	}
	if len(head) < len(magic) || string(head[:len(magic)]) != magic {
		return f.notDemi(head)
	}
	if f.size < headerSize+footerSize {
		return f.fail("", f.size, tensor.ErrTruncated, "file has %d bytes, header and footer alone take %d", f.size, headerSize+footerSize)
	}
	head = head[:headerSize]
	if got, want := crc32.Checksum(head[:60], castagnoli), le.Uint32(head[60:]); got != want {
		return f.wrap(0, badChecksum("header has CRC-32C %08x, want %08x", got, want))
	}
	if err := f.checkVersion(le.Uint16(head[10:]), 10); err != nil {
		return err
	}
	if !zeros(head[12:60]) {
		return f.fail("", 12, tensor.ErrFormat, "reserved bytes of the header are not zero")
	}
	return nil
}

// notDemi says what a file is whose magic is not ours.
func (f *File) notDemi(head []byte) error {
	const fixed = "\x89Demi"
	begins := head[:min(len(head), len(magic))]
	switch {
	case len(head) < len(magic) && magic[:len(head)] == string(head):
		return f.fail("", f.size, tensor.ErrTruncated, "file has %d bytes, header and footer alone take %d", f.size, headerSize+footerSize)
	case len(head) > len(fixed) && string(head[1:len(fixed)]) == fixed[1:]:
		return f.fail("", 0, tensor.ErrFormat, "a Demi store whose signature is damaged, %q, want %q (a transfer in text mode?)", begins, magic)
	}
	if what, hint := sniff.Sniff(head); what != "" {
		return f.fail("", -1, tensor.ErrFormat, "not a Demi file: it is %s; %s", what, hint)
	}
	return f.fail("", 0, tensor.ErrFormat, "not a Demi file: it begins with %q, want %q", begins, magic)
}

// readFooter reads the last bytes of the file, and returns also the bytes
// before that it has read with it.
func (f *File) readFooter() (foot footer, before []byte, err error) {
	tail := make([]byte, min(f.size, tailSize))
	if err = f.read(tail, f.size-int64(len(tail))); err != nil {
		return foot, nil, err
	}
	at := f.size - footerSize
	before, b := tail[:len(tail)-footerSize], tail[len(tail)-footerSize:]
	if string(b[56:]) != endMagic {
		return foot, nil, f.fail("", at+56, tensor.ErrTruncated, "file has %d bytes and does not end in a footer: its end is missing, or other bytes follow it", f.size)
	}
	if got, want := crc32.Checksum(b[:52], castagnoli), le.Uint32(b[52:]); got != want {
		return foot, nil, f.wrap(at, badChecksum("footer has CRC-32C %08x, want %08x", got, want))
	}
	if err = f.checkVersion(le.Uint16(b[48:]), at+48); err != nil {
		return foot, nil, err
	}
	index, length := le.Uint64(b[0:]), le.Uint64(b[8:])
	switch {
	case index < headerSize || index%blockAlign != 0 || index > uint64(at) || length != uint64(at)-index:
		err = f.fail("", at, tensor.ErrFormat, "index of %d bytes at %d, the footer is at %d", length, index, at)
	case b[50] != 0 || b[51] != 0:
		err = f.fail("", at+50, tensor.ErrFormat, "reserved bytes of the footer are not zero")
	}
	foot.index, foot.length = int64(index), int64(length)
	copy(foot.digest[:], b[16:])
	return foot, before, err
}

// readIndex returns the bytes of the index, whose digest is right.
func (f *File) readIndex(foot footer, before []byte, limit int64) ([]byte, error) {
	if foot.length > limit {
		return nil, f.fail("", foot.index, tensor.ErrLimit, "index of %d bytes, the limit is %d", foot.length, limit)
	}
	var index []byte
	if foot.length <= int64(len(before)) {
		index = before[len(before)-int(foot.length):]
	} else {
		index = make([]byte, foot.length)
		if err := f.read(index, foot.index); err != nil {
			return nil, err
		}
	}
	if got := blake3.Sum256(index); got != foot.digest {
		return nil, f.wrap(foot.index, badChecksum("index has BLAKE3 %x, want %x", got, foot.digest[:]))
	}
	return index, nil
}

func (f *File) read(p []byte, off int64) error {
	n, err := f.r.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if err == nil || err == io.EOF {
		return f.fail("", off, tensor.ErrTruncated, "file ends at byte %d, its size was given as %d", off+int64(n), f.size)
	}
	return f.wrap(off, err)
}

func zeros(p []byte) bool {
	for _, b := range p {
		if b != 0 {
			return false
		}
	}
	return true
}

// alignUp is tensor.AlignUp for what is within a file: no sum gets near 2^63.
func alignUp(n, align int64) int64 { return (n + align - 1) &^ (align - 1) }

const maxFile = math.MaxInt64 - 2*MaxAlign
