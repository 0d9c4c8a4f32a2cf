package main

import (
	"fmt"
	"math"
)

// number formats a value with so many decimals; a dash if there is none.
func number(v float64, decimals int) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "–"
	}
	return fmt.Sprintf("%.*f", decimals, v)
}

// percent formats a part of a hundred.
func percent(v float64, decimals int) string {
	if text := number(v, decimals); text != "–" {
		return text + " %"
	}
	return "–"
}

// digits formats a value with three significant digits or more.
func digits(v float64) string {
	switch {
	case v >= 100:
		return number(v, 0)
	case v >= 10:
		return number(v, 1)
	case v >= 1:
		return number(v, 2)
	default:
		return number(v, 3)
	}
}
