package httpfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	blockLen = DefaultBlockSize
	largeLen = cacheBlocks * blockLen // goes past the cache
)

func TestReadAt(t *testing.T) {
	for _, size := range []int{0, 1, 10, 511, 512, 513, 3*512 + 5, 40*512 + 77} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			s := newSite(t, size)
			f, _ := s.open(t, &Options{BlockSize: 512})
			require.Equal(t, int64(size), f.Size())
			require.NoError(t, iotest.TestReader(io.NewSectionReader(f, 0, f.Size()), s.data))

			p := make([]byte, size+10)
			n, err := f.ReadAt(p, 0)
			require.Equal(t, io.EOF, err)
			require.True(t, bytes.Equal(s.data, p[:n]))
			n, err = f.ReadAt(p[:1], int64(size))
			require.True(t, n == 0 && err == io.EOF)
			n, err = f.ReadAt(nil, int64(size))
			require.True(t, n == 0 && err == nil)
			_, err = f.ReadAt(p, -1)
			require.ErrorContains(t, err, "negative offset")
		})
	}
}

// The first block comes on Open, and small headers are in it.
func TestOneRequest(t *testing.T) {
	s := newSite(t, 3*blockLen)
	f, clock := s.open(t, &Options{Token: "secret"})
	require.GreaterOrEqual(t, clock.resets, 3, "made, put off by the header, by the body")
	s.checkRead(t, f, 0, 8)
	s.checkRead(t, f, 8, blockLen-8)
	require.Equal(t, []string{"0-65535"}, s.ranges())
	require.Equal(t, Stats{Requests: 1, Bytes: blockLen}, f.Stats())
	require.Equal(t, s.URL+"/dir/file", f.URL())
	require.Equal(t, `"v1"`, f.ETag())

	h := s.seen[0].Header
	require.Equal(t, "identity", h.Get("Accept-Encoding"))
	require.Equal(t, "Bearer secret", h.Get("Authorization"))
	require.Empty(t, h.Get("If-Range"))
	s.checkRead(t, f, blockLen, 1)
	require.Equal(t, `"v1"`, s.seen[1].Header.Get("If-Range"))
}

// Reads of 8 bytes, one after another, make requests that grow; reads here and
// there make requests of one block; large ones one request for what they read.
func TestReadAhead(t *testing.T) {
	const block = 1 << 10
	s := newSite(t, 40*block)
	f, _ := s.open(t, &Options{BlockSize: block})
	for off := 0; off < 20*block; off += 8 {
		s.checkRead(t, f, off, 8)
	}
	k := func(from, n int) string { return fmt.Sprintf("%d-%d", from*block, (from+n)*block-1) }
	require.Equal(t, []string{k(0, 1), k(1, 2), k(3, 4), k(7, 8), k(15, 8)}, s.ranges())
	s.checkRead(t, f, 35*block+9, 8)
	s.checkRead(t, f, 30*block+9, 8)
	s.checkRead(t, f, 30*block-9, 18)
	require.Equal(t, []string{k(35, 1), k(30, 1), k(29, 1)}, s.ranges()[5:])
	s.checkRead(t, f, 3, 16*block)
	s.checkRead(t, f, 25*block+1, 3*block)
	require.Equal(t, []string{fmt.Sprintf("3-%d", 3+16*block-1), k(25, 4)}, s.ranges()[8:])
}

// The cache has 16 blocks, those that were used last, each with memory of its own.
func TestCacheBound(t *testing.T) {
	s := newSite(t, 100*16)
	f, _ := s.open(t, &Options{BlockSize: 16})
	for i := 99; i > 0; i -= 3 {
		s.checkRead(t, f, i*16, 3)
		s.checkRead(t, f, 5, 3) // stays
	}
	require.Len(t, f.cache.blocks, cacheBlocks)
	require.Len(t, s.ranges(), 1+33)
	s.checkRead(t, f, 30*16+9, 16*16-1) // touches 17 blocks
	require.Len(t, f.cache.blocks, cacheBlocks)
	for _, b := range f.cache.blocks {
		require.LessOrEqual(t, cap(b.data), 2*16)
	}
}

// Readers of one block share its request, also when it fails.
func TestShared(t *testing.T) {
	s := newSite(t, 3*blockLen)
	release := make(chan struct{})
	s.faults[1] = func(w http.ResponseWriter, r *http.Request) { <-release; s.right(w, r) }
	s.faults[2] = func(w http.ResponseWriter, r *http.Request) { <-release; status(404)(w, r) }
	f, _ := s.open(t, nil)
	read := func(off int64) (failed int) {
		var wg sync.WaitGroup
		errs := make([]error, 10)
		for i := range errs {
			wg.Go(func() { _, errs[i] = f.ReadAt(make([]byte, 9), off) })
		}
		for begun := false; !begun; time.Sleep(time.Millisecond) {
			f.cache.mu.Lock()
			begun = f.cache.blocks[off/blockLen] != nil
			f.cache.mu.Unlock()
		}
		release <- struct{}{}
		wg.Wait()
		for _, err := range errs {
			if errors.Is(err, fs.ErrNotExist) {
				failed++
			}
		}
		return failed
	}
	require.Equal(t, 0, read(2*blockLen))
	require.Len(t, s.ranges(), 2)
	require.NotZero(t, read(blockLen)) // those that come late read anew
}

