// A client of the peer's Go SDK that dials one service for every TCP connection it accepts, as an application would: what it reports of its
// posture is the SDK's own doing.
//
//	posture-client IDENTITY-FILE SERVICE PORT OS-VERSION DOMAIN [legacy]
//		prints "ready", then "dial refused: …" for each dial that fails; "legacy" = an API session with an opaque token also where the
//		controller offers OIDC
//	posture-client wait
//		does nothing until it is ended: a process to be watched
//	posture-client flow-host IDENTITY-FILE SERVICE CONNECTIONS
//	posture-client flow-dial IDENTITY-FILE SERVICE PORT CONNECTIONS
//		carries circuits with the SDK's own flow control, over so many TCP connections to each router ("3+1": and one more
//		for control messages only); prints "ready"
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"time"

	"github.com/openziti/sdk-golang/ziti"
	"github.com/openziti/sdk-golang/ziti/edge/posture"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "wait" {
		time.Sleep(time.Hour)
		return
	}
	if len(os.Args) == 5 && os.Args[1] == "flow-host" {
		flowHost(os.Args[2], os.Args[3], os.Args[4])
		return
	}
	if len(os.Args) == 6 && os.Args[1] == "flow-dial" {
		flowDial(os.Args[2], os.Args[3], os.Args[4], os.Args[5])
		return
	}
	if len(os.Args) < 6 {
		fail(fmt.Errorf("expected IDENTITY-FILE SERVICE PORT OS-VERSION DOMAIN [legacy]"))
	}
	service := os.Args[2]
	context := open(os.Args[1], os.Args[4], os.Args[5], len(os.Args) > 6 && os.Args[6] == "legacy")
	listener, err := net.Listen("tcp", "127.0.0.1:"+os.Args[3])
	fail(err)
	fmt.Println("ready")
	for {
		local, err := listener.Accept()
		fail(err)
		go carry(context, service, local)
	}
}

// open logs in and loads the services; they are asked for again every second. Not every system has a version or a domain that the SDK finds.
func open(identityFile, version, domain string, isLegacy bool) ziti.Context {
	config, err := ziti.NewConfigFromFile(identityFile)
	fail(err)
	context, err := ziti.NewContextWithOpts(config, &ziti.Options{RefreshInterval: time.Second})
	fail(err)
	client := context.(*ziti.ContextImpl).CtrlClt
	if isLegacy {
		client.SetUseOidc(false)
	}
	cache := client.PostureCache
	cache.SetOsProviderFunc(func() posture.OsInfo { return posture.OsInfo{Type: runtime.GOOS, Version: version} })
	cache.SetDomainProviderFunc(func() string { return domain })
	fail(context.Authenticate())
	fail(context.RefreshServices())
	return context
}

func carry(context ziti.Context, service string, local net.Conn) {
	defer func() { _ = local.Close() }()
	remote, err := context.DialWithOptions(service, &ziti.DialOptions{ConnectTimeout: 3 * time.Second})
	if err != nil {
		fmt.Printf("dial refused: %v\n", err)
		return
	}
	go func() {
		_, _ = io.Copy(remote, local)
		_ = remote.Close()
	}()
	_, _ = io.Copy(local, remote)
	_ = remote.Close()
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
