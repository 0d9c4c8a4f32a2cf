package cachefile

import bolt "go.etcd.io/bbolt"

// Safe cursors. bbolt's own First and Last follow branch pages until they reach a leaf, and do not check page types. If
// the file is overwritten with zeros while it is mapped, the root page of a small bucket refers to itself: First and
// Last then loop and allocate without bound. Seek checks the page type and panics, which File.guard recovers.

// First is c.First.
func First(c *bolt.Cursor) (key, value []byte) { return c.Seek(nil) }

// Each is b.ForEach.
func Each(b *bolt.Bucket, visit func(key, value []byte) error) error {
	c := b.Cursor()
	for k, v := First(c); k != nil; k, v = c.Next() {
		if err := visit(k, v); err != nil {
			return err
		}
	}
	return nil
}
