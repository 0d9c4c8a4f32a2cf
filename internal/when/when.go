// Package when reads times of the past as people write them: a day, a weekday, "3 days ago", or a moment.
package when

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Span is the time that a text names.
type Span struct {
	At  time.Time // its beginning
	To  time.Time // its end, which is no longer part of it
	Day bool      // a whole day; otherwise a moment, as exact as the text is
}

// Forms says in a message how a time can be written.
const Forms = `2006-01-02, "2006-01-02 15:04", 2006-01-02T15:04:05+01:00, yesterday, "last tuesday", or "3 days ago"`

// Parse reads a day (2006-01-02, today, yesterday, tuesday, "last tuesday", "3 days ago", "2 weeks ago"), a day with a
// time (15:04 or 15:04:05), an RFC 3339 time, "now", or "5 hours ago". A weekday is the last one before today. Days are
// those of the zone of now.
func Parse(text string, now time.Time) (Span, error) {
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil && !at.IsZero() {
		return Span{At: at, To: at.Add(1)}, nil
	}
	if len(text) > 10 && text[10] == 'T' { // after the date
		text = text[:10] + " " + text[11:]
	}
	words := strings.Fields(strings.ToLower(text))
	if len(words) == 0 {
		return Span{}, bad(text)
	}
	if len(words) == 1 && words[0] == "now" {
		return Span{At: now, To: now.Add(1)}, nil
	}
	if at, ok := ago(words, now); ok {
		return at, nil
	}
	clock, exact := time.Duration(0), time.Duration(0)
	if last := words[len(words)-1]; len(words) > 1 && strings.Contains(last, ":") {
		var ok bool
		if clock, exact, ok = timeOfDay(last); !ok {
			return Span{}, bad(text)
		}
		words = words[:len(words)-1]
	}
	y, m, d, ok := day(strings.Join(words, " "), now)
	if at, past := ago(words, now); past && at.Day {
		y, m, d = at.At.Date()
		ok = true
	}
	if !ok {
		return Span{}, bad(text)
	}
	if exact == 0 {
		return Span{At: date(y, m, d, now), To: date(y, m, d+1, now), Day: true}, nil
	}
	at := time.Date(y, m, d, 0, 0, int(clock/time.Second), 0, now.Location()) // by the clock, also where it was changed
	return Span{At: at, To: at.Add(exact)}, nil
}

func bad(text string) error { return fmt.Errorf("time %q: write it as %s", text, Forms) }

func date(y int, m time.Month, d int, now time.Time) time.Time {
	return time.Date(y, m, d, 0, 0, 0, 0, now.Location())
}

// timeOfDay reads 15:04 or 15:04:05, and returns how exact that is.
func timeOfDay(text string) (clock, exact time.Duration, ok bool) {
	for _, l := range []struct {
		layout string
		exact  time.Duration
	}{{"15:04", time.Minute}, {"15:04:05", time.Second}} {
		if at, err := time.Parse(l.layout, text); err == nil {
			return at.Sub(at.Truncate(24 * time.Hour)), l.exact, true
		}
	}
	return 0, 0, false
}

// day reads a day by its date or its name.
func day(text string, now time.Time) (y int, m time.Month, d int, ok bool) {
	if at, err := time.Parse(time.DateOnly, text); err == nil && !at.IsZero() {
		y, m, d = at.Date()
		return y, m, d, true
	}
	y, m, d = now.Date()
	switch text {
	case "today":
		return y, m, d, true
	case "yesterday":
		return y, m, d - 1, true
	}
	name := strings.TrimPrefix(text, "last ")
	for back := 1; back <= 7; back++ {
		weekday := strings.ToLower(date(y, m, d-back, now).Weekday().String())
		if name == weekday || name == weekday[:3] {
			return y, m, d - back, true
		}
	}
	return 0, 0, 0, false
}

// ago reads "3 days ago": a moment for minutes and hours, otherwise a day.
func ago(words []string, now time.Time) (Span, bool) {
	if len(words) != 3 || words[2] != "ago" {
		return Span{}, false
	}
	n, err := strconv.ParseUint(words[0], 10, 16)
	if words[0] == "a" || words[0] == "an" {
		n, err = 1, nil
	}
	if err != nil {
		return Span{}, false
	}
	return before(int(n), strings.TrimSuffix(words[1], "s"), now)
}

// before goes back by a number of units.
func before(n int, unit string, now time.Time) (Span, bool) {
	y, m, d := now.Date()
	switch unit {
	case "minute", "hour":
		each := time.Minute
		if unit == "hour" {
			each = time.Hour
		}
		at := now.Add(-time.Duration(n) * each)
		return Span{At: at, To: at.Add(1)}, true
	case "day":
		d -= n
	case "week":
		d -= 7 * n
	case "month":
		m -= time.Month(n)
		d = min(d, date(y, m+1, 0, now).Day()) // a month ago of 31 March is the end of February
	case "year":
		y -= n
		d = min(d, date(y, m+1, 0, now).Day())
	default:
		return Span{}, false
	}
	return Span{At: date(y, m, d, now), To: date(y, m, d+1, now), Day: true}, true
}
