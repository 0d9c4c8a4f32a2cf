package setup

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/report/human"
)

// ErrAnswers: the same question got too many answers without meaning.
var ErrAnswers = errors.New("no valid answer; run 'tidemark setup' again")

// Person answers questions.
type Person interface {
	// Line shows the prompt and returns what was typed.
	Line(ctx context.Context, prompt string) (string, error)
	// Say shows a text.
	Say(text string)
}

// tries is how often a question is repeated after an answer without meaning.
const tries = 5

// Dialog asks a person for answers.
type Dialog struct {
	Person Person
	System System
	Home   string // the home folder, "" for none
}

// choose repeats a question until take accepts the answer. take returns the message about one that it does not accept.
func (d *Dialog) choose(ctx context.Context, prompt string, take func(typed string) (problem string, err error)) error {
	for range tries {
		typed, err := d.Person.Line(ctx, prompt)
		if err != nil {
			return err
		}
		problem, err := take(strings.TrimSpace(typed))
		if problem == "" || err != nil {
			return err
		}
		d.Person.Say("   " + problem + "\n")
	}
	return ErrAnswers
}

// Yes asks for yes or no; Enter is def.
func (d *Dialog) Yes(ctx context.Context, question string, def bool) (yes bool, err error) {
	hint := " [y/N]: "
	if def {
		hint = " [Y/n]: "
	}
	err = d.choose(ctx, question+hint, func(typed string) (string, error) {
		switch strings.ToLower(typed) {
		case "":
			yes = def
		case "y", "yes":
			yes = true
		case "n", "no":
			yes = false
		default:
			return "Type y or n.", nil
		}
		return "", nil
	})
	return yes, err
}

// Sources asks what is backed up.
func (d *Dialog) Sources(ctx context.Context, proposed []string) ([]string, error) {
	d.Person.Say("\nWhat to back up\n")
	for _, path := range proposed {
		d.Person.Say("   " + human.Printable(path) + "\n")
	}
	var all []string
	prompt := "Enter accepts, or type a folder: "
	if len(proposed) == 0 {
		prompt = "Folder: "
	}
	for {
		done := false
		err := d.choose(ctx, prompt, func(typed string) (string, error) {
			if typed == "" && len(all) == 0 && len(proposed) == 0 {
				return "Type the path of a folder.", nil
			}
			if done = typed == ""; done {
				return "", nil
			}
			path, problem := d.source(typed)
			if problem == "" && !slices.Contains(all, path) {
				all = append(all, path)
			}
			return problem, nil
		})
		switch {
		case err != nil:
			return nil, err
		case done && len(all) == 0:
			return proposed, nil
		case done:
			return all, nil
		}
		prompt = "Another folder (Enter: no more): "
	}
}

// source returns the absolute path of a source that exists.
func (d *Dialog) source(typed string) (path, problem string) {
	path, err := filepath.Abs(d.expand(typed))
	if err != nil {
		return "", err.Error()
	}
	v, err := d.System.Look(path)
	switch {
	case err != nil:
		return "", human.Printable(err.Error())
	case v.Missing:
		return "", human.Printable(typed) + " does not exist: check the path."
	case v.Target != "":
		return "", human.Printable(typed) + " is a symbolic link: name what it leads to: " + human.Printable(v.Target)
	}
	return path, ""
}

// expand replaces "~" at the beginning of a path.
func (d *Dialog) expand(path string) string {
	if rest, ok := strings.CutPrefix(path+"/", "~/"); ok && d.Home != "" {
		return filepath.Join(d.Home, rest)
	}
	return path
}

// Exclude asks whether the proposed patterns are excluded.
func (d *Dialog) Exclude(ctx context.Context, patterns []string) (bool, error) {
	d.Person.Say("\nWhat to leave out\n   folders that programs mark as caches (CACHEDIR.TAG)\n")
	for _, pattern := range patterns {
		d.Person.Say("   " + human.Printable(pattern) + "\n")
	}
	return d.Yes(ctx, "Leave these out?", true)
}

