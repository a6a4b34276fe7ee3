package results

import "syscall"

// What a full or broken disk says. Such errors end a trial; all others concern
// one name.
var (
	errNoSpace      error = syscall.ENOSPC
	errReadOnly     error = syscall.EROFS
	errTooManyFiles error = syscall.EMFILE
)
