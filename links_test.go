package demi_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	inCode  = regexp.MustCompile("(?ms)^```.*?^```|`[^`\n]*`|^    .*?$")
	noSlug  = regexp.MustCompile(`[^\p{L}\p{N}\- _]`)
)

// outside are the links to pages elsewhere, which no test can follow: whoever
// adds one looks at it.
var outside = []string{"https://semver.org"}

// anchors returns what a link into a Markdown text can name, as GitHub makes
// it of headings.
func anchors(text string) map[string]bool {
	set := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		slug := noSlug.ReplaceAllString(strings.ToLower(m[1]), "")
		set[strings.ReplaceAll(strings.TrimSpace(slug), " ", "-")] = true
	}
	return set
}

// brokenLinks returns the links of a Markdown file that lead nowhere, or to a page
// elsewhere that is not known.
func brokenLinks(t *testing.T, file string) (broken []string) {
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	for _, m := range link.FindAllStringSubmatch(inCode.ReplaceAllString(string(text), ""), -1) {
		if strings.Contains(m[1], "://") {
			if !slices.Contains(outside, m[1]) {
				broken = append(broken, m[1])
			}
			continue
		}
		path, anchor, _ := strings.Cut(m[1], "#")
		target := file
		if path != "" {
			target = filepath.Join(filepath.Dir(file), filepath.FromSlash(path))
		}
		info, err := os.Stat(target)
		if err != nil {
			broken = append(broken, m[1])
			continue
		}
		if anchor == "" {
			continue
		}
		var linked []byte
		if !info.IsDir() {
			linked, err = os.ReadFile(target)
			require.NoError(t, err)
		}
		if !anchors(string(linked))[anchor] {
			broken = append(broken, m[1])
		}
	}
	return broken
}

// TestLinks holds that every relative link of the documents leads to a file
// that is there, and to a heading of it, and every other to a page that is known.
func TestLinks(t *testing.T) {
	var links int
	require.NoError(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".md" {
			return err
		}
		text, err := os.ReadFile(path)
		links += len(link.FindAll(text, -1))
		assert.Empty(t, brokenLinks(t, path), path)
		return err
	}))
	require.Greater(t, links, 10)

	page := filepath.Join(t.TempDir(), "page.md")
	text := "# A `b`: c, d\n[a](#a-b-c-d) [b](page.md#a-b-c-d) [c](#a) [d](none.md) [e](https://x/none) [g](https://semver.org) `[f](none)`\n"
	require.NoError(t, os.WriteFile(page, []byte(text), 0o666))
	require.Equal(t, []string{"#a", "none.md", "https://x/none"}, brokenLinks(t, page))
}
