package codec

import (
	"github.com/klauspost/compress/zstd"

	"github.com/demi-weights/demi/internal/zstdframe"
)

// maxWindow is the largest window that a Zstd tile may ask for, and the most
// bytes that one may have.
const maxWindow = zstdframe.MinWindow

// A zstdEncoder makes frames of Zstandard. Its encoders are made when they are
// first used.
type zstdEncoder struct {
	fast, small *zstd.Encoder
	out         []byte
}

// encode returns src as one frame, valid until the next call.
func (z *zstdEncoder) encode(src []byte, level Level) []byte {
	w := &z.fast
	effort := zstd.SpeedDefault
	if level == Small {
		w, effort = &z.small, zstd.SpeedBestCompression
	}
	if *w == nil {
		*w = newZstdEncoder(effort)
	}
	z.out = (*w).EncodeAll(src, z.out[:0])
	return z.out
}

func newZstdEncoder(effort zstd.EncoderLevel) *zstd.Encoder {
	w, err := zstd.NewWriter(nil,
		zstd.WithEncoderLevel(effort),
		zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(false),
		zstd.WithWindowSize(maxWindow),
		zstd.WithSingleSegment(true),
		zstd.WithAllLitEntropyCompression(true))
	if err != nil {
		panic(err) // the options are constants
	}
	return w
}

type zstdDecoder struct{ r *zstd.Decoder }

// decode decodes a frame of len(dst) bytes.
func (z *zstdDecoder) decode(dst, src []byte) error {
	if err := zstdframe.Check(src, int64(len(dst))); err != nil {
		return corrupt("zstd: %v", err)
	}
	if z.r == nil {
		z.r = newZstdDecoder()
	}
	out, err := z.r.DecodeAll(src, dst[:0:len(dst)])
	if err != nil {
		return corrupt("zstd: %v", err)
	}
	if len(out) != len(dst) {
		return corrupt("zstd: %d bytes, want %d", len(out), len(dst))
	}
	return nil
}

func newZstdDecoder() *zstd.Decoder {
	r, err := zstd.NewReader(nil,
		zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderMaxWindow(maxWindow),
		zstd.WithDecoderMaxMemory(maxWindow),
		zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		panic(err) // the options are constants
	}
	return r
}
