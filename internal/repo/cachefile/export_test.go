package cachefile

import (
	"os"

	bolt "go.etcd.io/bbolt"
)

const (
	FaultAround = faultAround
	ResidentMax = residentMax
)

func (f *File) DB() *bolt.DB { return f.db }

func (f *File) OSFile() *os.File { return f.file }

func (f *File) Damaged() bool { return f.damaged.Load() }

func (f *File) Mapped() *residence { return &f.mapped }

func (r *residence) SetMax(n int64) { r.max.Store(n) }

func (r *residence) Max() int64 { return r.limit() }

func (r *residence) Reset() { r.touches.Store(0) }

func (r *residence) Released() int64 { return r.released.Load() }

func SetLayout(f *File, n uint32) error {
	return f.Update("test", func(tx *bolt.Tx) error { return Bucket(tx, bucketMeta).Put([]byte(metaLayout), Number(n)) })
}

const Layout = layout
