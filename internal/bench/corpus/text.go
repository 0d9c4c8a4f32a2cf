package corpus

import (
	"strconv"
	"sync"
)

const (
	syllables   = 64   // of two to three letters, which make up words
	vocabulary  = 6000 // number of words
	dialect     = 160  // words that the files of one project have in common
	boilerplate = 300  // lines that they have in common
	patterns    = 400  // of bytes that its programs have in common
	mostVoices  = 2000 // kept, of some 30 KiB each
)

// writer makes text that compresses like sources and configuration: lines of a few forms, words that partly belong to
// the project and recur, numbers and hashes between them. Its compression ratio, file by file and many files together,
// was compared with real files of the same sizes; see TestTextCompressesAsSourcesDo.
type writer struct {
	words [vocabulary]string
	forms []string

	mu     sync.Mutex
	voices map[uint64]*voice
}

// newWriter makes the words. They do not depend on the seed of a set.
func newWriter() *writer {
	w := &writer{forms: forms(), voices: map[uint64]*voice{}}
	d := throw(0x776f_7264)
	const consonants, vowels = "bcdfghklmnprstvw", "aeiou"
	var parts [syllables]string
	for i := range parts {
		parts[i] = consonants[d.below(16):][:1] + vowels[d.below(5):][:1]
		if d.below(3) == 0 {
			parts[i] += "nrstlm"[d.below(6):][:1]
		}
	}
	for i := range w.words {
		for range 1 + d.below(4) {
			w.words[i] += parts[d.below(syllables)]
		}
	}
	return w
}

// forms are the forms of lines. A letter after % is a placeholder: w a word, n a number, h a hash, s some words of
// prose, t indentation that varies.
func forms() []string {
	return []string{
		"%tif err := %w.%w(%w, %w); err != nil {\n", "%treturn %w\n", "%t}\n", "\n", "%t%w := %w(%w)\n",
		"%t// %s\n", "%tfunc (%w *%w) %w(%w int, %w string) error {\n", "%tfor _, %w := range %w.%w {\n",
		"%t\"%w\": \"%w\",\n", "%t%w: %w\n", "%t- %w: %n\n", "%t%w = %n\n", "# %s\n", "%t<%w %w=\"%w\">\n",
		"%tcase %w:\n", "%t%w, %w = %w[%n], %w\n", "%t* %s\n", "%tassert.Equal(t, %n, %w.%w(%w))\n",
		"%tsha256: %h\n", "%s\n", "%t%w.%w = new %w(%w, \"%w\");\n", "import \"%w/%w/%w\"\n",
	}
}

// voice is how the files of one project are written.
type voice struct {
	*writer
	project  uint64
	words    [dialect]string
	lines    [boilerplate][]byte // that stand in many of its files
	patterns [patterns][]byte    // of its programs
}

// voice returns the voice of a project. It may be called from several goroutines.
func (w *writer) voice(project uint64) *voice {
	w.mu.Lock()
	defer w.mu.Unlock()
	v := w.voices[project]
	if v != nil {
		return v
	}
	if len(w.voices) >= mostVoices {
		clear(w.voices)
	}
	v = w.newVoice(project)
	w.voices[project] = v
	return v
}

func (w *writer) newVoice(project uint64) *voice {
	v := &voice{writer: w, project: project}
	d := throw(project)
	for i := range v.words {
		v.words[i] = w.words[d.below(vocabulary)]
	}
	for i := range v.lines {
		var recent [8]string
		for k := range recent {
			recent[k] = v.word(&d)
		}
		indent := d.below(4)
		v.lines[i] = v.line(nil, &d, w.forms[d.below(len(w.forms))], &indent, &recent)
	}
	for i := range v.patterns {
		v.patterns[i] = make([]byte, 2+d.below(7))
		d.fill(v.patterns[i])
	}
	return v
}

// text appends n bytes of text.
func (v *voice) text(p []byte, d dice, n int) []byte {
	end := len(p) + n
	var recent [8]string
	for i := range recent {
		recent[i] = v.word(&d)
	}
	style, indent := d.below(len(v.forms)), 0
	for len(p) < end {
		if d.below(100) < 34 {
			p = append(p, v.lines[d.below(1+d.below(boilerplate))]...)
			continue
		}
		p = v.line(p, &d, v.forms[(style+d.below(1+d.below(1+d.below(len(v.forms)))))%len(v.forms)], &indent, &recent)
	}
	return p[:end]
}

// line appends one line.
func (v *voice) line(p []byte, d *dice, form string, indent *int, recent *[8]string) []byte {
	for i := 0; i < len(form); i++ {
		if form[i] != '%' {
			p = append(p, form[i])
			continue
		}
		i++
		switch form[i] {
		case 't':
			*indent = max(0, min(5, *indent+d.below(3)-1))
			p = append(p, "\t\t\t\t\t"[:*indent]...)
		case 'w':
			p = append(p, v.used(d, recent)...)
		case 'n':
			p = strconv.AppendInt(p, int64(d.below(1+d.below(5000))), 10)
		case 'h':
			p = strconv.AppendUint(p, d.next()>>32, 16)
		case 's':
			for range 4 + d.below(9) {
				p = append(append(p, v.writer.words[d.below(1+d.below(1+d.below(vocabulary/4)))]...), ' ')
			}
		}
	}
	return p
}

// used returns a word of the current line: often a recently used one.
func (v *voice) used(d *dice, recent *[8]string) string {
	if d.below(100) < 68 {
		return recent[d.below(len(recent))]
	}
	word := v.word(d)
	recent[d.below(len(recent))] = word
	return word
}

// word returns a word of the project, or occasionally any other.
func (v *voice) word(d *dice) string {
	if d.below(100) < 8 {
		return v.writer.words[d.below(vocabulary)]
	}
	return v.words[d.below(1+d.below(dialect))]
}

// machine appends n bytes that compress like programs and tables: patterns with few frequent ones, small numbers in
// words of four bytes, names, and occasional unique addresses.
func (v *voice) machine(p []byte, d dice, n int) []byte {
	end := len(p) + n
	for len(p) < end {
		switch d.below(24) {
		case 0, 1, 2:
			x := d.below(1 << (4 + d.below(12)))
			p = append(p, byte(x), byte(x>>8), 0, 0)
		case 3, 4:
			p = append(append(p, v.word(&d)...), 0)
		case 5:
			x := d.next()
			p = append(p, byte(x), byte(x>>8), byte(x>>16))
		case 6, 7, 8: // a table of rows that hardly differ
			x := d.next() & 0xff_ffff
			for range 4 + d.below(12) {
				x += 8
				p = append(p, byte(x), byte(x>>8), byte(x>>16), 0, 1, 0, 0, 0)
			}
		default:
			p = append(p, v.patterns[d.below(1+d.below(1+d.below(patterns)))]...)
		}
	}
	return p[:end]
}

// Text returns n bytes as the text of the tiny set, the same for the same seed on every machine.
func Text(seed uint64, n int) []byte { return newWriter().voice(seed).text(nil, throw(seed), n) }

// Machine returns n bytes as the programs and tables of the mixed set.
func Machine(seed uint64, n int) []byte { return newWriter().voice(seed).machine(nil, throw(seed), n) }

// Noise returns n bytes that do not compress.
func Noise(seed uint64, n int) []byte {
	p := make([]byte, n)
	d := throw(seed)
	d.fill(p)
	return p
}
