package main

import (
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/openziti/sdk-golang/ziti"
)

// How many circuits there were is the test's business: each is carried to its end, half close included.

// flow is how a program logs in, and how it carries circuits.
type flow struct {
	connections string
	login       string
}

// isOwn tells whether flow control is the SDK's.
func (f flow) isOwn() bool { return f.connections != "0" }

// flowHost echoes what comes on SERVICE.
func flowHost(identityFile, service string, f flow) {
	context := f.open(identityFile)
	own := f.isOwn()
	listener, err := context.ListenWithOptions(service, &ziti.ListenOptions{
		SdkFlowControl:               &own,
		ConnectTimeout:               30 * time.Second,
		WaitForNEstablishedListeners: 1,
	})
	fail(err)
	fmt.Println("ready")
	for {
		accepted, err := listener.AcceptEdge()
		fail(err)
		go func() {
			_, err := io.Copy(accepted, accepted)
			if err == nil {
				err = accepted.CloseWrite()
			}
			if err != nil {
				fmt.Printf("echo failed: %v\n", err)
			}
			// Time for the other end to read what is left: a close gives up what is not acknowledged after a while.
			_ = accepted.Close()
		}()
	}
}

// flowDial dials SERVICE in the same way for every TCP connection to PORT.
func flowDial(identityFile, service, port string, f flow) {
	context := f.open(identityFile)
	listener, err := net.Listen("tcp", "127.0.0.1:"+port)
	fail(err)
	fmt.Println("ready")
	for {
		local, err := listener.Accept()
		fail(err)
		go f.carry(context, service, local.(*net.TCPConn))
	}
}

func (f flow) carry(context ziti.Context, service string, local *net.TCPConn) {
	defer func() { _ = local.Close() }()
	own := f.isOwn()
	remote, err := context.DialWithOptions(service, &ziti.DialOptions{ConnectTimeout: 10 * time.Second, SdkFlowControl: &own})
	if err != nil {
		fmt.Printf("dial refused: %v\n", err)
		return
	}
	defer func() { _ = remote.Close() }()
	sent := make(chan struct{})
	go func() {
		_, _ = io.Copy(remote, local)
		_ = remote.CloseWrite()
		close(sent)
	}()
	_, _ = io.Copy(local, remote)
	_ = local.CloseWrite()
	<-sent
}

func (f flow) open(identityFile string) ziti.Context {
	config, err := ziti.NewConfigFromFile(identityFile)
	fail(err)
	if f.isOwn() {
		count, controls, hasControls := strings.Cut(f.connections, "+")
		config.SetMaxDefaultConnections(number(count))
		if hasControls {
			config.SetMaxControlConnections(number(controls))
		}
	}
	context, err := ziti.NewContext(config)
	fail(err)
	if f.login == "legacy" {
		context.(*ziti.ContextImpl).CtrlClt.SetUseOidc(false)
	}
	fail(context.Authenticate())
	return context
}

func number(text string) uint32 {
	value, err := strconv.ParseUint(text, 10, 32)
	fail(err)
	return uint32(value)
}
