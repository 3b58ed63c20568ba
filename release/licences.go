package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// legal begins the names of the files whose texts a licence wants to go with a
// binary.
var legal = []string{"LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "PATENTS"}

// A listed is what "go list" says of a package.
type listed struct {
	ImportPath string
	Dir        string
	Standard   bool
	Module     *struct {
		Path, Version, Dir string
		Main               bool
	}
}

// licences returns the texts of all modules of which something is linked, and
// of the Go library: those in the directory of each linked package and in the
// ones above it, up to the root of its module.
func (r *release) licences(ctx context.Context, t target) ([]byte, error) {
	out, err := command(ctx, r.src, r.on(t), "go", "list", "-deps", "-json=ImportPath,Dir,Standard,Module", "./cmd/convert")
	if err != nil {
		return nil, err
	}
	texts := map[string]string{} // by module and file, which sorts them
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return joinLicences(texts)
		} else if err != nil {
			return nil, err
		}
		if p.Module != nil && p.Module.Main || p.ImportPath == "unsafe" {
			continue
		}
		name, root := "Go "+r.goVersion, r.goroot
		if !p.Standard {
			name, root = p.Module.Path+" "+p.Module.Version, p.Module.Dir
		}
		if err := collectLicences(texts, name, root, p.Dir); err != nil {
			return nil, fmt.Errorf("%s: %w", p.ImportPath, err)
		}
	}
}

// collectLicences adds what is in dir and above it, up to root.
func collectLicences(texts map[string]string, name, root, dir string) error {
	found := false
	for {
		files, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		at, err := filepath.Rel(root, dir)
		if err != nil || strings.HasPrefix(at, "..") {
			return fmt.Errorf("%s is not in %s", dir, root)
		}
		for _, f := range files {
			if !isLegal(f.Name()) || !f.Type().IsRegular() {
				continue
			}
			text, err := os.ReadFile(filepath.Join(dir, f.Name()))
			if err != nil {
				return err
			}
			texts[name+": "+filepath.ToSlash(filepath.Join(at, f.Name()))] = string(text)
			found = true
		}
		if at == "." {
			break
		}
		dir = filepath.Dir(dir)
	}
	if !found {
		return fmt.Errorf("no licence in %s", root)
	}
	return nil
}

// isLegal knows LICENSE, LICENSE.txt, LICENSE-MIT, and not license.go.
func isLegal(name string) bool {
	upper := strings.ToUpper(name)
	return filepath.Ext(name) != ".go" && slices.ContainsFunc(legal, func(l string) bool { return strings.HasPrefix(upper, l) })
}

func joinLicences(texts map[string]string) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("This program contains parts of the following. Its own licence is in LICENSE.\n")
	titles := make([]string, 0, len(texts))
	for title := range texts {
		titles = append(titles, title)
	}
	slices.Sort(titles)
	for _, title := range titles {
		rule := strings.Repeat("=", 80)
		fmt.Fprintf(&b, "\n%s\n%s\n%s\n\n%s\n", rule, title, rule, strings.TrimRight(texts[title], "\n"))
	}
	return b.Bytes(), nil
}
