package demi_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
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

// brokenLinks returns the relative links of a Markdown file that lead nowhere.
func brokenLinks(t *testing.T, file string) (broken []string) {
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	for _, m := range link.FindAllStringSubmatch(inCode.ReplaceAllString(string(text), ""), -1) {
		if strings.Contains(m[1], "://") {
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
// that is there, and to a heading of it.
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
	text := "# A `b`: c, d\n[a](#a-b-c-d) [b](page.md#a-b-c-d) [c](#a) [d](none.md) [e](https://x/none) `[f](none)`\n"
	require.NoError(t, os.WriteFile(page, []byte(text), 0o666))
	require.Equal(t, []string{"#a", "none.md"}, brokenLinks(t, page))
}
