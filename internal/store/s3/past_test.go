package s3_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/s3"
	"github.com/tidemark-backup/tidemark/internal/test/s3test"
)

// listed is a version as S3 lists it: with a time in whole seconds, and an ID that says nothing.
type listed struct {
	key, id string
	second  int
	removed bool
}

func (l listed) xml() string {
	what := "Version"
	if l.removed {
		what = "DeleteMarker"
	}
	return fmt.Sprintf("<%s><Key>%s</Key><VersionId>%s</VersionId><LastModified>2026-11-20T14:00:%02d.000Z</LastModified>"+
		"<Size>%d</Size></%[1]s>", what, l.key, l.id, l.second, len(l.id))
}

// amazon serves versions, two in an answer. The content of each is its ID.
func amazon(t *testing.T, all []listed) s3.Target {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		switch {
		case q.Has("versioning"):
			_, _ = fmt.Fprint(w, "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>")
		case q.Has("versions"):
			text, n := "", 0
			for i, l := range all {
				if !strings.HasPrefix(l.key, q.Get("prefix")) || fmt.Sprint(i) < q.Get("version-id-marker") {
					continue
				}
				if n++; n > 2 {
					text += fmt.Sprintf("<IsTruncated>true</IsTruncated><NextKeyMarker>%s</NextKeyMarker>"+
						"<NextVersionIdMarker>%d</NextVersionIdMarker>", l.key, i)
					break
				}
				text += l.xml()
			}
			_, _ = fmt.Fprintf(w, "<ListVersionsResult>%s</ListVersionsResult>", text)
		default:
			http.ServeContent(w, r, "", time.Unix(1, 0), strings.NewReader(q.Get("versionId")))
		}
	}))
	t.Cleanup(server.Close)
	return s3.Target{Endpoint: strings.TrimPrefix(server.URL, "http://"), Bucket: s3test.Bucket}
}

// TestThePastOfAmazonsBuckets: of two versions of one second the one that is listed first is newer.
func TestThePastOfAmazonsBuckets(t *testing.T) {
	at := amazon(t, []listed{
		{"packs/a0/a0", "junk", 30, false}, {"packs/a0/a0", "gone", 30, true}, {"packs/a0/a0", "newer", 10, false},
		{"packs/a0/a0", "older", 10, false}, {"packs/b0/b0", "back", 20, false}, {"packs/b0/b0", "gone", 10, true},
		{"packs/b0/other", "foreign", 1, false}, {"trees/a1", "tree", 5, false},
	})
	for second, want := range map[int]map[string]string{
		5: {}, 6: {"a1": "tree"}, 11: {"a1": "tree", "a0": "newer"}, 30: {"a1": "tree", "a0": "newer", "b0": "back"},
		31: {"a1": "tree", "a0": "junk", "b0": "back"},
	} {
		requests := &s3.Requests{}
		past, err := s3.OpenBefore(t.Context(), at, s3.Options{Keys: keys(), Plain: true, Requests: requests},
			time.Date(2026, 11, 20, 14, 0, second, 999, time.UTC))
		require.NoError(t, err)
		found := make(map[string]string)
		for info, err := range past.List(t.Context(), store.Pack) {
			require.NoError(t, err)
			data := make([]byte, info.Size)
			require.NoError(t, past.Get(t.Context(), info.Name, 0, data))
			found[info.Name.ID] = string(data)
		}
		require.Equal(t, want, found, "before second %d", second)
		require.EqualValues(t, len(want), requests.Get.Load())
		require.EqualValues(t, 1+4+1, requests.Other.Load(), "each folder is listed once, page by page")
	}
}