// Target asks where the repository is. current is the one in use, or the last resort.
func (d *Dialog) Target(ctx context.Context, places []Place, current string, sources []string) (target string,
	err error) {
	d.Person.Say("\nWhere to\n")
	for i, p := range places {
		d.Person.Say(fmt.Sprintf("%3d  %s\n     %s\n", i+1, human.Printable(p.Repository), p.Text()))
		if p.SameDisk != "" {
			d.Person.Say("     " + OnSameDisk(p.SameDisk) + "\n")
		}
	}
	known := slices.IndexFunc(places, func(p Place) bool { return p.Repository == current })
	choice := strconv.Itoa(known + 1)
	if known < 0 && current != "" {
		choice = strconv.Itoa(len(places) + 1)
		d.Person.Say(fmt.Sprintf("%3s  %s\n", choice, human.Printable(current)))
		if same := d.onSameDisk(current, sources); same != "" {
			d.Person.Say("     " + same + "\n")
		}
		places = append(places[:len(places):len(places)], Place{Repository: current})
	}
	if len(places) > 1 && known < 0 && d.onSameDisk(current, sources) != "" {
		choice = "1" // a disk of its own is better than the home folder
	}
	if len(places) == 0 {
		choice = ""
	}
	prompt := "Number, folder or address (smb://, s3://, sftp://): "
	if choice != "" {
		prompt = fmt.Sprintf("Number, folder or address (smb://, s3://, sftp://) [%s]: ", choice)
	}
	err = d.choose(ctx, prompt, func(typed string) (problem string, err error) {
		if typed == "" {
			typed = choice
		}
		target, problem, err = d.target(ctx, typed, places, sources)
		return problem, err
	})
	return target, err
}

// onSameDisk returns the warning for a location on the disk of a source, "" without one.
func (d *Dialog) onSameDisk(location string, sources []string) string {
	if !filepath.IsAbs(location) {
		return ""
	}
	if source := SameDisk(d.System, location, sources); source != "" {
		return OnSameDisk(source)
	}
	return ""
}

// target reads an answer about the place of the repository.
func (d *Dialog) target(ctx context.Context, typed string, places []Place, sources []string) (target, problem string,
	err error) {
	n, notNumber := strconv.Atoi(typed)
	switch {
	case typed == "":
		return "", "Type a number or a folder.", nil
	case notNumber == nil && (n < 1 || n > len(places)):
		return "", fmt.Sprintf("Type a number from 1 to %d, or a folder.", len(places)), nil
	case notNumber == nil:
		target = places[n-1].Repository
	case strings.Contains(typed, ":/") || strings.HasPrefix(typed, "//") || strings.HasPrefix(typed, `\\`):
		return typed, "", nil // an address, or a mistake that its parser explains
	default:
		folder, err := filepath.Abs(d.expand(typed))
		if err != nil {
			return "", err.Error(), nil
		}
		v, err := d.System.Look(folder)
		if err != nil {
			return "", human.Printable(err.Error()), nil
		}
		if !v.Folder {
			return "", human.Printable(folder) + " is not a folder.", nil
		}
		target = Repository(d.System, folder)
	}
	if same := d.onSameDisk(target, sources); same != "" {
		d.Person.Say("   " + same + "\n")
		yes, err := d.Yes(ctx, "Use it all the same?", false)
		if err != nil || !yes {
			return "", "Choose another place.", err
		}
	}
	return target, "", nil
}

