package pytorch

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/demi-weights/demi/tensor"
)

// A view says where the elements of a tensor lie. It holds nothing of the
// pickle's text.
type view struct {
	stride     []int64 // in elements, as the pickle has them
	store      int     // index of the entry
	place      int64   // offset of the first element in the file
	contiguous bool
	permuted   bool
	axes       []axis // none where contiguous
	item       int64  // bytes of an element
}

// An axis is a dimension in memory: n steps of stride bytes.
type axis struct{ n, stride int64 }

// A shelf is a storage whose entry was found and measured.
type shelf struct {
	storage
	entry int
	bytes int64
}

// A librarian finds the storages of tensors and checks what the pickle says of
// them.
type librarian struct {
	f       *File
	shelves map[string]*shelf
	total   int64 // bytes of the tensors so far
}

// add checks a tensor and adds it to the file.
func (l *librarian) add(name string, t *pickled) error {
	in, v, err := l.place(t)
	if err == nil {
		err = l.count(in.Size)
	}
	if err != nil {
		return &tensor.FileError{File: l.f.name, Tensor: name, Offset: l.f.head.PickleOffset + int64(t.at), Err: withClass(err)}
	}
	in.Name = name
	l.f.infos, l.f.views = append(l.f.infos, in), append(l.f.views, v)
	return nil
}

// count bounds the sum of all sizes. Tensors may share a storage, or repeat it
// with strides of 0: a small file can say that it has any number of bytes.
func (l *librarian) count(size int64) error {
	const factor, floor = 64, 64 << 20
	limit := int64(math.MaxInt64)
	if l.f.size < (math.MaxInt64-floor)/factor {
		limit = factor*l.f.size + floor
	}
	sum, ok := tensor.AddSize(l.total, size)
	if !ok || sum > limit {
		return classed(tensor.ErrLimit, "views of storages sum up to %d bytes and %d more, in a file of %d", l.total, size, l.f.size)
	}
	l.total = sum
	return nil
}

func (l *librarian) place(t *pickled) (in tensor.Info, v view, err error) {
	if t.unreadable != "" {
		return in, v, classed(tensor.ErrUnsupported, "%s", t.unreadable)
	}
	s, err := l.shelf(t.store)
	if err != nil {
		return in, v, err
	}
	in = tensor.Info{DType: t.element.dtype, Shape: t.shape}
	if in.DType == tensor.Invalid {
		return in, v, classed(tensor.ErrUnsupported, "element type torch.%s", t.element.name)
	}
	elems, err := tensor.Elements(in.Shape)
	if err == nil {
		in.Size, err = tensor.ByteSize(in.DType, elems)
	}
	if err != nil {
		return in, v, err
	}
	item := int64(in.DType.Bits() / 8)
	if err := t.fits(elems, s.bytes/item); err != nil {
		return in, v, fmt.Errorf("storage %s: %w", quote("data/"+t.store.key), err)
	}
	v = view{stride: t.stride, store: s.entry, item: item, place: l.f.entries[s.entry].data + t.offset*item}
	v.axes = t.axes(item)
	v.contiguous = elems == 0 || len(v.axes) == 0 || len(v.axes) == 1 && v.axes[0].stride == item
	v.permuted = !v.contiguous && permuted(v.axes)
	return in, v, nil
}

// shelf finds the entry of a storage, and compares their sizes.
func (l *librarian) shelf(s *storage) (*shelf, error) {
	if known := l.shelves[s.key]; known != nil {
		if known.storage != *s {
			return nil, classed(tensor.ErrFormat, "storage %s is taken as %d elements of %s and as %d of %s", quote("data/"+s.key), known.numel, known.name, s.numel, s.name)
		}
		return known, nil
	}
	i, ok := l.f.byName[l.f.head.Root+"/data/"+s.key]
	if !ok {
		return nil, classed(tensor.ErrFormat, "storage %s is not in the archive", quote("data/"+s.key))
	}
	e := &l.f.entries[i]
	if err := l.f.stored(e); err != nil {
		return nil, err
	}
	size := int64(1) // of an element without a type of ours: that it is there is enough
	if s.dtype != tensor.Invalid {
		size = int64(s.dtype.Bits() / 8)
	}
	hi, need := bits.Mul64(uint64(s.numel), uint64(size))
	if hi != 0 || need > uint64(e.size) {
		return nil, classed(tensor.ErrFormat, "storage %s has %d bytes in the archive, too few for %d elements of %s", quote(e.name), e.size, s.numel, s.name)
	}
	if e.size-int64(need) >= size && s.dtype != tensor.Invalid {
		l.f.warn("storage %s has %d bytes, %d more than its %d elements of %s take", quote(e.name), e.size, e.size-int64(need), s.numel, s.name)
	}
	found := &shelf{storage: *s, entry: i, bytes: int64(need)}
	l.shelves[s.key] = found
	return found, nil
}

