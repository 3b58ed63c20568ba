package pytorch

import (
	"context"
	"hash/crc32"

	"github.com/demi-weights/demi/tensor"
)

// Verify reads the whole file and compares the CRC-32 of every entry of the
// archive, the storages and the pickle among them, with that of its directory;
// nothing else does. The first one that differs is the error, with the first
// tensor that lies there, if there is one. Files that PyTorch wrote after
// torch.serialization.set_crc32_options(False) have no valid sums. It ends when
// ctx does, with its error.
func (f *File) Verify(ctx context.Context) error {
	tensors := make(map[int]string)
	for i := range f.views {
		if k := f.views[i].store; tensors[k] == "" {
			tensors[k] = f.infos[i].Name
		}
	}
	buf := make([]byte, 256<<10)
	for _, k := range f.inOrder() {
		if err := f.verify(ctx, &f.entries[k], tensors[k], buf); err != nil {
			return err
		}
	}
	return nil
}

func (f *File) verify(ctx context.Context, e *entry, name string, buf []byte) error {
	if err := f.stored(e); err != nil {
		return err
	}
	sum := uint32(0)
	for done := int64(0); done < e.size; {
		p := buf[:min(int64(len(buf)), e.size-done)]
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := f.read(p, e.data+done); err != nil {
			return err
		}
		sum = crc32.Update(sum, crc32.IEEETable, p)
		done += int64(len(p))
	}
	if sum != e.crc {
		return f.fail(name, e.data, tensor.ErrFormat, "zip entry %s of %d bytes has the CRC-32 %08x, its directory says %08x", quote(e.name), e.size, sum, e.crc)
	}
	return nil
}

// Verify is File.Verify for every file.
func (s *Set) Verify(ctx context.Context) error {
	for _, f := range s.files {
		if err := f.Verify(ctx); err != nil {
			return err
		}
	}
	return nil
}
