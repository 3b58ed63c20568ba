package httpfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// siteBlock is the block size of the files of a Site, of which there may be
// hundreds: what lies in the caches of all of them stays small.
const siteBlock = 16 << 10

// siteOpens is how many files a Site opens at one time.
const siteOpens = 16

// maxNames is how many files that others name are looked for in a directory, at
// most.
const maxNames = 10_000

// maxListed is the size up to which Names.Listed gets a file, in bytes.
const maxListed = 100 << 20

// Names say what there may be in a directory, which HTTP has no means to list.
type Names struct {
	// Known are the names that are tried in every directory that is listed.
	Known []string
	// Listed returns the names that a file, which lies in the same directory,
	// says are there; nil for a file that says nothing, and is then not read:
	// text reads it.
	Listed func(name string, text func() ([]byte, error)) []string
}

// A Site has the files below a URL, as an fs.FS of files that have ReadAt. A
// file is opened once, when its name is first used, and stays open, so that it
// is one version of it that all reads see, until Close. Closing a file of it
// does nothing. Errors are those of Open, and name the URL. Its methods may be called by several goroutines at once.
type Site struct {
	ctx   context.Context
	base  string // what is before the names
	names Names
	opts  Options
	own   *http.Transport // nil with Options.Client

	mu    sync.Mutex
	files map[string]*siteFile
	dirs  map[string][]fs.DirEntry
}

var (
	_ fs.StatFS    = (*Site)(nil)
	_ fs.ReadDirFS = (*Site)(nil)
)

// NewSite returns the Site of what is beside the file at rawURL, or below it if
// its path ends in "/". Nothing is sent yet. ctx and opts are those of Open,
// but all files share connections, and their blocks are of 16 KiB.
func NewSite(ctx context.Context, rawURL string, opts *Options, names Names) (*Site, error) {
	u, err := parseURL(rawURL)
	if err != nil {
		return nil, err
	}
	s := &Site{ctx: ctx, base: rawURL, names: names, files: map[string]*siteFile{}, dirs: map[string][]fs.DirEntry{}}
	if opts != nil {
		s.opts = *opts
	}
	setDefault(&s.opts.BlockSize, siteBlock)
	if _, err := s.opts.filled(); err != nil {
		return nil, fmt.Errorf("%s: %w", redacted(u), err)
	}
	if s.opts.Client == nil {
		s.own = newTransport(siteOpens)
		s.opts.Client = &http.Client{Transport: s.own}
	}
	return s, nil
}

// A siteFile is a name that was used: a file, or why there is none.
type siteFile struct {
	once sync.Once
	file *File
	err  error
}

// get opens the file of a name, if it is not open.
func (s *Site) get(name string) (*File, error) {
	if !fs.ValidPath(name) || name == "." {
		return nil, fs.ErrInvalid
	}
	s.mu.Lock()
	if s.files == nil {
		s.mu.Unlock()
		return nil, fs.ErrClosed
	}
	f := s.files[name]
	if f == nil {
		f = &siteFile{}
		s.files[name] = f
	}
	s.mu.Unlock()
	f.once.Do(func() { f.file, f.err = s.dial(name) })
	return f.file, f.err
}

func (s *Site) dial(name string) (*File, error) {
	at, err := Join(s.base, name)
	if err != nil {
		return nil, err
	}
	return Open(s.ctx, at, &s.opts)
}

// Warm opens files side by side, so that those who come for them one by one do
// not wait for each. What goes wrong, they will see.
func (s *Site) Warm(names []string) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, siteOpens)
	for _, name := range names {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			s.get(name) //nolint:errcheck // the next one to get it has the error
		})
	}
	wg.Wait()
}

// Stat returns the size of a file, and what is known to be a directory: ".",
// and one in which ReadDir found something.
func (s *Site) Stat(name string) (fs.FileInfo, error) {
	s.mu.Lock()
	entries := s.dirs[name]
	s.mu.Unlock()
	if name == "." || len(entries) > 0 {
		return siteInfo{name: path.Base(name), dir: true}, nil
	}
	f, err := s.get(name)
	if err != nil {
		return nil, err
	}
	return siteInfo{name: path.Base(name), size: f.Size()}, nil
}

// Open opens a file.
func (s *Site) Open(name string) (fs.File, error) {
	f, err := s.get(name)
	if err != nil {
		return nil, err
	}
	info := siteInfo{name: path.Base(name), size: f.Size()}
	return &openFile{File: f, Reader: io.NewSectionReader(f, 0, f.Size()), info: info}, nil
}

