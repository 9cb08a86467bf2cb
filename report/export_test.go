package report

// FailBefore makes s call f before each of its operations.
func FailBefore(s *Store, f func(op string) error) { s.before = f }
