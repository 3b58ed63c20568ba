package demi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"time"

	store "github.com/demi-weights/demi/format"
	"github.com/demi-weights/demi/gguf"
	"github.com/demi-weights/demi/internal/httpfile"
	"github.com/demi-weights/demi/internal/sniff"
	"github.com/demi-weights/demi/pytorch"
	"github.com/demi-weights/demi/safetensors"
)

// URLOptions are those of OpenURL. The zero value means the defaults; Map has no
// effect.
type URLOptions struct {
	OpenOptions
	// Token is sent as a bearer token, to the scheme, host and port of the URL
	// alone: where a redirect leads elsewhere, it stays behind.
	Token string
	// Client sends the requests. The default has no proxy, and reads nothing
	// from the environment.
	Client *http.Client
	// OnWait, if not nil, is told before each pause after a failure how long it
	// is, and of what failure. Several goroutines may call it at once.
	OnWait func(d time.Duration, why error)
}

// IsURL reports whether a path is an http or https URL.
func IsURL(path string) bool {
	scheme, _, ok := strings.Cut(path, "://")
	return ok && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https"))
}

// OpenURL opens a checkpoint behind an http or https URL, whose server must send
// ranges: a file, any shard, an index, or a directory. Only headers are read,
// and later the ranges that are asked for. A directory, a URL that ends in "/"
// or has no file, is looked through for the names that model hubs use, since
// HTTP lists none: model.safetensors, its index, the components of a pipeline,
// configurations, tokenizers.
//
// What fails on the way is tried again, with growing pauses, or those that the
// server asks for, up to 5 minutes: a longer one is an error. A file that changes
// meanwhile (another ETag, time or size) is tensor.ErrChanged; a server that
// sends something else than what was asked for is an error, and never bytes.
// ctx counts until Close: when it ends, all reads fail.
func OpenURL(ctx context.Context, url string, o *URLOptions) (*Checkpoint, error) {
	if o == nil {
		o = &URLOptions{}
	}
	c, err := openURL(ctx, url, o)
	if errors.Is(err, fs.ErrNotExist) || isPage(err) {
		if dir, isDir := directoryURL(url); isDir {
			c, errDir := openURL(ctx, dir, o)
			if !isPage(err) || !errors.Is(errDir, fs.ErrNotExist) {
				return c, errDir
			}
		}
	}
	return c, err
}

// directoryURL returns the URL as that of a directory, if it can be one.
func directoryURL(url string) (dir string, ok bool) {
	name, err := httpfile.Base(url)
	if err != nil || name == "" || FormatOf(strings.TrimSuffix(name, indexSuffix)) != "" || hasTorchExtension(strings.TrimSuffix(name, indexSuffix)) {
		return "", false
	}
	dir, err = httpfile.Dir(url)
	return dir, err == nil
}

// A pageError is that of a web page in place of weights.
type pageError struct{ error }

func (e pageError) Unwrap() error { return e.error }

func isPage(err error) bool { return errors.As(err, new(pageError)) }

// isPageAt reports whether a file that could not be read as weights is a page.
func isPageAt(site *httpfile.Site, name string) bool {
	f, err := site.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, sniff.Size)
	n, err := io.ReadFull(f, head)
	what, _ := sniff.Sniff(head[:n])
	return (err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)) && what == sniff.HTML
}

func openURL(ctx context.Context, url string, o *URLOptions) (*Checkpoint, error) {
	site, err := httpfile.NewSite(ctx, url, &httpfile.Options{Token: o.Token, Client: o.Client, OnWait: o.OnWait}, hubNames)
	if err != nil {
		return nil, err
	}
	c, err := openSite(site, url, o)
	if err != nil {
		site.Close()
		return nil, err
	}
	c.site = site
	return c, nil
}

func openSite(site *httpfile.Site, url string, o *URLOptions) (*Checkpoint, error) {
	name, err := httpfile.Base(url)
	if err != nil {
		return nil, err
	}
	if name == "" {
		name = "."
	} else {
		warmShards(site, name)
	}
	options := o.OpenOptions
	options.Map = false
	c, err := OpenFS(site, name, &options)
	if name == "." && errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s has none of the files that a model has on a hub, such as model.safetensors (%w): name the file; for a page of Hugging Face add /resolve/main/ to its address",
			httpfile.Redact(url), fs.ErrNotExist)
	}
	if err != nil && isPageAt(site, name) {
		return nil, pageError{err}
	}
	return c, err
}

// maxWarm is how many shards are opened ahead, at most.
const maxWarm = 10_000

// warmShards opens the shards of a set side by side.
func warmShards(site *httpfile.Site, name string) {
	if names := hubListed(name, func() ([]byte, error) { return fs.ReadFile(site, name) }); names != nil {
		site.Warm(names[:min(len(names), maxWarm)])
		return
	}
	for _, k := range []struct {
		parse func(string) (string, int, int, bool)
		name  func(string, int, int) string
	}{{safetensors.ParseShardName, safetensors.ShardName}, {gguf.ParseShardName, gguf.ShardName}, {pytorch.ParseShardName, pytorch.ShardName}, {store.ParseShardName, store.ShardName}} {
		stem, _, count, ok := k.parse(name)
		if !ok || count > maxWarm {
			continue
		}
		names := make([]string, count)
		for i := range names {
			names[i] = k.name(stem, i+1, count)
		}
		site.Warm(names)
	}
}

// hubNames are what models on hubs consist of: weights under the names that
// their libraries give them, and what lies beside them.
var hubNames = httpfile.Names{
	Known: []string{
		"config.json", "model_index.json",
		"model.safetensors", "model.safetensors.index.json",
		"diffusion_pytorch_model.safetensors", "diffusion_pytorch_model.safetensors.index.json",
		"adapter_model.safetensors", "adapter_config.json",
		"model.demi", "model.demi.index.json", "model.gguf",
		"pytorch_model.bin", "pytorch_model.bin.index.json", "diffusion_pytorch_model.bin",
		"generation_config.json", "preprocessor_config.json", "processor_config.json", "scheduler_config.json",
		"tokenizer.json", "tokenizer_config.json", "tokenizer.model", "special_tokens_map.json", "added_tokens.json",
		"vocab.json", "vocab.txt", "merges.txt", "spiece.model", "chat_template.jinja", "chat_template.json",
		"README.md", "LICENSE",
	},
	Listed: hubListed,
}

// hubListed returns the shards that an index names.
func hubListed(name string, text func() ([]byte, error)) []string {
	stem, ok := strings.CutSuffix(name, indexSuffix)
	if !ok {
		return nil
	}
	t, err := text()
	if err != nil {
		return nil // its reader will say
	}
	if hasTorchExtension(stem) {
		if x, err := pytorch.ParseIndex(t); err == nil {
			return x.Names()
		}
	}
	switch FormatOf(stem) {
	case Safetensors:
		if x, err := safetensors.ParseIndex(t); err == nil {
			return x.Names()
		}
	case Demi:
		if x, err := store.ParseIndex(t); err == nil {
			return x.Names()
		}
	}
	return nil
}
