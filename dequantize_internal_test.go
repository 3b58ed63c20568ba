package demi

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// Only the member goes, wherever it is, with one comma.
func TestDropQuantization(t *testing.T) {
	for text, want := range map[string]string{
		`{"a": 1, "quantization_config": {"b": [1, {}]}, "c": 2}`:            `{"a": 1, "c": 2}`,
		`{"quantization_config": {"b": 1}, "c": 2}`:                          `{ "c": 2}`,
		`{"a": 1, "quantization_config": null}`:                              `{"a": 1}`,
		`{"quantization_config": {}}`:                                        `{}`,
		"{\n \"x\": {\"quantization_config\" : 1 , \"y\": 2},\n \"z\": 3\n}": "{\n \"x\": { \"y\": 2},\n \"z\": 3\n}",
		`{"a": "quantization_config", "b": ["quantization_config"]}`:         `{"a": "quantization_config", "b": ["quantization_config"]}`,
		`{"quantization_config": 1, "quantization_config2": 1}`:              `{ "quantization_config2": 1}`,
		`{"quantization_config": 1`:                                          `{"quantization_config": 1`,
		`not JSON`:                                                           `not JSON`,
		"":                                                                   "",
		`{"a": {"quantization_config": 1}, "quantization_config": 2, "b": "c"}`: `{"a": {}, "b": "c"}`,
	} {
		got := string(dropQuantization([]byte(text)))
		require.Equal(t, want, got)
		require.Equal(t, json.Valid([]byte(text)), json.Valid([]byte(got)), text)
	}
}
