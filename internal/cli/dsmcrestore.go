package cli

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/browse"
	"github.com/tidemark-backup/tidemark/internal/cli/dsmc"
	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/place/unlock"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/report/show"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// deep reports whether -subdir=yes is given; the default of queries and restores is no, as in IBM's client.
func deep(command *dsmc.Command) bool { return command.Options["subdir"] == "yes" }

// dsmcVersions lists backup versions of files.
func (a *app) dsmcVersions(ctx context.Context, command *dsmc.Command) error {
	layout, err := dsmc.DateLayout(command.Options["dateformat"])
	if err != nil {
		return &usageError{err}
	}
	specs, err := fileSpecs(command.Args)
	if err != nil {
		return err
	}
	if len(specs) == 0 {
		return usagef("dsmc: query backup needs a file specification, such as '/home/*' -subdir=yes")
	}
	return a.withRepository(ctx, func(r *repo.Repository) error {
		list, err := a.dsmcSnapshots(ctx, r, command)
		if err != nil {
			return err
		}
		first := true
		for _, s := range specs {
			err := eachVersion(ctx, r, list, s, command, func(v browse.Version) error {
				record := output.FileVersion(&v, layout, first)
				first = false
				return a.print.Print(record)
			})
			if err != nil {
				return err
			}
		}
		if first {
			return errNoMatch
		}
		return nil
	})
}

// eachVersion calls visit for each backup version that a command means.
func eachVersion(ctx context.Context, r *repo.Repository, list []repo.Listed, s dsmc.Spec, command *dsmc.Command,
	visit func(v browse.Version) error,
) error {
	q := browse.VersionQuery{Dir: s.Dir, Enter: deep(command), Inactive: command.Options["inactive"] != "",
		Match: func(at string, n *tree.Node) bool { return s.Matches(path.Base(at)) && wanted(command, n.Type) }}
	return browse.Versions(ctx, r.LoadBlob, list, q, visit)
}

// wanted reports whether -filesonly and -dirsonly allow a type.
func wanted(command *dsmc.Command, typ tree.Type) bool {
	return (command.Options["filesonly"] == "" || typ != tree.Dir) &&
		(command.Options["dirsonly"] == "" || typ == tree.Dir)
}

// dsmcRestore restores the objects of a file specification.
func (a *app) dsmcRestore(ctx context.Context, command *dsmc.Command) error {
	if len(command.Args) == 0 || len(command.Args) > 2 {
		return usagef("dsmc: restore needs a file specification, and optionally a destination")
	}
	specs, err := fileSpecs(command.Args[:1])
	if err != nil {
		return err
	}
	f := &restoreFlags{sparse: true, answered: true}
	keeps := false
	if f.overwrite, keeps, err = overwriteOf(command); err != nil {
		return err
	}
	if f.dsmc.prompt = keeps && command.Options["replace"] != ""; f.dsmc.prompt && unlock.OpenTerminal(a.Err) == nil {
		return usagef("dsmc: -replace=prompt: there is no terminal to ask on: write -replace=all or -replace=no")
	}
	taken, spec := false, specs[0]
	f.dsmc.take = func(at string, typ tree.Type) (take, enter bool) {
		take, enter = takes(spec, deep(command), at, typ)
		take = take && wanted(command, typ)
		taken = taken || take
		return take, enter
	}
	choose := a.dsmcChoose
	switch picks := command.Options["pick"] != ""; {
	case picks && unlock.OpenTerminal(a.Err) == nil:
		return usagef("dsmc: -pick: there is no terminal to ask on: name the file, with -pitdate=DATE for an older version")
	case picks:
		choose = a.dsmcPick
	case command.Options["inactive"] != "":
		return usagef("dsmc: -inactive: write which version to restore: -latest, -pitdate=DATE, or -inactive -pick to choose")
	}
	f.dsmc.choose = func(ctx context.Context, r *repo.Repository) (found repo.Listed, sub string, err error) {
		if spec, found, err = choose(ctx, r, spec, command); err != nil {
			return found, "", err
		}
		f.to.Path, sub, err = destination(spec, command)
		return found, sub, err
	}
	f.to.Path = "/" // until the specification is found
	err = a.restore(ctx, f, "latest")
	if err == nil && !taken {
		return errNoMatch
	}
	if err == nil && keeps && !f.dsmc.prompt && f.dsmc.kept > 0 {
		a.print.Note(fmt.Sprintf("%s kept: -replace=all replaces them", human.Plural(f.dsmc.kept, "existing object")))
	}
	return err
}

// overwriteOf translates -replace and -ifnewer. keeps means that existing files stay although the command does not say
// so.
func overwriteOf(command *dsmc.Command) (overwrite string, keeps bool, err error) {
	if command.Options["ifnewer"] != "" {
		return "if-newer", false, nil
	}
	switch strings.ToLower(command.Options["replace"]) {
	case "all", "yes", "a", "y":
		return "always", false, nil
	case "no", "n":
		return "never", false, nil
	case "", "prompt", "p":
		return "never", true, nil
	}
	return "", false, usagef("dsmc: -replace or REPLACE: write all, yes, no or prompt")
}

