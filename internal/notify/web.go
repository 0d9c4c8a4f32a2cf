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
	"time"

	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/report/event"
)

// attempts is how often a request is sent. The wait between them begins with firstPause and grows fourfold.
const (
	attempts   = 3
	firstPause = 2 * time.Second
	redirects  = 5
)

// web sends requests.
type web struct {
	client *http.Client
	pause  func(context.Context, time.Duration) error
}

func newClient() *http.Client {
	return &http.Client{Timeout: once, CheckRedirect: func(next *http.Request, before []*http.Request) error {
		switch first := before[0]; {
		case next.URL.Scheme != first.URL.Scheme:
			return errScheme
		case next.Method != first.Method:
			return errMethod
		case len(before) > redirects:
			return errLoop
		}
		return nil
	}}
}

// post sends the message as JSON to the webhook.
func (w *web) post(ctx context.Context, o *options.Notify, m *event.Notification) error {
	body, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode the message: %w", err)
	}
	return w.request(ctx, http.MethodPost, o.Webhook, body)
}

// ping requests the URL of the healthcheck, with /start or /fail behind its path.
func (w *web) ping(ctx context.Context, o *options.Notify, m *event.Notification) error {
	u, err := url.Parse(o.Healthcheck)
	if err != nil {
		return errNotHTTP
	}
	switch m.Kind {
	case started:
		u = u.JoinPath("start")
	case failed:
		u = u.JoinPath("fail")
	}
	return w.request(ctx, http.MethodGet, u.String(), nil)
}

// request sends a request until it succeeds, at most three times. An answer that blames the request is final.
func (w *web) request(ctx context.Context, method, address string, body []byte) error {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return errNotHTTP
	}
	wait := firstPause
	for i := 1; ; i++ {
		again, err := w.try(ctx, method, u, body)
		if err == nil || !again || i == attempts {
			return err
		}
		if w.pause(ctx, wait) != nil {
			return err
		}
		wait *= 4
	}
}

func (w *web) try(ctx context.Context, method string, u *url.URL, body []byte) (again bool, err error) {
	r, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return false, errNotHTTP
	}
	r.Header.Set("User-Agent", "tidemark")
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := w.client.Do(r)
	if err != nil {
		return !final(err), fmt.Errorf("%s: %w", hidden(u.String()), cause(err))
	}
	defer func() { _ = answer.Body.Close() }() // the status decides
	_, _ = io.CopyN(io.Discard, answer.Body, 64<<10)
	if answer.StatusCode/100 == 2 {
		return false, nil
	}
	again = answer.StatusCode >= 500 || answer.StatusCode == http.StatusTooManyRequests
	return again, fmt.Errorf("%s answered %d %s", hidden(u.String()), answer.StatusCode,
		http.StatusText(answer.StatusCode))
}

// final reports whether an error of a redirect ended a request.
func final(err error) bool {
	return errors.Is(err, errScheme) || errors.Is(err, errMethod) || errors.Is(err, errLoop)
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
