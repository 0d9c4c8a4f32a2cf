package diskwatch

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Store is a whole disk of macOS that has counters.
type Store struct {
	Name  string // such as disk0
	Solid bool   // it has no arm; false: it has one, or that is not known, as of most USB disks
	Image bool   // a disk image, which another process reads from its file
}

// storesBelow returns the disks below a device of macOS, such as disk3s5. A volume of APFS lies in a container, a
// made-up disk without counters, which names its physical stores. info is `diskutil info -plist`.
func storesBelow(device string, info func(device string) ([]byte, error)) ([]Store, error) {
	text, err := info(device)
	if err != nil {
		return nil, err
	}
	about, err := readPlist(text)
	if err != nil {
		return nil, fmt.Errorf("diskutil info %s: %w", device, err)
	}
	var found []Store
	if below, ok := about["APFSPhysicalStores"].([]any); ok && len(below) > 0 {
		for _, one := range below {
			named, _ := one.(map[string]any)
			name, _ := named["APFSPhysicalStore"].(string)
			if name == "" || name == device {
				return nil, fmt.Errorf("diskutil info %s: %w", device, errFormat)
			}
			stores, err := storesBelow(name, info)
			if err != nil {
				return nil, err
			}
			found = append(found, stores...)
		}
		return found, nil
	}
	whole, _ := about["ParentWholeDisk"].(string)
	if whole == "" {
		return nil, fmt.Errorf("diskutil info %s: %w", device, ErrNoDisk)
	}
	if whole != device {
		return storesBelow(whole, info)
	}
	solid, _ := about["SolidState"].(bool)
	bus, _ := about["BusProtocol"].(string)
	return []Store{{Name: whole, Solid: solid, Image: bus == "Disk Image"}}, nil
}

// deviceOf returns the BSD name of what a file system was mounted from: "disk3s5" for /dev/disk3s5 and its snapshot
// com.apple.TimeMachine.2026-11-28.local@/dev/disk3s5; "" if it is none.
func deviceOf(from string) string {
	name, ok := strings.CutPrefix(from[strings.LastIndexByte(from, '@')+1:], "/dev/")
	if !ok || !strings.HasPrefix(name, "disk") {
		return ""
	}
	return name
}

// readPlist reads a property list in XML whose value is a dictionary: of strings, booleans, arrays and dictionaries.
// Other values are kept as their text.
func readPlist(text []byte) (map[string]any, error) {
	d := xml.NewDecoder(bytes.NewReader(text))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return nil, errFormat
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errFormat, err)
		}
		if start, ok := token.(xml.StartElement); ok && start.Name.Local == "dict" {
			value, err := plistValue(d, start)
			if err != nil {
				return nil, err
			}
			return value.(map[string]any), nil
		}
	}
}

// plistValue reads the value that begins with start.
func plistValue(d *xml.Decoder, start xml.StartElement) (any, error) {
	dict, array, text, key := map[string]any{}, []any{}, "", ""
	for {
		token, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errFormat, err)
		}
		switch token := token.(type) {
		case xml.CharData:
			text += string(token)
		case xml.StartElement:
			value, err := plistValue(d, token)
			if err != nil {
				return nil, err
			}
			switch {
			case token.Name.Local == "key":
				key, _ = value.(string)
			case start.Name.Local == "dict":
				dict[key] = value
			default:
				array = append(array, value)
			}
		case xml.EndElement:
			switch start.Name.Local {
			case "dict":
				return dict, nil
			case "array":
				return array, nil
			case "true", "false":
				return start.Name.Local == "true", nil
			}
			return text, nil
		}
	}
}
