package gguf

import "io"

// swapped reads elements of width bytes in the other byte order. Reads may
// begin and end within an element.
type swapped struct {
	r     io.ReaderAt
	width int64
}

func (s *swapped) ReadAt(p []byte, off int64) (n int, err error) {
	if skip := off % s.width; skip > 0 && len(p) > 0 {
		if n, err = s.part(p, off-skip, skip); err != nil {
			return n, err
		}
	}
	whole := int64(len(p)-n) / s.width * s.width
	if whole > 0 {
		k, err := s.r.ReadAt(p[n:int64(n)+whole], off+int64(n))
		k -= k % int(s.width)
		reverseEach(p[n:n+k], int(s.width))
		n += k
		if int64(k) < whole {
			return n, err
		}
	}
	if n < len(p) {
		k, err := s.part(p[n:], off+int64(n), 0)
		return n + k, err
	}
	return n, nil
}

// part copies what p holds of the element at off, from its byte skip on.
func (s *swapped) part(p []byte, off, skip int64) (int, error) {
	var word [8]byte
	elem := word[:s.width]
	if k, err := s.r.ReadAt(elem, off); k < len(elem) {
		return 0, err
	}
	reverseEach(elem, len(elem))
	return copy(p, elem[skip:]), nil
}
