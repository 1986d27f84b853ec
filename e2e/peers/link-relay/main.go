// Both ends of grouped links on the peer's channel module: it accepts the link of one router under the name of a second one, dials that second
// one under the name of the first, and hands on what comes. Each router has a peer at the other end of its link; no released router of the peer
// that its module registry serves makes grouped links.
//
//	link-relay FOLDER DIALER LISTENER PORT LISTENER-PORT
//		FOLDER holds the enrolled keys of both routers (NAME.key, NAME.cert, NAME.server.cert, NAME.ca); PORT is what LISTENER advertises
//
// Prints "ready", and the connections on both sides whenever they change: "accepted 3+1 dialed 3+1" (for all + for acknowledgements only).
// SIGUSR1 breaks one connection for all on each side, SIGUSR2 every one.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/openziti/channel/v4"
	"github.com/openziti/identity"
	"github.com/openziti/transport/v2"
	"github.com/openziti/transport/v2/tls"
	"github.com/sirupsen/logrus"
)

const (
	linkProtocol = "ziti-link"
	linkTimeout  = 10 * time.Second
)

// relay makes a dialed link for every link that is accepted.
type relay struct {
	dialedAs identity.Identity
	target   transport.Address

	lock  sync.Mutex
	pairs map[*linkPair]bool
}

func main() {
	if len(os.Args) != 6 {
		fail(fmt.Errorf("expected FOLDER DIALER LISTENER PORT LISTENER-PORT"))
	}
	logrus.SetLevel(logrus.WarnLevel)
	transport.AddAddressParser(tls.AddressParser{})
	folder, dialer, listener := os.Args[1], os.Args[2], os.Args[3]
	own, err := transport.ParseAddress("tls:127.0.0.1:" + os.Args[4])
	fail(err)
	target, err := transport.ParseAddress("tls:localhost:" + os.Args[5])
	fail(err)
	r := &relay{dialedAs: load(folder, dialer), target: target, pairs: map[*linkPair]bool{}}
	r.breakOnSignals()

	config := channel.DefaultListenerConfig()
	config.TransportConfig = transport.Configuration{transport.KeyProtocol: linkProtocol}
	listen := &identity.TokenId{Identity: load(folder, listener), Token: routerId(load(folder, listener))}
	groups := channel.NewMultiListener(r.accept, func(channel.Underlay) error {
		return fmt.Errorf("a link that is not grouped")
	})
	_, err = channel.NewClassicListenerF(listen, own, config, groups.AcceptUnderlay)
	fail(err)
	fmt.Println("ready")
	select {}
}

// accept makes the second half of a new link first: what comes on the first one must have somewhere to go.
func (r *relay) accept(underlay channel.Underlay, closed func()) (channel.MultiChannel, error) {
	pair := &linkPair{relay: r}
	dialed, err := r.dial(pair, underlay)
	if err != nil {
		return nil, err
	}
	near := newLinkEnd(pair, nil)
	far := dialed.GetUnderlayHandler().(*linkEnd)
	near.other, far.other = far, near
	close(far.isPaired)
	close(near.isPaired)
	accepted, err := channel.NewMultiChannel(&channel.MultiChannelConfig{
		LogicalName:     "accepted",
		Options:         channel.DefaultOptions(),
		UnderlayHandler: near,
		BindHandler:     near,
		Underlay:        underlay,
	})
	if err != nil {
		_ = dialed.Close()
		return nil, err
	}
	r.lock.Lock()
	pair.near, pair.far = accepted, dialed
	r.pairs[pair] = true
	r.lock.Unlock()
	go func() {
		select {
		case <-accepted.CloseNotify():
		case <-dialed.CloseNotify():
		}
		closed()
		r.lock.Lock()
		delete(r.pairs, pair)
		r.lock.Unlock()
		_ = accepted.Close()
		_ = dialed.Close()
	}()
	r.print(pair)
	return accepted, nil
}

// dial makes the same link to the target: the hello of the router that dialed here, with its name and the keys that prove it.
func (r *relay) dial(pair *linkPair, hello channel.Underlay) (channel.MultiChannel, error) {
	base := map[int32][]byte{
		channel.TypeHeader:             []byte(defaultUnderlay),
		channel.IsGroupedHeader:        {1},
		channel.IsFirstGroupConnection: {1},
	}
	for _, key := range []int32{routerIdHeader, routerVersionHeader, bindingHeader, iterationHeader} {
		base[key] = hello.Headers()[key]
	}
	dialer := channel.NewClassicDialer(channel.DialerConfig{
		// The body of the hello is the id of the link.
		Identity:        &identity.TokenId{Identity: r.dialedAs, Token: hello.Id()},
		Endpoint:        r.target,
		Headers:         base,
		TransportConfig: transport.Configuration{transport.KeyProtocol: linkProtocol},
	})
	first, err := dialer.CreateWithHeaders(linkTimeout, map[int32][]byte{channel.ConnectionIdHeader: []byte(hello.ConnectionId())})
	if err != nil {
		return nil, err
	}
	if isGrouped, _ := channel.Headers(first.Headers()).GetBoolHeader(channel.IsGroupedHeader); !isGrouped {
		_ = first.Close()
		return nil, fmt.Errorf("%s does not grant a group", r.target)
	}
	first.Headers()[channel.TypeHeader] = []byte(defaultUnderlay)
	end := newLinkEnd(pair, dialer)
	return channel.NewMultiChannel(&channel.MultiChannelConfig{
		LogicalName:     "dialed",
		Options:         channel.DefaultOptions(),
		UnderlayHandler: end,
		BindHandler:     end,
		Underlay:        first,
	})
}

func (r *relay) print(pair *linkPair) {
	r.lock.Lock()
	defer r.lock.Unlock()
	if pair.near != nil {
		fmt.Printf("accepted %s dialed %s\n", countsOf(pair.near), countsOf(pair.far))
	}
}

func countsOf(ch channel.MultiChannel) string {
	counts := ch.GetUnderlayCountsByType()
	return fmt.Sprintf("%d+%d", counts[defaultUnderlay], counts[ackUnderlay])
}

func (r *relay) breakOnSignals() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1, syscall.SIGUSR2)
	go func() {
		for which := range signals {
			r.lock.Lock()
			var ends []channel.MultiChannel
			for pair := range r.pairs {
				ends = append(ends, pair.near, pair.far)
			}
			r.lock.Unlock()
			for _, end := range ends {
				breakUnderlays(end, which == syscall.SIGUSR1)
			}
		}
	}()
}

func breakUnderlays(ch channel.MultiChannel, isOneEnough bool) {
	for _, underlay := range ch.GetUnderlays() {
		if channel.GetUnderlayType(underlay) == defaultUnderlay {
			_ = underlay.Close()
			if isOneEnough {
				return
			}
		}
	}
}

func load(folder, name string) identity.Identity {
	file := func(kind string) string { return filepath.Join(folder, name+"."+kind) }
	id, err := identity.LoadIdentity(identity.Config{
		Key:        file("key"),
		Cert:       file("cert"),
		ServerCert: file("server.cert"),
		CA:         file("ca"),
	})
	fail(err)
	return id
}

// routerId is the name that the certificate proves.
func routerId(id identity.Identity) string {
	return id.Cert().Leaf.Subject.CommonName
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
