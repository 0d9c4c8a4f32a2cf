// Package wary goes through the buckets of a file that may be overwritten at any moment. It refuses to know what is in them.
//
// A cursor of bbolt that is sent to the first or last entry follows pages until one is a leaf, and does not ask what else
// they are. A small bucket lies in the page of the one above it; once that is filled with zeros, its page leads to itself, and
// the cursor follows it for ever, remembering each step. A search looks at what it meets, and panics, which can be caught.
package wary

import bolt "go.etcd.io/bbolt"

// First is c.First.
func First(c *bolt.Cursor) (key, value []byte) { return c.Seek(nil) }

// Last is c.Last, after the page of the bucket was looked at.
func Last(c *bolt.Cursor) (key, value []byte) {
	if first, _ := First(c); first == nil {
		return nil, nil
	}
	return c.Last()
}

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
