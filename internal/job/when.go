package job

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Jitter returns a delay from 0 to below most that is fixed for a job of a machine.
func Jitter(machine, job string, most time.Duration) time.Duration {
	if most <= 0 {
		return 0
	}
	sum := sha256.Sum256([]byte(machine + "\x00" + job))
	return time.Duration(binary.BigEndian.Uint64(sum[:]) % uint64(most))
}

// ParseBattery reads pause, run, or a charge such as 50%: the least charge, in percent, at which a job runs on
// battery. 0: at any; above 100: at none.
func ParseBattery(text string) (least int, err error) {
	switch strings.ToLower(text) {
	case "pause":
		return 101, nil
	case "run":
		return 0, nil
	}
	number, percent := strings.CutSuffix(text, "%")
	n, err := strconv.ParseUint(number, 10, 8)
	if !percent || err != nil || n > 100 {
		return 0, fmt.Errorf("invalid value of on-battery %q: write pause, run, or a charge such as 50%%", text)
	}
	return int(n), nil
}

const (
	minutesOfWeek = 7 * minutesOfDay
	quietExamples = `write hours, days, or both, such as 09:00-17:30, "mon-fri 09:00-17:30" or sat,sun`
)

// Quiet is the hours in which no job runs, by the minutes of a week from Sunday 00:00. The zero value has none.
type Quiet []bool

// ParseQuiet reads quiet hours; each text has days, hours or both.
func ParseQuiet(texts []string) (Quiet, error) {
	if len(texts) == 0 {
		return nil, nil
	}
	q := make(Quiet, minutesOfWeek)
	for _, text := range texts {
		if err := q.add(text); err != nil {
			return nil, fmt.Errorf("invalid quiet hours %q: %w", text, err)
		}
	}
	if slices.Contains(q, false) {
		return q, nil
	}
	return nil, fmt.Errorf("invalid quiet hours %q: they leave no time for a run", strings.Join(texts, ", "))
}

// add adds the hours of a text.
func (q Quiet) add(text string) error {
	fields := strings.Fields(strings.ToLower(text))
	if len(fields) == 0 || len(fields) > 2 {
		return fmt.Errorf("%s", quietExamples)
	}
	days, hours := "sun-sat", "00:00-24:00"
	switch {
	case len(fields) == 2:
		days, hours = fields[0], fields[1]
	case strings.Contains(fields[0], ":"):
		hours = fields[0]
	default:
		days = fields[0]
	}
	from, to, ok := strings.Cut(hours, "-")
	begin, err1 := timeOfDay(from)
	end, err2 := timeOfDay(to)
	if !ok || err1 != nil || err2 != nil || begin == end || begin == minutesOfDay {
		return fmt.Errorf("%q are no hours: %s", hours, quietExamples)
	}
	if end < begin {
		end += minutesOfDay
	}
	for one := range strings.SplitSeq(days, ",") {
		first, last, isRange := strings.Cut(one, "-")
		if !isRange {
			last = first
		}
		from, err := weekday(first)
		if err != nil {
			return err
		}
		to, err := weekday(last)
		if err != nil {
			return err
		}
		for day := from; ; day = (day + 1) % 7 {
			for minute := begin; minute < end; minute++ {
				q[(int(day)*minutesOfDay+minute)%minutesOfWeek] = true
			}
			if day == to {
				break
			}
		}
	}
	return nil
}

// Until returns the end of the quiet hours in which t is; zero: t is in none.
func (q Quiet) Until(t time.Time) time.Time {
	if !q.at(t) {
		return time.Time{}
	}
	at := t.Truncate(time.Minute)
	for range minutesOfWeek + minutesOfDay { // a week, and the hours that a change of the clock repeats
		if at = at.Add(time.Minute); !q.at(at) {
			break
		}
	}
	return at
}

func (q Quiet) at(t time.Time) bool {
	return len(q) > 0 && q[int(t.Weekday())*minutesOfDay+t.Hour()*60+t.Minute()]
}
