package manual

import (
	"fmt"
	"strings"
)

func roff(p *page) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %q 1 \"\" \"tidemark\" \"tidemark manual\"\n", strings.ToUpper(fileName(p.name)))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", escape(fileName(p.name)), escape(p.short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n.SH DESCRIPTION\n%s\n", escape(p.usage), paragraphs(p.long))
	for _, part := range []struct {
		title string
		flags []flag
	}{{"OPTIONS", p.flags}, {"OPTIONS OF ALL COMMANDS", p.inherited}} {
		if len(part.flags) == 0 {
			continue
		}
		fmt.Fprintf(&b, ".SH %q\n", part.title)
		for _, f := range part.flags {
			fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", escape(f.names), escape(f.help))
		}
	}
	if len(p.children) > 0 {
		b.WriteString(".SH COMMANDS\n")
		for _, c := range p.children {
			fmt.Fprintf(&b, ".TP\n.BR %s (1)\n%s\n", escape(fileName(c.name)), escape(c.short))
		}
	}
	if p.example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLES\n.nf\n%s\n.fi\n", escape(p.example))
	}
	if p.parent != "" {
		fmt.Fprintf(&b, ".SH \"SEE ALSO\"\n.BR %s (1)\n", escape(fileName(p.parent)))
	}
	return b.String()
}

// escape keeps text from being taken for requests: dashes stay dashes, and a dot at the start of a line stays a dot.
func escape(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}

// paragraphs sets running text, and keeps indented lines as they are laid out.
func paragraphs(text string) string {
	var lines []string
	inside := false
	for line := range strings.SplitSeq(text, "\n") {
		indented := strings.HasPrefix(line, "  ")
		if indented != inside {
			lines = append(lines, map[bool]string{true: ".nf", false: ".fi"}[indented])
			inside = indented
		}
		if line == "" {
			lines = append(lines, ".PP")
			continue
		}
		lines = append(lines, escape(line))
	}
	if inside {
		lines = append(lines, ".fi")
	}
	return strings.Join(lines, "\n")
}
