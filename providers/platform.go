package providers

import "fmt"

// PlatformError says that an image is for another platform than the place where it
// was to run, which cannot emulate it. Errors that carry one are KindUnsupported.
type PlatformError struct {
	Image, Host string // as "linux/arm64"
	Err         error
}

func (e *PlatformError) Error() string {
	return fmt.Sprintf("the image is for %s and the engine runs %s, without emulation: build it for %s, or install emulation there (binfmt, qemu-user): %v",
		e.Image, e.Host, e.Host, e.Err)
}

func (e *PlatformError) Unwrap() error { return e.Err }