// Policy asks how gently backups run.
func (d *Dialog) Policy(ctx context.Context, current string) (policy string, err error) {
	choices := policies()
	d.Person.Say("\nHow gently\n")
	chosen := 0
	for i, c := range choices {
		d.Person.Say(fmt.Sprintf("%3d  %-10s %s\n", i+1, c[0], c[1]))
		if c[0] == current {
			chosen = i
		}
	}
	err = d.choose(ctx, fmt.Sprintf("Number or name [%d]: ", chosen+1), func(typed string) (string, error) {
		if typed == "" {
			typed = choices[chosen][0]
		}
		for i, c := range choices {
			if typed == strconv.Itoa(i+1) || strings.EqualFold(typed, c[0]) {
				policy = c[0]
				return "", nil
			}
		}
		return fmt.Sprintf("Type a number from 1 to %d.", len(choices)), nil
	})
	return policy, err
}

// policies describes the values of the option policy.
func policies() [][2]string {
	return [][2]string{
		{"auto", "the first backup as utility, later ones as throttle"},
		{"important", "never yields to other programs"},
		{"standard", "yields to important programs"},
		{"utility", "yields, and still finishes soon"},
		{"throttle", "yields to all other programs"},
	}
}

// Schedule asks how often the service backs up. current is the schedule of the option file, "" for none. check returns
// why a schedule is not valid. The answer is "" if there is no schedule and none is wanted.
func (d *Dialog) Schedule(ctx context.Context, current string, check func(string) error) (schedule string, err error) {
	d.Person.Say("\nHow often\n  1  hourly\n  2  daily at a time, such as 02:30\n  3  by hand\n")
	byHand, choice := "", "hourly"
	if current != "" {
		byHand, choice = "never", current
	}
	err = d.choose(ctx, "Number, time or schedule ["+human.Printable(choice)+"]: ", func(typed string) (string, error) {
		switch typed {
		case "":
			schedule = choice
		case "1":
			schedule = "hourly"
		case "2":
			return "Type the time, such as 02:30.", nil
		case "3", "by hand", "never":
			schedule = byHand
			return "", nil
		default:
			schedule = typed
			if check("daily "+typed) == nil {
				schedule = "daily " + typed
			}
		}
		if err := check(schedule); err != nil {
			return human.Printable(err.Error()), nil
		}
		return "", nil
	})
	return schedule, err
}

// Keep asks which snapshots stay. check returns why a policy is not valid.
func (d *Dialog) Keep(ctx context.Context, check func(string) error) (keep string, err error) {
	d.Person.Say("\nWhat to keep\n  1  time-machine: all of a day, each day of a month, then each week\n" +
		"  2  all: for ever\n")
	err = d.choose(ctx, "Number, or such as last 3 daily 30 weekly 520 [1]: ", func(typed string) (string, error) {
		switch typed {
		case "", "1":
			keep = DefaultKeep
		case "2":
			keep = "all"
		default:
			keep = typed
		}
		if err := check(keep); err != nil {
			return human.Printable(err.Error()), nil
		}
		return "", nil
	})
	return keep, err
}

// DefaultKeep is the proposal for the snapshots to keep.
const DefaultKeep = "time-machine"

// RequireMounts asks whether the mount points that sources lie on must be mounted in each backup.
func (d *Dialog) RequireMounts(ctx context.Context, mounts []string) (bool, error) {
	d.Person.Say("\nDisks that must be mounted\n")
	for _, at := range mounts {
		d.Person.Say("   " + human.Printable(at) + "\n")
	}
	return d.Yes(ctx, "Report it when one is not?", true)
}

// Recovery asks for the last group of the recovery key. confirm compares it; right reports that it was right, and false
// that the person will do it later.
func (d *Dialog) Recovery(ctx context.Context, confirm func(typed string) error) (right bool, err error) {
	err = d.choose(ctx, "Write the key down, then type its last group (Enter: later): ",
		func(typed string) (string, error) {
			if typed == "" {
				return "", nil
			}
			if err := confirm(typed); err != nil {
				return err.Error(), nil
			}
			right = true
			return "", nil
		})
	if errors.Is(err, ErrAnswers) {
		return false, nil
	}
	return right, err
}