// dsmcChoose returns the newest snapshot that covers a specification and has the object or its directory; with -latest
// the newest that has it. A specification of a directory is returned as that of its contents.
func (a *app) dsmcChoose(ctx context.Context, r *repo.Repository, s dsmc.Spec, command *dsmc.Command) (dsmc.Spec,
	repo.Listed, error) {
	list, err := a.dsmcSnapshots(ctx, r, command)
	if err != nil {
		return s, repo.Listed{}, err
	}
	at, covered := s.Path(), false
	for _, one := range slices.Backward(list) {
		if !slices.ContainsFunc(one.Snapshot.Sources,
			func(source string) bool { return at == path.Clean(source) || below(at, source) }) {
			continue
		}
		covered = true
		n, err := browse.Resolve(ctx, r.LoadBlob, one.Snapshot.Tree, at)
		switch {
		case errors.Is(err, browse.ErrNotFound), errors.Is(err, browse.ErrNotDir):
			if command.Options["latest"] != "" {
				continue
			}
			return s, repo.Listed{}, fmt.Errorf("%w: the newest backup of %s lacks it: -latest restores the last version, and "+
				"-pitdate that of a date", errNoMatch, human.Printable(at))
		case err != nil:
			return s, repo.Listed{}, err
		}
		if n.Type == tree.Dir {
			s = dsmc.Spec{Dir: at, Name: s.Name, Wild: true}
			if !strings.ContainsAny(s.Name, "*?") {
				s.Name = "*"
			}
		}
		return s, one, nil
	}
	if covered {
		return s, repo.Listed{}, errNoMatch
	}
	return s, repo.Listed{}, fmt.Errorf("%w: no backup of host %s covers %s: 'dsmc query filespace' lists what was "+
		"backed up, and -virtualnodename=HOST names another host", errNoMatch, dsmcHost(command), human.Printable(at))
}

// mostPicked bounds the list of -pick.
const mostPicked = 1000

// dsmcPick lists the versions that a specification means at the terminal, and returns the one that a person chooses.
func (a *app) dsmcPick(ctx context.Context, r *repo.Repository, s dsmc.Spec, command *dsmc.Command) (dsmc.Spec,
	repo.Listed, error) {
	layout, err := dsmc.DateLayout(command.Options["dateformat"])
	if err != nil {
		return s, repo.Listed{}, &usageError{err}
	}
	list, err := a.dsmcSnapshots(ctx, r, command)
	if err != nil {
		return s, repo.Listed{}, err
	}
	var all []browse.Version
	terminal := unlock.OpenTerminal(a.Err)
	err = eachVersion(ctx, r, list, s, command, func(v browse.Version) error {
		if len(all) == mostPicked {
			return usagef("dsmc: -pick: more than %d versions match: name fewer files", mostPicked)
		}
		all = append(all, v)
		var line show.Page
		output.FileVersion(&v, layout, false).Text(&line)
		terminal.Say(fmt.Sprintf("%4d %s", len(all), line.String()))
		return nil
	})
	if err != nil {
		return s, repo.Listed{}, err
	}
	if len(all) == 0 {
		return s, repo.Listed{}, errNoMatch
	}
	answer, err := terminal.Line(ctx, fmt.Sprintf("Restore which one? [1-%d, anything else ends] ", len(all)))
	if err != nil {
		return s, repo.Listed{}, err
	}
	number, err := strconv.Atoi(strings.TrimSpace(answer))
	if err != nil || number < 1 || number > len(all) {
		return s, repo.Listed{}, errors.New("no version was chosen: nothing was restored")
	}
	v := &all[number-1]
	s = dsmc.Spec{Dir: path.Dir(v.Path), Name: path.Base(v.Path)}
	if v.Node.Type == tree.Dir {
		s = dsmc.Spec{Dir: v.Path, Name: "*", Wild: true}
	}
	return s, *v.Last, nil
}

// takes is the selection of a restore: whether an object is restored, and whether the restore descends into it.
func takes(s dsmc.Spec, deep bool, at string, typ tree.Type) (take, enter bool) {
	switch {
	case at == s.Dir:
		return s.Wild && s.Name == "*" && deep, true
	case at == "/", below(s.Dir, at):
		return false, true
	case !below(at, s.Dir):
		return false, false
	case !deep && path.Dir(at) != s.Dir:
		return false, false
	}
	return s.Matches(path.Base(at)) && (deep || typ != tree.Dir), deep
}

// destination returns the target of a restore and the path inside the snapshot that is restored to it.
func destination(s dsmc.Spec, command *dsmc.Command) (target, sub string, err error) {
	if len(command.Args) < 2 {
		return "/", "", nil
	}
	target = command.Args[1]
	if !s.Wild && !strings.HasSuffix(target, "/") {
		return "", "", usagef("dsmc: end the destination %q with a slash: a file keeps its name; 'tidemark dump --target "+
			"FILE' writes it under another one", target)
	}
	switch kept := strings.ToLower(command.Options["preservepath"]); {
	case strings.HasPrefix(kept, "c"): // complete
		return target, "", nil
	case strings.HasPrefix(kept, "nob"), !s.Wild && kept == "": // nobase
		return target, s.Dir, nil
	case kept == "", strings.HasPrefix(kept, "s"): // subtree
		return path.Join(target, path.Base(s.Dir)), s.Dir, nil
	}
	return "", "", usagef("dsmc: -preservepath: write subtree, complete or nobase")
}
