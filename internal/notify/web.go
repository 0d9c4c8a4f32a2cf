package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/report/event"
)

// redirects is how many are followed.
const redirects = 5

// checkRedirect refuses those that may lose or expose the message.
func checkRedirect(next *http.Request, before []*http.Request) error {
	switch first := before[0]; {
	case next.URL.Scheme != first.URL.Scheme:
		return errors.New("it redirects to another scheme, which is not followed")
	case next.Method != first.Method:
		return errors.New("it redirects in a way that loses the message; name the new address")
	case len(before) > redirects:
		return errors.New("too many redirects")
	}
	return nil
}

// post sends the message as JSON to the webhook.
func post(ctx context.Context, o *options.Notify, m *event.Notification) error {
	body, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode the message: %w", err)
	}
	return request(ctx, http.MethodPost, o.Webhook, body)
}

// ping requests the URL of the healthcheck, with /start or /fail behind its path.
func ping(ctx context.Context, o *options.Notify, m *event.Notification) error {
	u, err := url.Parse(o.Healthcheck)
	if err != nil {
		return errNotHTTP
	}
	switch m.Kind {
	case started:
		u = u.JoinPath("start")
	case failed:
		u = u.JoinPath("fail")
	case test:
		u = u.JoinPath("log") // neither a success nor a failure
	}
	return request(ctx, http.MethodGet, u.String(), nil)
}

// request sends a request once.
func request(ctx context.Context, method, address string, body []byte) error {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return errNotHTTP
	}
	r, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return errNotHTTP
	}
	r.Header.Set("User-Agent", "tidemark")
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	client := &http.Client{Timeout: once, CheckRedirect: checkRedirect} // all have the same connections
	answer, err := client.Do(r)
	if err != nil {
		return fmt.Errorf("%s: %w", hidden(u.String()), cause(err))
	}
	defer func() { _ = answer.Body.Close() }() // the status decides
	_, _ = io.CopyN(io.Discard, answer.Body, 64<<10)
	if answer.StatusCode/100 == 2 {
		return nil
	}
	return fmt.Errorf("%s answered %d %s", hidden(u.String()), answer.StatusCode, http.StatusText(answer.StatusCode))
}

// cause returns why a request failed. The error around it has the whole URL, which can be a secret, and so can that of
// a redirect.
func cause(err error) error {
	var outer *url.Error
	if errors.As(err, &outer) {
		err = outer.Err
	}
	switch {
	case outer != nil && outer.Timeout():
		return fmt.Errorf("no answer within %v", once)
	case strings.Contains(err.Error(), "Location"):
		return errors.New("it redirects to no valid address")
	}
	return err
}

// hidden returns scheme and host of a URL. User, path and query may be secrets: addresses of webhooks and healthchecks
// have a key in the path.
func hidden(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return "the URL"
	}
	return u.Scheme + "://" + u.Host
}
