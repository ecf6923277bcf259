module distlock.dev/client/conformance/drivers/go

go 1.23.0

require distlock.dev/client/go v0.0.0

replace distlock.dev/client/go => ../../../go
