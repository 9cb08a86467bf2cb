// Package signals turns OS signals into graceful, force and abandon.
//
// It knows which signal asks for what, and remembers what was asked before. It does not know what is being ended: it asks a
// [Target]. It imports no sibling; its channel and its clock are injected, so that tests need no process.
package signals
