package verify

import "github.com/demi-weights/demi/tensor"

// OwnHTML returns the parts of a page that html/template takes as they are.
func OwnHTML(records []tensor.Record) (data, chart string) {
	return encodeSheets(records, nil), string(layerChart(records))
}
