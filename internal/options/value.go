package options

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// parse reads text as a value of o: string, bool, int64 (Int, Size, Count), float64 (Percent) or time.Duration.
func (o *Option) parse(text string) (any, error) {
	switch o.Kind {
	case Bool:
		return parseBool(text)
	case Int, Count:
		if o.Auto && strings.EqualFold(text, "auto") {
			return int64(0), nil
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%w: %q is not a whole number%s", ErrValue, text, o.bounds())
		}
		return n, o.check(n, text)
	case Size:
		n, err := ParseSize(text, max(o.Unit, 1))
		if err != nil {
			return nil, err
		}
		return n, o.check(n, text)
	case Duration:
		return parseDuration(text)
	case Percent:
		return parsePercent(text)
	case Choice:
		return o.choose(text)
	case Domain:
		return text, checkDomain(text)
	case Path, List:
		if text == "" {
			return nil, fmt.Errorf("%w: it is empty", ErrValue)
		}
	}
	return text, nil
}

func (o *Option) check(n int64, text string) error {
	if (o.Min != 0 || o.Max != 0) && (n < o.Min || n > o.Max) {
		return fmt.Errorf("%w: %q is out of range%s", ErrValue, text, o.bounds())
	}
	return nil
}

// bounds describes the allowed range, as the end of an error text.
func (o *Option) bounds() string {
	if o.Min == 0 && o.Max == 0 {
		return ""
	}
	lo, hi := strconv.FormatInt(o.Min, 10), strconv.FormatInt(o.Max, 10)
	if o.Kind == Size {
		lo, hi = FormatSize(o.Min), FormatSize(o.Max)
	}
	if o.Auto {
		return fmt.Sprintf(" (%s to %s, or auto)", lo, hi)
	}
	return fmt.Sprintf(" (%s to %s)", lo, hi)
}

func (o *Option) choose(text string) (string, error) {
	var words []string
	for _, choice := range o.Choices {
		synonyms := strings.Fields(choice)
		if slices.Contains(synonyms, strings.ToLower(text)) {
			return synonyms[0], nil
		}
		words = append(words, synonyms[0])
	}
	return "", fmt.Errorf("%w: %q is none of %s", ErrValue, text, strings.Join(words, ", "))
}

func parseBool(text string) (bool, error) {
	switch strings.ToLower(text) {
	case "yes", "true", "on", "1", "y":
		return true, nil
	case "no", "false", "off", "0", "n":
		return false, nil
	}
	return false, fmt.Errorf("%w: %q is neither yes nor no", ErrValue, text)
}

func parseDuration(text string) (time.Duration, error) {
	if seconds, err := strconv.ParseInt(text, 10, 64); err == nil {
		if seconds < 0 || seconds > int64(math.MaxInt64/time.Second) {
			return 0, fmt.Errorf("%w: %q seconds is out of range", ErrValue, text)
		}
		return time.Duration(seconds) * time.Second, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%w: %q is not a time such as 90s, 5m or 2h", ErrValue, text)
	}
	return d, nil
}

// parsePercent reads a number from 0 to 100, with or without a percent sign.
func parsePercent(text string) (float64, error) {
	n, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(text, "%")), 64)
	if err != nil || !(n >= 0 && n <= 100) {
		return 0, fmt.Errorf("%w: %q is not a percentage from 0 to 100, such as 5%%", ErrValue, text)
	}
	return n, nil
}

// ParseSize reads a number of bytes. The suffixes K, M, G and T are powers of 1024, and may be followed by B or iB; B
// is bytes; a number without suffix counts units of unit bytes. A fraction such as 1.5G is allowed where it is close to
// whole bytes.
func ParseSize(text string, unit int64) (int64, error) {
	malformed := func() error {
		return fmt.Errorf("%w: %q is not a size such as 512K, 10M or 1.5G", ErrValue, text)
	}
	digits := strings.TrimRight(text, "KMGTBIkmgtbi")
	suffix := strings.ToUpper(text[len(digits):])
	digits = strings.TrimSpace(digits)
	multiple, ok := map[string]int64{"": unit, "B": 1, "K": kib, "KB": kib, "KIB": kib, "M": mib, "MB": mib, "MIB": mib,
		"G": gib, "GB": gib, "GIB": gib, "T": 1 << 40, "TB": 1 << 40, "TIB": 1 << 40}[suffix]
	if !ok || digits == "" || strings.Trim(digits, "0123456789.") != "" {
		return 0, malformed()
	}
	if n, err := strconv.ParseInt(digits, 10, 64); err == nil {
		if n > math.MaxInt64/multiple {
			return 0, fmt.Errorf("%w: %q is too large", ErrValue, text)
		}
		return n * multiple, nil
	}
	f, err := strconv.ParseFloat(digits, 64)
	if err != nil {
		return 0, malformed()
	}
	if f *= float64(multiple); f >= math.MaxInt64 {
		return 0, fmt.Errorf("%w: %q is too large", ErrValue, text)
	}
	return int64(f), nil
}

// FormatSize writes n with the largest suffix that keeps it a whole number. ParseSize reads it back with unit 1.
func FormatSize(n int64) string {
	for _, s := range []struct {
		multiple int64
		suffix   string
	}{{1 << 40, "T"}, {gib, "G"}, {mib, "M"}, {kib, "K"}} {
		if n != 0 && n%s.multiple == 0 {
			return strconv.FormatInt(n/s.multiple, 10) + s.suffix
		}
	}
	return strconv.FormatInt(n, 10)
}

// format formats a parsed value in option syntax.
func (o *Option) format(value any) string {
	switch v := value.(type) {
	case bool:
		if v {
			return "yes"
		}
		return "no"
	case int64:
		switch {
		case o.Auto && v == 0:
			return "auto"
		case o.Kind == Size:
			return FormatSize(v)
		}
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64) + "%"
	case time.Duration:
		return formatDuration(v)
	}
	return value.(string)
}

// formatDuration formats a time without units that are zero: "5m", "2h".
func formatDuration(d time.Duration) string {
	text := d.String() // such as 5m0s, 2h0m0s
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
