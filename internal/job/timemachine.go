package job

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// ImportTimeMachine returns a job that backs up what Time Machine does by default, hourly, without the excluded paths.
// settings are as `defaults export` prints them, destinations as `tmutil destinationinfo -X` does.
func ImportTimeMachine(name string, settings, destinations []byte) (*Imported, error) {
	i := &Imported{Name: name, Lines: []string{
		scheduleKeyword + " hourly", "KEEPSNAPSHOTS time-machine", "DOMAIN /Applications /Library /Users",
	}}
	root, err := parsePlist(settings)
	if err != nil {
		return nil, fmt.Errorf("read the settings of Time Machine: %w", err)
	}
	var skip []string
	for _, key := range []string{"SkipPaths", "ExcludeByPath"} {
		for _, path := range root.get(key).texts() {
			if strings.HasPrefix(path, "/") && !slices.Contains(skip, path) {
				skip = append(skip, path)
			}
		}
	}
	for _, path := range skip {
		if strings.ContainsAny(path, "\"\n\r") {
			i.Notes = append(i.Notes, fmt.Sprintf("the excluded path %q cannot stand in an option file: exclude it by a "+
				"pattern", path))
			continue
		}
		i.Lines = append(i.Lines, `EXCLUDEPATTERN "`+strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`,
			`\[`).Replace(path)+`"`)
	}
	if root, err = parsePlist(destinations); err != nil {
		return nil, fmt.Errorf("read the destinations of Time Machine: %w", err)
	}
	for _, one := range root.get("Destinations").items {
		text := one.get("Name").text
		for _, key := range []string{"MountPoint", "URL"} {
			if where := one.get(key).text; where != "" {
				text += " at " + where
			}
		}
		i.Notes = append(i.Notes, "Time Machine backs up to "+text+"; the job uses --repo")
	}
	return i, nil
}

// plist is a value of a property list.
type plist struct {
	text  string
	keys  []string // of a dictionary, for items
	items []*plist // of an array or a dictionary
}

// get returns the value of a key, an empty one without it.
func (p *plist) get(key string) *plist {
	if i := slices.Index(p.keys, key); i >= 0 && i < len(p.items) {
		return p.items[i]
	}
	return &plist{}
}

// parsePlist reads a property list in XML.
func parsePlist(content []byte) (*plist, error) {
	d := xml.NewDecoder(bytes.NewReader(content))
	root := &plist{}
	open := []*plist{root}
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("no property list in XML: %w", err)
		}
		top := open[len(open)-1]
		switch token := token.(type) {
		case xml.StartElement:
			one := &plist{}
			if token.Name.Local != "key" && token.Name.Local != "plist" {
				top.items = append(top.items, one)
			} else if token.Name.Local == "plist" {
				one = root
			}
			open = append(open, one)
		case xml.CharData:
			top.text += string(token)
		case xml.EndElement:
			open = open[:len(open)-1]
			if token.Name.Local == "key" {
				parent := open[len(open)-1]
				parent.keys = append(parent.keys, top.text)
			}
		}
	}
	if len(root.items) != 1 {
		return nil, errors.New("no property list in XML: it has no value")
	}
	return root.items[0], nil
}
