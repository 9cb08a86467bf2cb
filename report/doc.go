// Package report holds the ShutdownReport: plain data, its classification, its one serialisation, its schema, its text and
// the store that puts it on disk.
//
// It knows the document and nothing else: no clock, no broker, no running thing. Everything that judges is a pure function
// of the document, so that a report read back from disk is judged the way it was when it was sealed. It imports no sibling.
//
//	observations ──> Seal: clean, Judge, Normalize, digest ──> bytes ──> Store.Save
//	                                                             │
//	                        Text, Check, RollUp <── Parse <──────┴── VerifyDigest
//
// Whoever observes fills a ShutdownReport, by value and without judging it, and seals it. The bytes that Seal returns are the
// report; whoever reads them needs only this package, or the schema.
package report
