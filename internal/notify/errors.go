package notify

import "errors"

var (
	errNotHTTP = errors.New("not an http or https URL")
	errDesktop = errors.New("this user has no desktop session here")
)