// ReadDir returns those files of a directory that Names lead to. A name that
// cannot be opened for any other reason than that it is not there is an error:
// it could be the one that matters.
func (s *Site) ReadDir(dir string) ([]fs.DirEntry, error) {
	s.mu.Lock()
	entries, known := s.dirs[dir]
	s.mu.Unlock()
	if known {
		return entries, nil
	}
	entries, err := s.list(dir)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dirs[dir] = entries
	return entries, nil
}

func (s *Site) list(dir string) (entries []fs.DirEntry, err error) {
	seen := map[string]bool{}
	for names := s.names.Known; len(names) > 0; {
		found, err := s.present(dir, names)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			seen[name] = true
		}
		names = nil
		for _, info := range found {
			entries = append(entries, fs.FileInfoToDirEntry(info))
			names = append(names, s.listed(dir, info.name)...)
		}
		slices.Sort(names)
		names = slices.DeleteFunc(slices.Compact(names), func(name string) bool { return seen[name] || checkName(name) != nil })
		names = names[:min(len(names), maxNames)]
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// present returns which of the names a directory has.
func (s *Site) present(dir string, names []string) (found []siteInfo, err error) {
	paths := make([]string, len(names))
	for i, name := range names {
		paths[i] = path.Join(dir, name)
	}
	if _, err := s.get(paths[0]); err != nil && !absent(err) {
		return nil, err // no use in asking for the others
	}
	s.Warm(paths)
	var denied error
	for i, p := range paths {
		f, err := s.get(p)
		switch {
		case err == nil:
			found = append(found, siteInfo{name: names[i], size: f.Size()})
		case !absent(err):
			return nil, err
		case errors.Is(err, fs.ErrPermission):
			denied = err
		}
	}
	if len(found) == 0 {
		return nil, denied
	}
	return found, nil
}

// absent says whether a file may be taken not to be there. Stores of objects
// answer 403 for one that is not, to those who may not list them.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)
}

func (s *Site) listed(dir, name string) []string {
	if s.names.Listed == nil {
		return nil
	}
	return s.names.Listed(name, func() ([]byte, error) { return s.read(path.Join(dir, name)) })
}

func (s *Site) read(name string) ([]byte, error) {
	f, err := s.get(name)
	if err != nil {
		return nil, err
	}
	if f.Size() > maxListed {
		return nil, fmt.Errorf("%s: %d bytes, the limit is %d", f.name, f.Size(), maxListed)
	}
	return io.ReadAll(io.NewSectionReader(f, 0, f.Size()))
}

// ETag returns the strong entity tag of a file that is open, or "".
func (s *Site) ETag(name string) string {
	if f, err := s.get(name); err == nil {
		return f.ETag()
	}
	return ""
}

// Close closes all files; reads that are going on end with fs.ErrClosed. It
// returns nil.
func (s *Site) Close() error {
	s.mu.Lock()
	files := s.files
	s.files = nil
	s.mu.Unlock()
	for _, f := range files {
		f.once.Do(func() { f.err = fs.ErrClosed })
		if f.file != nil {
			f.file.Close()
		}
	}
	if s.own != nil {
		s.own.CloseIdleConnections()
	}
	return nil
}

// An openFile is a File that stays open.
type openFile struct {
	*File
	io.Reader
	info siteInfo
}

func (f *openFile) Stat() (fs.FileInfo, error) { return f.info, nil }

// Close leaves the File to the Site.
func (f *openFile) Close() error { return nil }

// A siteInfo is what is known of a file without a time, or of a directory.
type siteInfo struct {
	name string
	size int64
	dir  bool
}

func (i siteInfo) Name() string       { return i.name }
func (i siteInfo) Size() int64        { return i.size }
func (i siteInfo) ModTime() time.Time { return time.Time{} }
func (i siteInfo) IsDir() bool        { return i.dir }
func (i siteInfo) Sys() any           { return nil }

func (i siteInfo) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o555
	}
	return 0o444
}

// Base returns the name of the file that a URL is of, unescaped; "" for a URL
// whose path ends in "/", or that has none.
func Base(rawURL string) (string, error) {
	u, err := parseURL(rawURL)
	if err != nil {
		return "", err
	}
	escaped := u.EscapedPath()
	name, err := url.PathUnescape(escaped[strings.LastIndexByte(escaped, '/')+1:])
	if err != nil {
		return "", fmt.Errorf("%s: path does not unescape", redacted(u))
	}
	return name, nil
}

// Dir returns the URL with a "/" at the end of its path.
func Dir(rawURL string) (string, error) {
	u, err := parseURL(rawURL)
	if err != nil {
		return "", err
	}
	return u.JoinPath("/").String(), nil
}
