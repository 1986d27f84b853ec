// A client of the peer's Go SDK that dials one service for every TCP connection it accepts, as an application would: what it reports of its
// posture is the SDK's own doing.
//
//	posture-client IDENTITY-FILE SERVICE PORT OS-VERSION DOMAIN [legacy|SECRET]
//		prints "ready", then "dial refused: …" for each dial that fails; "legacy" = an API session with an opaque token also where the
//		controller offers OIDC; SECRET = of an authenticator app, whose codes answer each question for one
//	posture-client wait
//		does nothing until it is ended: a process to be watched
//	posture-client flow-host IDENTITY-FILE SERVICE CONNECTIONS [legacy]
//	posture-client flow-dial IDENTITY-FILE SERVICE PORT CONNECTIONS [legacy]
//		carries circuits with the SDK's own flow control, over so many TCP connections to each router ("3+1": and one more
//		for control messages only; "0": one, and flow control is left to the router); prints "ready", then "dial refused: …"
//		for each dial that fails
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
	if len(os.Args) >= 5 && os.Args[1] == "flow-host" {
		flowHost(os.Args[2], os.Args[3], flow{connections: os.Args[4], login: argument(5)})
		return
	}
	if len(os.Args) >= 6 && os.Args[1] == "flow-dial" {
		flowDial(os.Args[2], os.Args[3], os.Args[4], flow{connections: os.Args[5], login: argument(6)})
		return
	}
	if len(os.Args) < 6 {
		fail(fmt.Errorf("expected IDENTITY-FILE SERVICE PORT OS-VERSION DOMAIN [legacy|SECRET]"))
	}
	service := os.Args[2]
	context := open(os.Args[1], os.Args[4], os.Args[5], argument(6))
	listener, err := net.Listen("tcp", "127.0.0.1:"+os.Args[3])
	fail(err)
	fmt.Println("ready")
	for {
		local, err := listener.Accept()
		fail(err)
		go carry(context, service, local)
	}
}

// argument is the one at this place, if it was given.
func argument(index int) string {
	if index < len(os.Args) {
		return os.Args[index]
	}
	return ""
}

// open logs in and loads the services; they are asked for again every second. Not every system has a version or a domain that the SDK finds.
func open(identityFile, version, domain, login string) ziti.Context {
	config, err := ziti.NewConfigFromFile(identityFile)
	fail(err)
	context, err := ziti.NewContextWithOpts(config, &ziti.Options{RefreshInterval: time.Second})
	fail(err)
	client := context.(*ziti.ContextImpl).CtrlClt
	switch login {
	case "":
	case "legacy":
		client.SetUseOidc(false)
	default:
		newAuthenticator(login).answer(context)
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
