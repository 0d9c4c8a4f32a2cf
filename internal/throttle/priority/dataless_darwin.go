package priority

import "fmt"

// FetchNothing has the kernel refuse to fetch the content of dataless objects for this process and those that it
// starts from then on.
func FetchNothing() error {
	if err := fetchNothing(iopolicysys); err != nil {
		return fmt.Errorf("turn off fetching from the cloud: %w", err)
	}
	return nil
}
