// Package httpfile reads a file that is at a URL, as an io.ReaderAt, by range
// requests. Bytes that are not those of the file never come out as if they
// were: each answer is checked for the range, the length, the encoding and the
// version of the file that were asked for. What breaks on the way is tried
// again, from the byte where it broke.
//
// The rules are those of RFC 9110: ranges (section 14), conditional requests
// (section 13), redirects (section 15.4) and Retry-After (section 10.2.3).
package httpfile
