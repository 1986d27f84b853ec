module sallyport.dev/e2e/peers/link-relay

go 1.25.0

require (
	github.com/openziti/channel/v4 v4.3.9
	github.com/openziti/identity v1.0.128
	github.com/openziti/transport/v2 v2.0.215
	github.com/sirupsen/logrus v1.9.4
)

require (
	github.com/fsnotify/fsnotify v1.8.0 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/mattn/go-colorable v0.1.14 // indirect
	github.com/mattn/go-isatty v0.0.20 // indirect
	github.com/mgutz/ansi v0.0.0-20200706080929-d51e80ef957d // indirect
	github.com/michaelquigley/pfxlog v0.6.10 // indirect
	github.com/miekg/pkcs11 v1.1.1 // indirect
	github.com/openziti/foundation/v2 v2.0.90 // indirect
	github.com/parallaxsecond/parsec-client-go v0.0.0-20221025095442-f0a77d263cf9 // indirect
	github.com/pkg/errors v0.9.1 // indirect
	github.com/speps/go-hashids v2.0.0+incompatible // indirect
	golang.org/x/crypto v0.49.0 // indirect
	golang.org/x/net v0.52.0 // indirect
	golang.org/x/sys v0.42.0 // indirect
	golang.org/x/term v0.41.0 // indirect
	google.golang.org/protobuf v1.36.11 // indirect
)
