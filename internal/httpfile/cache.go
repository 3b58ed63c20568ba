package httpfile

import (
	"bytes"
	"sync"
)

// A cache has the blocks that were read last. Blocks that are missing and lie
// side by side come by one request; who needs a block that is on its way waits
// for it.
type cache struct {
	size  int64 // of a block, in bytes
	end   int64 // of the file
	fetch func(p []byte, off int64) (int, error)

	mu     sync.Mutex
	blocks map[int64]*block // by number
	clock  int64            // counts uses
	next   int64            // the block after the last run that was fetched
	ahead  int64            // the length of that run, in blocks, to aheadBlocks
}

// A block is on its way until done is closed. Then data and err stay as they
// are.
type block struct {
	done chan struct{}
	data []byte // shorter than others at the end of the file only
	err  error
	used int64 // clock; 0 on its way
}

func (c *cache) init(size int, end int64, fetch func([]byte, int64) (int, error)) {
	c.size, c.end, c.fetch = int64(size), end, fetch
	c.blocks = map[int64]*block{}
}

// put adds block i, as if it had been fetched. c must not be in use.
func (c *cache) put(i int64, data []byte) {
	done := make(chan struct{})
	close(done)
	c.clock++
	c.blocks[i] = &block{done: done, data: data, used: c.clock}
	c.next, c.ahead = i+1, 1
}

// read reads len(p) bytes from byte off, all of them in the file.
func (c *cache) read(p []byte, off int64) (n int, err error) {
	last := (off + int64(len(p)) - 1) / c.size
	for n < len(p) {
		at := off + int64(n)
		i := at / c.size
		data, err := c.from(i, last)
		if skip := at - i*c.size; skip < int64(len(data)) {
			n += copy(p[n:], data[skip:])
		}
		if err != nil && n < len(p) {
			return n, err
		}
	}
	return n, nil
}

// from returns the bytes from block i on: that block, or several to block last
// or beyond if they had to be fetched. With an error they may be less.
func (c *cache) from(i, last int64) ([]byte, error) {
	c.mu.Lock()
	if b := c.blocks[i]; b != nil {
		c.use(b)
		c.mu.Unlock()
		<-b.done
		return b.data, b.err
	}
	run := c.begin(i, last-i+1)
	c.mu.Unlock()
	data := make([]byte, min(int64(len(run))*c.size, c.end-i*c.size))
	n, err := c.fetch(data, i*c.size)
	c.finish(i, run, data[:n], err)
	return data[:n], err
}

func (c *cache) use(b *block) {
	if b.used > 0 {
		c.clock++
		b.used = c.clock
	}
}

// begin announces a run of blocks from i on, need of them or more if reads go
// on from where the last run ended, up to one that is there. c.mu is held.
func (c *cache) begin(i, need int64) []*block {
	if i == c.next {
		c.ahead = min(2*c.ahead, aheadBlocks)
	} else {
		c.ahead = 1
	}
	most := min(max(need, c.ahead), (c.end-1)/c.size-i+1)
	var run []*block
	for k := i; k < i+most && c.blocks[k] == nil; k++ {
		b := &block{done: make(chan struct{})}
		c.blocks[k] = b
		run = append(run, b)
	}
	c.next = i + int64(len(run))
	return run
}

// finish gives a run of blocks their data. Those that came whole are kept, with
// copies of their own: a piece of data would keep all of it.
func (c *cache) finish(i int64, run []*block, data []byte, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, b := range run {
		want := min(c.size, c.end-(i+int64(k))*c.size)
		if int64(len(data)) < want {
			b.err = err
			delete(c.blocks, i+int64(k))
		} else {
			b.data, data = bytes.Clone(data[:want]), data[want:]
			c.clock++
			b.used = c.clock
		}
		close(b.done)
	}
	c.evict()
}

// evict drops the blocks that were used longest ago. c.mu is held.
func (c *cache) evict() {
	for {
		there, oldest := 0, int64(-1)
		for i, b := range c.blocks {
			if b.used == 0 {
				continue
			}
			there++
			if oldest < 0 || b.used < c.blocks[oldest].used {
				oldest = i
			}
		}
		if there <= cacheBlocks {
			return
		}
		delete(c.blocks, oldest)
	}
}
