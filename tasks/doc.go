// Package tasks reads Harbor's task directories: task.toml in every form from
// 1.0 to 1.4, the files around it, and the digests that identify a task.
//
// It only reads, except for Init. It knows no providers and no trials: whether
// something can run a task is answered by comparing Task.Needs with what the
// caller can do.
//
//	Load   one directory → *Task, or the problems that forbid it
//	Find   what a user named → all tasks below, good and bad
//	Check  everything that is wrong or doubtful, for people who write tasks
//	Init   a new task that runs as it is
//
// A Task is immutable after Load and may be shared between goroutines.
package tasks
