package shardset_test

import (
	"errors"
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/internal/shardset"
	"github.com/demi-weights/demi/tensor"
)

var sets = shardset.Kind{Ext: ".x", Noun: "part"}

func TestShardName(t *testing.T) {
	for _, ext := range []string{".demi", ".gguf", ".safetensors"} {
		k := shardset.Kind{Ext: ext}
		require.Equal(t, "d/model-00002-of-00013"+ext, k.ShardName("d/model", 2, 13))
		require.Equal(t, "d/model-00002-of-00013"+ext, k.FileName("d/model", 2, 13))
		require.Equal(t, "d/model"+ext, k.FileName("d/model", 1, 1))
		require.Equal(t, "d/model"+ext+".index.json", k.IndexName("d/model"))
		stem, no, count, ok := k.ParseShardName("d/m-x-00002-of-00013" + ext)
		require.True(t, ok)
		require.Equal(t, []any{"d/m-x", 2, 13}, []any{stem, no, count})
		for _, bad := range []string{"", "model", "m-00000-of-00002", "m-00003-of-00002", "m-1-of-2", "m-00001-of-+0002", "m-+0001-of-00002",
			"m_00001-of-00002", "m-00001_of-00002", "of-00002", "-of-", "00001-of-00002"} {
			_, _, _, ok := k.ParseShardName(bad + ext)
			require.False(t, ok, bad)
		}
		for _, bad := range []string{"", "m-00001-of-00002", "m-00001-of-00002.other", "m-00001-of-00002.GGUF", "m-00001-of-00002" + ext + ext} {
			_, _, _, ok := k.ParseShardName(bad)
			require.False(t, ok, bad)
		}
	}
}

// class is the class of an error, in a word.
func class(err error) string {
	for word, class := range map[string]error{"format": tensor.ErrFormat, "unsupported": tensor.ErrUnsupported, "limit": tensor.ErrLimit} {
		if errors.Is(err, class) {
			return word
		}
	}
	return fmt.Sprint(err)
}

// TestCheckName: only plain names are taken, the same on every system.
func TestCheckName(t *testing.T) {
	for name, want := range map[string]string{
		"m.x": "<nil>", "COM10.x": "<nil>", "null.x": "<nil>", "é 1.x": "<nil>", "..x": "<nil>",
		"../m.x": "format", "/m.x": "format", "a/m.x": "format", "./m.x": "format", `..\m.x`: "format", `C:\m.x`: "format", "C:m.x": "format",
		"m\x00.x": "format", "m\n.x": "format", "m?.x": "format", "m:s.x": "format", "m\xff.x": "format",
		"NUL.x": "format", "nul .y.x": "format", "Aux.x": "format", "com1.x": "format", "LPT³.x": "format",
		"m.bin": "unsupported", "m.x.index.json": "unsupported", "M.X": "unsupported",
	} {
		err := sets.CheckName(name, strconv.Quote)
		require.Equal(t, want, class(err), "%q: %v", name, err)
		if err != nil {
			require.ErrorContains(t, err, "file name "+strconv.Quote(name)+" ")
		}
	}
}

func TestListed(t *testing.T) {
	var names []string
	for i := range 12 {
		names = append(names, fmt.Sprint(i))
	}
	require.Equal(t, "0, 1, 2, 3, 4, 5, 6, 7, 8, 9", shardset.Listed(names[:10]))
	require.Equal(t, "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more", shardset.Listed(names))
}
