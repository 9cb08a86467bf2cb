package memory

// fifo is a growing ring.
type fifo[T any] struct {
	buf     []T // its length is a power of two
	head, n int
}

func (f *fifo[T]) len() int { return f.n }

func (f *fifo[T]) at(i int) T { return f.buf[(f.head+i)&(len(f.buf)-1)] }

func (f *fifo[T]) push(v T) {
	if f.n == len(f.buf) {
		grown := make([]T, max(2*len(f.buf), 16))
		for i := range f.n {
			grown[i] = f.at(i)
		}
		f.buf, f.head = grown, 0
	}
	f.buf[(f.head+f.n)&(len(f.buf)-1)] = v
	f.n++
}

func (f *fifo[T]) pop() T {
	var zero T
	v := f.buf[f.head]
	f.buf[f.head] = zero
	f.head = (f.head + 1) & (len(f.buf) - 1)
	f.n--
	return v
}

// remove takes out every element for which drop is true and keeps the order of the rest.
func (f *fifo[T]) remove(drop func(T) bool) {
	for range f.n {
		if v := f.pop(); !drop(v) {
			f.push(v)
		}
	}
}
