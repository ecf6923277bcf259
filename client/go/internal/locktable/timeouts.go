// SPDX-License-Identifier: Apache-2.0

package locktable

import (
	"container/heap"
	"time"
)

// timeout is a request's entry among those that are given up at a time. index -1: it has none.
type timeout struct {
	at    time.Duration
	index int
}

// timeouts is a heap of the requests with a timeout, for container/heap.
type timeouts []*Request

func (h timeouts) Len() int           { return len(h) }
func (h timeouts) Less(i, j int) bool { return h[i].timeout.at < h[j].timeout.at }
func (h timeouts) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].timeout.index, h[j].timeout.index = i, j
}

// Push is for container/heap.
func (h *timeouts) Push(one any) {
	request := one.(*Request)
	request.timeout.index = len(*h)
	*h = append(*h, request)
}

// Pop is for container/heap.
func (h *timeouts) Pop() any {
	last := len(*h) - 1
	request := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	request.timeout.index = -1
	return request
}

// patience is for how long a broker is looked for.
func (t *Table) patience(request *Request) time.Duration {
	switch {
	case t.config.UnreachableAfter > 0:
		return t.config.UnreachableAfter
	case request.oneTry:
		return time.Second
	case request.waitUntil == Never:
		return 10 * time.Second
	default:
		return request.waitUntil - request.stranded
	}
}

// schedule sets when a waiting request is given up.
func (t *Table) schedule(request *Request) {
	at := request.waitUntil
	if request.stranded != Never {
		at = min(at, request.stranded+t.patience(request))
	} else if at != Never {
		at += answerGrace
	}
	if at == request.timeout.at {
		return
	}
	request.timeout.at = at
	switch {
	case at == Never:
		t.unschedule(request)
	case request.timeout.index >= 0:
		heap.Fix(&t.timeouts, request.timeout.index)
	default:
		heap.Push(&t.timeouts, request)
	}
	t.wakeAt(at)
}

func (t *Table) unschedule(request *Request) {
	if request.timeout.index >= 0 {
		heap.Remove(&t.timeouts, request.timeout.index)
	}
	request.timeout.at = Never
}
