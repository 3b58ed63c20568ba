// Package zstdframe says which frames of Zstandard the Demi container takes:
// SPEC.md and TILES.md give this one rule for sections and tiles.
package zstdframe

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"
)

// MinWindow is the window in bytes that a frame may ask for whatever its size.
const MinWindow = 1 << 20

// Window returns the largest window in bytes that a frame of size bytes may
// ask for.
func Window(size int64) int64 { return max(size, MinWindow) }

// Check looks at the headers of a frame and of its blocks: p must be one frame
// and nothing else, not skippable, without a dictionary, whose header says
// that its content has size bytes, and whose window is at most Window. It
// allocates nothing that depends on p; decoding is what comes next.
func Check(p []byte, size int64) error {
	var h zstd.Header
	if err := h.Decode(p); err != nil {
		return fmt.Errorf("header of the frame: %w", err)
	}
	switch {
	case h.Skippable:
		return errors.New("the frame is a skippable one")
	case h.DictionaryID != 0:
		return fmt.Errorf("the frame needs the dictionary %d", h.DictionaryID)
	case !h.HasFCS:
		return fmt.Errorf("the frame does not say the size of its content, want %d bytes", size)
	case h.FrameContentSize != uint64(size):
		return fmt.Errorf("the frame has %d bytes of content, want %d", h.FrameContentSize, size)
	case h.WindowSize > uint64(Window(size)):
		return fmt.Errorf("the frame needs a window of %d bytes, the limit is %d", h.WindowSize, Window(size))
	}
	n, err := length(p, &h)
	if err == nil && n != len(p) {
		err = fmt.Errorf("%d bytes after the frame", len(p)-n)
	}
	return err
}

// The types of blocks, RFC 8878 section 3.1.1.2.2.
const (
	blockRLE      = 1
	blockReserved = 3
)

// length returns the bytes of the frame that p begins with: its header, its
// blocks, and its checksum.
func length(p []byte, h *zstd.Header) (n int, err error) {
	n = h.HeaderSize
	for last := false; !last; {
		if len(p)-n < 3 {
			return 0, fmt.Errorf("the frame ends in the header of a block, at byte %d", n)
		}
		v := uint32(binary.LittleEndian.Uint16(p[n:])) | uint32(p[n+2])<<16
		last = v&1 != 0
		size := int(v >> 3)
		switch v >> 1 & 3 {
		case blockRLE:
			size = 1
		case blockReserved:
			return 0, fmt.Errorf("block of a reserved type at byte %d of the frame", n)
		}
		if n += 3; size > len(p)-n {
			return 0, fmt.Errorf("block of %d bytes at byte %d of the frame, %d are left", size, n, len(p)-n)
		}
		n += size
	}
	if h.HasCheckSum {
		if len(p)-n < 4 {
			return 0, errors.New("the frame ends in its checksum")
		}
		n += 4
	}
	return n, nil
}
