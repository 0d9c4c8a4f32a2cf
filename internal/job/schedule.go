package job

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/netresearch/go-cron"
)

// Examples of schedules, for errors.
const scheduleExamples = `write hourly, "every 2h", daily, "daily 02:30", "weekly sunday 03:00", monthly, five ` +
	`fields of cron such as "30 2 * * 1-5", or never`

// searchYears bounds the search for the next time: 29 February may be eight years away, and on a weekday forty.
const searchYears = 41

// ParseSchedule reads a schedule as it is written in an option file.
func ParseSchedule(text string) (Schedule, error) {
	fields := strings.Fields(strings.ToLower(text))
	switch {
	case len(fields) == 0:
		return nil, fmt.Errorf("%w: it is empty: %s", ErrSchedule, scheduleExamples)
	case fields[0] == "never" && len(fields) == 1:
		return &calendar{text: "never"}, nil
	case lineOf(fields) != "":
		line := lineOf(fields)
		return parseCron(text, []string{line}, line[0] == '0' && line[2] == '0')
	case fields[0] == "every":
		return parseEvery(text, strings.Join(fields[1:], ""))
	case fields[0] == "daily" && len(fields) == 2:
		return parseTimes(text, "*", fields[1])
	case fields[0] == "weekly" && len(fields) == 3:
		days, err := weekdays(fields[1])
		if err != nil {
			return nil, fmt.Errorf("%w %q: %w", ErrSchedule, text, err)
		}
		return parseTimes(text, days, fields[2])
	case fields[0] == "daily":
		return nil, fmt.Errorf(`%w %q: write one time, or several such as "daily 02:30,14:30"`, ErrSchedule, text)
	case fields[0] == "weekly":
		return nil, fmt.Errorf(`%w %q: write the day and the time too, such as "weekly sunday 03:00"`, ErrSchedule, text)
	case len(fields) == 5 && !strings.Contains(text, "="):
		fixed := fields[0][0] != '*' && fields[1][0] != '*'
		return parseCron(text, []string{strings.Join(fields, " ")}, fixed)
	}
	return nil, fmt.Errorf("%w %q: %s", ErrSchedule, text, scheduleExamples)
}

// lineOf returns the line of cron that a word stands for, as in cron and systemd: days begin at midnight; "": none.
func lineOf(fields []string) string {
	switch strings.Join(fields, " ") {
	case "hourly", "@hourly", "every hour":
		return "0 * * * *"
	case "daily", "@daily", "@midnight", "every day":
		return "0 0 * * *"
	case "weekly", "@weekly", "every week":
		return "0 0 * * 0"
	case "monthly", "@monthly", "every month":
		return "0 0 1 * *"
	}
	return ""
}

// parseEvery returns the schedule of an interval that divides an hour or a day, counted from its beginning.
func parseEvery(text, interval string) (Schedule, error) {
	digits := strings.TrimRight(interval, "abcdefghijklmnopqrstuvwxyz")
	n, err := strconv.ParseUint(digits, 10, 16)
	unit := interval[len(digits):]
	switch {
	case err != nil || n == 0:
	case slices.Contains([]string{"m", "min", "minute", "minutes"}, unit) && n < 60 && 60%n == 0:
		return parseCron(text, []string{fmt.Sprintf("*/%d * * * *", n)}, false)
	case slices.Contains([]string{"m", "min", "minute", "minutes"}, unit) && n == 60:
		return parseCron(text, []string{"0 * * * *"}, false)
	case slices.Contains([]string{"h", "hour", "hours"}, unit) && n < 24 && 24%n == 0:
		return parseCron(text, []string{fmt.Sprintf("0 */%d * * *", n)}, false)
	case slices.Contains([]string{"h", "hour", "hours"}, unit) && n == 24:
		return parseCron(text, []string{"0 0 * * *"}, true)
	}
	return nil, fmt.Errorf(`%w %q: write minutes that divide an hour, or hours that divide a day, such as "every 15m" or `+
		`"every 6h"`, ErrSchedule, text)
}

// parseTimes returns the schedule of some times of day on the days of a cron field.
func parseTimes(text, days, times string) (Schedule, error) {
	var lines []string
	for one := range strings.SplitSeq(times, ",") {
		minute, err := timeOfDay(one)
		if err != nil || minute == minutesOfDay {
			return nil, fmt.Errorf("%w %q: %q is no time of day: write 00:00 to 23:59", ErrSchedule, text, one)
		}
		lines = append(lines, fmt.Sprintf("%d %d * * %s", minute%60, minute/60, days))
	}
	return parseCron(text, lines, true)
}

