package tm

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Dict is a dictionary of a property list. Its values are string, bool, integers, float64, Dict and []Dict.
type Dict []Pair

// Pair is a key of a dictionary and its value.
type Pair struct {
	Key   string
	Value any
}

// WriteXML writes a value as an XML property list.
func WriteXML(w io.Writer, value any) error {
	var b bytes.Buffer
	b.WriteString(xml.Header + `<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" ` +
		`"http://www.apple.com/DTDs/PropertyList-1.0.dtd">` + "\n<plist version=\"1.0\">\n")
	writeXML(&b, value, "")
	b.WriteString("</plist>\n")
	_, err := w.Write(b.Bytes())
	return err
}

func writeXML(b *bytes.Buffer, value any, indent string) {
	element := func(name, text string) {
		fmt.Fprintf(b, "%s<%s>", indent, name)
		_ = xml.EscapeText(b, []byte(text)) // a Buffer does not fail
		fmt.Fprintf(b, "</%s>\n", name)
	}
	switch v := value.(type) {
	case Dict:
		b.WriteString(indent + "<dict>\n")
		for _, p := range sorted(v) {
			b.WriteString(indent + "\t<key>")
			_ = xml.EscapeText(b, []byte(p.Key)) // as above
			b.WriteString("</key>\n")
			writeXML(b, p.Value, indent+"\t")
		}
		b.WriteString(indent + "</dict>\n")
	case []Dict:
		b.WriteString(indent + "<array>\n")
		for _, one := range v {
			writeXML(b, one, indent+"\t")
		}
		b.WriteString(indent + "</array>\n")
	case bool:
		fmt.Fprintf(b, "%s<%t/>\n", indent, v)
	case float64:
		element("real", formatReal(v))
	case string:
		element("string", v)
	default:
		element("integer", fmt.Sprint(v))
	}
}

// sorted returns the pairs in the order of their keys, which is that of Apple's tools.
func sorted(d Dict) Dict {
	d = slices.Clone(d)
	slices.SortFunc(d, func(a, b Pair) int { return strings.Compare(a.Key, b.Key) })
	return d
}

func formatReal(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// WriteText writes a dictionary in the older text form of property lists.
func WriteText(w io.Writer, d Dict) error {
	var b strings.Builder
	writeText(&b, d, "")
	_, err := io.WriteString(w, b.String()+"\n")
	return err
}

func writeText(b *strings.Builder, d Dict, indent string) {
	b.WriteString("{\n")
	for _, p := range sorted(d) {
		b.WriteString(indent + "    " + quoted(p.Key) + " = ")
		switch v := p.Value.(type) {
		case Dict:
			b.WriteString("    ")
			writeText(b, v, indent+"    ")
		case bool:
			b.WriteString(map[bool]string{true: "1", false: "0"}[v])
		case float64:
			b.WriteString(`"` + formatReal(v) + `"`)
		case string:
			b.WriteString(quoted(v))
		default:
			fmt.Fprint(b, v)
		}
		b.WriteString(";\n")
	}
	b.WriteString(indent + "}")
}

// quoted returns text as the text form holds it: as it is if it has letters and digits only.
func quoted(text string) string {
	if regexp.MustCompile(`^[A-Za-z0-9]+$`).MatchString(text) {
		return text
	}
	return strconv.Quote(text)
}