func TestMaxParallel(t *testing.T) {
	s := newSite(t, largeLen)
	f, _ := s.open(t, &Options{MaxParallel: 2, BlockSize: 1 << 10})
	var mu sync.Mutex
	now, most := 0, 0
	count := func(d int) {
		mu.Lock()
		defer mu.Unlock()
		now += d
		most = max(most, now)
	}
	both := make(chan struct{})
	s.always = func(w http.ResponseWriter, r *http.Request) {
		count(1)
		select { // the first two are there at one time
		case both <- struct{}{}:
		case <-both:
		}
		body := s.head(w, r)
		count(-1) // before the client can know
		w.Write(body)
	}
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			p := make([]byte, 16<<10)
			if n, err := f.ReadAt(p, int64(i<<10)); err != nil || !bytes.Equal(p, s.data[i<<10:][:n]) {
				t.Error(n, err)
			}
		})
	}
	wg.Wait()
	require.Equal(t, 2, most)
}

// Close and the end of the context end what goes on: answers, waits, and the
// waits for other requests.
func TestEnd(t *testing.T) {
	for name, end := range map[string]struct {
		err  error
		call func(*File, context.CancelCauseFunc)
	}{
		"close":  {fs.ErrClosed, func(f *File, _ context.CancelCauseFunc) { f.Close() }},
		"cancel": {context.Canceled, func(_ *File, cancel context.CancelCauseFunc) { cancel(nil) }},
		"cause":  {context.Canceled, func(_ *File, cancel context.CancelCauseFunc) { cancel(io.EOF) }},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, 2*largeLen)
			ctx, cancel := context.WithCancelCause(context.Background())
			f, err := open(ctx, s.URL, &Options{MaxParallel: 1}, realTime)
			require.NoError(t, err)
			defer f.Close()
			sent := make(chan struct{})
			s.always = func(w http.ResponseWriter, r *http.Request) {
				w.Write(s.head(w, r)[:100])
				http.NewResponseController(w).Flush()
				close(sent)
				<-r.Context().Done()
			}
			var wg sync.WaitGroup
			for range 2 {
				wg.Go(func() {
					_, err := f.ReadAt(make([]byte, largeLen), blockLen)
					if !errors.Is(err, end.err) || errors.Is(err, io.EOF) {
						t.Error(err)
					}
				})
			}
			<-sent
			end.call(f, cancel)
			wg.Wait()
			_, err = f.ReadAt(make([]byte, 1), 0) // cached
			require.ErrorIs(t, err, end.err)
			require.NoError(t, f.Close())
		})
	}
}

// A wait between tries ends with the context.
func TestEndOfWait(t *testing.T) {
	s := newSite(t, 2*blockLen)
	s.faults[1] = status(503)
	ctx, cancel := context.WithCancel(context.Background())
	clock := &testClock{onWait: cancel}
	f, err := open(ctx, s.URL, nil, clock.timing())
	require.NoError(t, err)
	defer f.Close()
	_, err = f.ReadAt(make([]byte, 1), blockLen)
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, s.ranges(), 2)

	require.ErrorIs(t, wait(ctx, time.Hour), context.Canceled)
	require.NoError(t, wait(context.Background(), 1))
	_, err = Open(ctx, s.URL, nil)
	require.ErrorIs(t, err, context.Canceled)
}

func TestOptions(t *testing.T) {
	for want, o := range map[string]*Options{
		"block size -1":               {BlockSize: -1},
		"block size 67108865":         {BlockSize: 64<<20 + 1},
		"-2 requests at one time":     {MaxParallel: -2},
		"a time below 0":              {Stall: -1},
		"token has a character at by": {Token: "secret\n"},
	} {
		_, err := Open(t.Context(), "http://localhost", o)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "secret")
	}
}

// A client that takes redirects and gzip into its own hands does not get
// through with it.
func TestClient(t *testing.T) {
	s := newSite(t, 2*blockLen)
	s.faults[0] = status(http.StatusFound, "Location", "/other")
	client, right := s.Client(), s.Client().Transport
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return errors.New("called") }
	f, _ := s.open(t, &Options{Client: client})
	s.checkRead(t, f, blockLen, 9)
	require.Equal(t, "/other", s.seen[2].URL.Path)

	client.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
		resp, err := right.RoundTrip(r)
		if resp != nil {
			resp.Uncompressed = true
		}
		return resp, err
	})
	_, _, err := openURL(t, s.URL, &Options{Client: client})
	require.ErrorIs(t, err, ErrBadAnswer)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