// parseCron returns the schedule of some lines of cron. fixed: its times are times of day, not intervals.
func parseCron(text string, lines []string, fixed bool) (Schedule, error) {
	parser, err := cron.TryNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.DowOrDom)
	if err != nil {
		return nil, fmt.Errorf("%w %q: %w", ErrSchedule, text, err)
	}
	s := &calendar{text: strings.Join(strings.Fields(text), " "), fixed: fixed}
	for _, line := range lines {
		one, err := parser.WithMaxSearchYears(searchYears).Parse(line)
		if err != nil {
			return nil, fmt.Errorf("%w %q: %w: %s", ErrSchedule, text, err, scheduleExamples)
		}
		s.lines = append(s.lines, one)
	}
	if s.wall(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return nil, fmt.Errorf("%w %q: there is no such day: %s", ErrSchedule, text, scheduleExamples)
	}
	return s, nil
}

// calendar is a schedule of times of the calendar. As in cron, a schedule of fixed times of day runs once for each of
// them: at the end of a gap that daylight saving leaves out, and in the first of two equal hours. Others go by the time
// that passes. Without lines there are no times, and the job is started by hand.
type calendar struct {
	text  string
	lines []cron.Schedule
	fixed bool
}

func (c *calendar) String() string { return c.text }

// wall returns the first time of the calendar after t. Both are clock readings, in UTC: no reading is left out or
// repeated there.
func (c *calendar) wall(t time.Time) (first time.Time) {
	for _, line := range c.lines {
		if next := line.Next(t); !next.IsZero() && (first.IsZero() || next.Before(first)) {
			first = next
		}
	}
	return first
}

// maxPeriods bounds the periods that Next looks at: those between two changes of the clock and ends of years.
const maxPeriods = 5 * searchYears

// Next implements Schedule. It looks at one period between two changes of the clock after another.
func (c *calendar) Next(t time.Time) time.Time {
	at, after := t, reading(t)
	for range maxPeriods {
		begin, end := at.ZoneBounds()
		if !end.IsZero() && !end.After(at) { // Go 1.26 ends a leap year a day early
			end = at.Add(24 * time.Hour)
		}
		offset := offsetOf(at)
		if c.fixed && !begin.IsZero() {
			// Readings of the period before are not repeated.
			repeated := reading(begin).Add(time.Duration(offsetOf(begin.Add(-1))-offset) * time.Second)
			if repeated.After(after) {
				after = repeated.Add(-1)
			}
		}
		next := c.wall(after)
		if next.IsZero() {
			return time.Time{}
		}
		instant := next.Add(-time.Duration(offset) * time.Second).In(t.Location())
		if end.IsZero() || instant.Before(end) {
			return instant
		}
		if c.fixed && next.Before(reading(end)) { // in the gap
			return end
		}
		at, after = end, reading(end).Add(-1)
	}
	return time.Time{}
}

// reading returns what a clock in t's location shows, as a time in UTC.
func reading(t time.Time) time.Time {
	return t.UTC().Add(time.Duration(offsetOf(t)) * time.Second)
}

func offsetOf(t time.Time) int {
	_, offset := t.Zone()
	return offset
}

const minutesOfDay = 24 * 60

// timeOfDay reads 02:30 as minutes since midnight; 24:00 is the end of the day.
func timeOfDay(text string) (int, error) {
	h, m, ok := strings.Cut(text, ":")
	hour, err1 := strconv.ParseUint(h, 10, 8)
	minute, err2 := strconv.ParseUint(m, 10, 8)
	total := int(hour)*60 + int(minute)
	if !ok || err1 != nil || err2 != nil || len(h) > 2 || len(m) != 2 || minute > 59 || total > minutesOfDay {
		return 0, fmt.Errorf("%q is no time of day: write it as 02:30", text)
	}
	return total, nil
}

// weekdays reads days such as sunday, or mon,thu, as the field of cron: numbers with commas between them.
func weekdays(text string) (string, error) {
	var all []string
	for one := range strings.SplitSeq(text, ",") {
		day, err := weekday(one)
		if err != nil {
			return "", err
		}
		all = append(all, strconv.Itoa(int(day)))
	}
	return strings.Join(all, ","), nil
}

// weekday reads a day in full or by its first three letters.
func weekday(text string) (time.Weekday, error) {
	for day := time.Sunday; day <= time.Saturday; day++ {
		if name := strings.ToLower(day.String()); text == name || text == name[:3] {
			return day, nil
		}
	}
	return 0, fmt.Errorf("%q is no day: write sunday, monday, ..., saturday, or sun, mon, ..., sat", text)
}
