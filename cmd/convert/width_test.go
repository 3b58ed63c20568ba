package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A name that is cut has the columns that it may have, whatever its letters,
// and keeps its end; one that fits is whole.
func TestCutMiddle(t *testing.T) {
	require.Equal(t, "mo….q_proj.weight", cutMiddle("model.layers.0.self_attn.q_proj.weight", 17))
	require.Equal(t, "short", cutMiddle("short", 5))
	rapid.Check(t, func(t *rapid.T) {
		letters := rapid.SampledFrom([]string{"a", ".", "é", "漢", "😀", "e\u0301", "Ж"})
		name := strings.Join(rapid.SliceOfN(letters, 0, 40).Draw(t, "name"), "")
		n := rapid.IntRange(8, 40).Draw(t, "columns")
		got := cutMiddle(name, n)
		require.LessOrEqual(t, text.StringWidthWithoutEscSequences(got), n)
		require.GreaterOrEqual(t, text.StringWidthWithoutEscSequences(got), min(n-3, text.StringWidthWithoutEscSequences(name)))
		require.True(t, utf8.ValidString(got))
		if text.StringWidthWithoutEscSequences(name) <= n {
			require.Equal(t, name, got)
			return
		}
		head, tail, ok := strings.Cut(got, "…")
		require.True(t, ok)
		require.True(t, strings.HasPrefix(name, head) && strings.HasSuffix(name, tail))
	})
}

// Nothing that a file may hold in a name reaches the terminal as a control.
func TestPrintable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := string(rapid.SliceOfN(rapid.Byte(), 0, 30).Draw(t, "bytes")) +
			rapid.SampledFrom([]string{"", "\x1b]0;title\a", "\u202e", "\u2028", "\u009b31m", "\ufeff", "\U000e0041", "\r\n"}).Draw(t, "tail")
		for _, r := range printable(name) {
			require.True(t, r >= ' ' && r != 0x7f && !(r >= 0x80 && r < 0xa0), "%q", r)
			require.NotContains(t, "\u202e\u2028\ufeff\U000e0041", string(r))
		}
	})
}
