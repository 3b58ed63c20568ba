package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// jsonText is how all documents are written: empty lists are [], and texts that
// are not UTF-8 are escaped as jsonName says.
func jsonText(o ...json.Options) json.Options {
	return json.JoinOptions(append(o,
		json.Deterministic(true),
		jsonv1.OmitEmptyWithLegacySemantics(true),
		json.WithMarshalers(json.MarshalToFunc(func(e *jsontext.Encoder, s string) error {
			if t := jsonName(s); t != s {
				return e.WriteToken(jsontext.String(t))
			}
			return errors.ErrUnsupported
		})),
	)...)
}

// encodeJSON writes a document, indented.
func encodeJSON(w io.Writer, v any) error {
	if err := json.MarshalWrite(w, v, jsonText(jsontext.WithIndent(" "))); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func (a *app) writeJSON(v any) error { return encodeJSON(a.stdout, v) }

// jsonName returns s as a text of JSON. One that is UTF-8 is itself, unless it
// has `\x` in it. In others a byte that is not UTF-8 becomes `\x` and two
// digits, and a backslash becomes two. So what has no `\x` is as it is, and
// different texts stay different.
func jsonName(s string) string {
	if utf8.ValidString(s) && !strings.Contains(s, `\x`) {
		return s
	}
	return escaped(s)
}

// csvName is jsonName for a CSV file: spreadsheets take a text that begins with
// one of these characters for a formula, so that one is escaped as well.
func csvName(s string) string {
	if s == "" || !strings.Contains("=+-@\t\r", s[:1]) {
		return jsonName(s)
	}
	return fmt.Sprintf(`\x%02x`, s[0]) + escaped(s[1:])
}

func escaped(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case r == '\\':
			b.WriteString(`\\`)
		default:
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}
