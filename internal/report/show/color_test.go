package show

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every style can be read in terminals with a light and with a dark background: what colour it has contrasts with
// both, by WCAG's measure for bold text, also where a terminal draws bold colours as bright ones.
func TestStylesCanBeReadOnEveryBackground(t *testing.T) {
	type palette struct {
		name                string
		light, dark         uint32 // backgrounds
		normal, brightColor [8]uint32
	}
	for _, p := range []palette{
		{
			"xterm", 0xffffff, 0x000000,
			[8]uint32{0x000000, 0xcd0000, 0x00cd00, 0xcdcd00, 0x0000ee, 0xcd00cd, 0x00cdcd, 0xe5e5e5},
			[8]uint32{0x7f7f7f, 0xff0000, 0x00ff00, 0xffff00, 0x5c5cff, 0xff00ff, 0x00ffff, 0xffffff},
		},
		{
			"Solarized", 0xfdf6e3, 0x002b36,
			[8]uint32{0x073642, 0xdc322f, 0x859900, 0xb58900, 0x268bd2, 0xd33682, 0x2aa198, 0xeee8d5},
			[8]uint32{0x002b36, 0xcb4b16, 0x586e75, 0x657b83, 0x839496, 0x6c71c4, 0x93a1a1, 0xfdf6e3},
		},
	} {
		for _, style := range []Style{Plain, Bold, Red} {
			for code := range strings.SplitSeq(strings.TrimSuffix(strings.TrimPrefix(style.sequence(), "\x1b["), "m"), ";") {
				if len(code) < 2 {
					require.Contains(t, []string{"", "1"}, code, "neither a colour nor bold")
					continue
				}
				require.Regexp(t, "^3[0-7]$", code)
				for _, colors := range [][8]uint32{p.normal, p.brightColor} {
					for _, ground := range []uint32{p.light, p.dark} {
						require.GreaterOrEqual(t, contrast(colors[code[1]-'0'], ground), 3.0, "%s: %s on %06x", p.name, code, ground)
					}
				}
			}
		}
	}
}

// contrast is the contrast ratio of two colours by WCAG 2, from 1 to 21.
func contrast(a, b uint32) float64 {
	luminance := func(rgb uint32) float64 {
		linear := func(shift int) float64 {
			c := float64(rgb>>shift&0xff) / 0xff
			if c <= 0.04045 {
				return c / 12.92
			}
			return math.Pow((c+0.055)/1.055, 2.4)
		}
		return 0.2126*linear(16) + 0.7152*linear(8) + 0.0722*linear(0)
	}
	x, y := luminance(a)+0.05, luminance(b)+0.05
	return max(x, y) / min(x, y)
}