// fits checks that all elements of a view lie in a storage of numel elements.
func (t *pickled) fits(elems, numel int64) error {
	last := uint64(t.offset)
	for i, n := range t.shape {
		if t.stride[i] < 0 || t.offset < 0 {
			return classed(tensor.ErrFormat, "offset %d or strides %v are negative", t.offset, t.stride)
		}
		hi, reach := bits.Mul64(uint64(max(n, 1)-1), uint64(t.stride[i]))
		sum, carry := bits.Add64(last, reach, 0)
		if hi != 0 || carry != 0 {
			return classed(tensor.ErrFormat, "shape %v with strides %v reaches beyond 2^64 elements", t.shape, t.stride)
		}
		last = sum
	}
	if t.offset < 0 || t.offset > numel || elems > 0 && last >= uint64(numel) {
		return classed(tensor.ErrFormat, "it has %d elements, shape %v with strides %v from element %d on takes %d", numel, t.shape, t.stride, t.offset, last+1)
	}
	return nil
}

// axes returns the dimensions in memory, the slowest first: without those of
// one element, and with neighbours that follow one another made one.
func (t *pickled) axes(item int64) (axes []axis) {
	for i, n := range t.shape {
		if n == 1 {
			continue
		}
		next := axis{n, t.stride[i] * item}
		if k := len(axes) - 1; k >= 0 && axes[k].stride == next.n*next.stride {
			axes[k] = axis{axes[k].n * n, next.stride}
			continue
		}
		axes = append(axes, next)
	}
	return axes
}

// Aliases returns the names of tensors that share all their elements with an
// earlier one, such as tied embeddings, each with the name of the first: same
// storage, offset, type, shape and strides. Tensors without elements are not
// among them.
func (f *File) Aliases() map[string]string {
	first, aliases := make(map[string]string, len(f.infos)), make(map[string]string)
	var key []byte
	for i := range f.infos {
		in, v := &f.infos[i], &f.views[i]
		if in.Size == 0 {
			continue
		}
		key = fmt.Append(key[:0], v.store, v.place, in.DType, in.Shape, strides(in.Shape, v.stride))
		if name, tied := first[string(key)]; tied {
			aliases[in.Name] = name
		} else {
			first[string(key)] = in.Name
		}
	}
	return aliases
}

// strides returns those that mean anything: not those of dimensions of one
// element.
func strides(shape, stride []int64) []int64 {
	stride = slices.Clone(stride)
	for i, n := range shape {
		if n == 1 {
			stride[i] = 0
		}
	}
	return stride
}

// A Class says what a tensor is for.
type Class uint8

// The classes of tensors.
const (
	Weights   Class = iota // of the model: all that is none of the others
	EMA                    // running averages of weights
	Optimizer              // state of an optimizer, such as moments
	Training               // other state of a training run: schedules, random numbers, scales of gradients
)

// String returns "weights", "ema", "optimizer" or "training".
func (c Class) String() string {
	if int(c) < len(classNames) {
		return classNames[c]
	}
	return fmt.Sprintf("Class(%d)", uint8(c))
}

var classNames = [...]string{"weights", "ema", "optimizer", "training"}

// classPrefixes has the first parts of names by which tensors are told apart,
// as Lightning, timm, Stable Diffusion, fairseq and Accelerate write them.
var classPrefixes = []struct {
	prefix string
	class  Class
}{
	{"model_ema.", EMA}, {"ema.", EMA}, {"ema_model.", EMA}, {"ema_state_dict.", EMA}, {"state_dict_ema.", EMA}, {"model_ema_state_dict.", EMA},
	{"optimizer_states.", Optimizer}, {"optimizer_state.", Optimizer}, {"optimizer_state_dict.", Optimizer}, {"optimizer.", Optimizer}, {"optimizers.", Optimizer},
	{"optim.", Optimizer}, {"last_optimizer_state.", Optimizer},
	{"lr_schedulers.", Training}, {"lr_scheduler.", Training}, {"scheduler.", Training}, {"callbacks.", Training}, {"loops.", Training},
	{"rng_state.", Training}, {"cuda_rng_state.", Training}, {"native_amp_scaling_state.", Training}, {"amp_scaling_state.", Training}, {"scaler.", Training},
	{"random_rng_state.", Training},
}

// ClassOf returns the class of a tensor by its name. It goes by the first part
// of the name, or by the second behind "state_dict."; else by the last, which
// names moments of optimizers.
func ClassOf(name string) Class {
	name = strings.TrimPrefix(name, "state_dict.") + "."
	for _, c := range classPrefixes {
		if strings.HasPrefix(name, c.prefix) {
			return c.class
		}
	}
	// Moments, as optimizers of several libraries call them, whatever stands before.
	switch leaf := name[strings.LastIndexByte(name[:len(name)-1], '.')+1:]; leaf {
	case "exp_avg.", "exp_avg_sq.", "max_exp_avg_sq.", "momentum_buffer.", "exp_inf.", "square_avg.":
		return Optimizer
	}
	// An optimizer's own state dictionary: state.0.exp_avg.
	if rest, ok := strings.CutPrefix(name, "state."); ok && rest[0] >= '0' && rest[0] <= '9' {
		return Optimizer
	}
	return Weights
}

// Class returns the class of tensor i.
func (f *File) Class(i int) Class { return ClassOf(f.infos[i].Name) }
