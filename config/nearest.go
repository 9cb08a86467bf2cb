package config

import "strings"

// nearest returns the known word that was most likely meant: the same but for case, or a few slips away.
func nearest(word string, known []string) (string, bool) {
	best, least := "", max(1, len(word)/3)+1
	for _, k := range known {
		if strings.EqualFold(k, word) {
			return k, true
		}
		if n := slips(strings.ToLower(word), k); n < least && n < len(k) {
			best, least = k, n
		}
	}
	return best, best != ""
}

// slips counts the letters to insert, delete, replace or swap with a neighbour to get from a to b.
func slips(a, b string) int {
	if len(a) > maxEcho {
		return len(a)
	}
	var before, last []int
	for i := range len(a) + 1 {
		row := make([]int, len(b)+1)
		for j := range row {
			switch {
			case i == 0:
				row[j] = j
			case j == 0:
				row[j] = i
			default:
				differ := 1
				if a[i-1] == b[j-1] {
					differ = 0
				}
				row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+differ)
				if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
					row[j] = min(row[j], before[j-2]+1)
				}
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
