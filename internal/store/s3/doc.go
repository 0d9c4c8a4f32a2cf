// Package s3 is a store in a bucket of an S3 server.
//
// # Objects
//
// A file is one object, whose key is the prefix of the repository and the path of the name. It is sent in one request
// with its SHA-256, which the server compares before it stores anything; a sum in a trailer is never used. There are
// no multipart uploads, so an object is never visible in part.
//
// Packs of data may have a storage class of their own. All other files are read by every command.
//
// # Names that only one writer gets
//
// PutNew and Fence send If-None-Match: *. What that is worth depends on the server: see docs/stores.md. A fence is an
// object of the lease's key with the bytes of marker. No lease has these bytes, and copies of the bucket keep them,
// which they may not do with metadata. A lease is replaced only with If-Match, so that a fence is never replaced.
//
// # Lost answers
//
// Each put has a random tag in the metadata of its object. If the answer is lost, the store reads the tag back once:
// the object with this tag is its own. If that cannot be done either, the tag is kept for the next PutNew of the
// name. Package retry repeats operations; the library does not.
//
// # The gate
//
// Each request is an operation of the gate, from its beginning until its answer is read. It is not cut to what the gate
// allows, since a server ends requests that pause.
package s3
