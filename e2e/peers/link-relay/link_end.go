package main

import (
	"io"
	"time"

	"github.com/openziti/channel/v4"
)

const (
	defaultUnderlay = "link.default"
	ackUnderlay     = "link.ack"

	routerIdHeader      = 2
	routerVersionHeader = 3
	bindingHeader       = 4
	iterationHeader     = 5

	acknowledgement = 1101

	wantedDefault = 3
	wantedAck     = 1
)

// linkPair is one link on its way through: as it was accepted, and as it was dialed.
type linkPair struct {
	relay     *relay
	near, far channel.MultiChannel
}

// linkEnd handles one of them: queues for everything and for acknowledgements, and further connections where it dials.
type linkEnd struct {
	channel.SenderContext
	pair        *linkPair
	other       *linkEnd
	isPaired    chan struct{}
	dialer      channel.DialUnderlayFactory
	constraints channel.UnderlayConstraints

	messages      chan channel.Sendable
	acks          chan channel.Sendable
	retries       chan channel.Sendable
	messageSender channel.Sender
	ackSender     channel.Sender
}

func newLinkEnd(pair *linkPair, dialer channel.DialUnderlayFactory) *linkEnd {
	context := channel.NewSenderContext()
	end := &linkEnd{
		SenderContext: context,
		pair:          pair,
		isPaired:      make(chan struct{}),
		dialer:        dialer,
		messages:      make(chan channel.Sendable, 64),
		acks:          make(chan channel.Sendable, 4),
		retries:       make(chan channel.Sendable, 4),
	}
	end.messageSender = channel.NewSingleChSender(context, end.messages)
	end.ackSender = channel.NewSingleChSender(context, end.acks)
	if dialer == nil {
		end.constraints.AddConstraint(defaultUnderlay, 1, 1)
	} else {
		end.constraints.AddConstraint(defaultUnderlay, wantedDefault, 1)
		end.constraints.AddConstraint(ackUnderlay, wantedAck, 0)
	}
	return end
}

// BindChannel has heartbeats made and answered by the module, and everything else handed on.
func (e *linkEnd) BindChannel(binding channel.Binding) error {
	binding.AddReceiveHandlerF(channel.AnyContentType, e.handOn)
	channel.ConfigureHeartbeat(binding, time.Second, 100*time.Millisecond, e)
	return nil
}

func (e *linkEnd) handOn(message *channel.Message, _ channel.Channel) {
	<-e.isPaired
	next := channel.NewMessage(message.ContentType, message.Body)
	for key, value := range message.Headers {
		if key != channel.HeartbeatHeader && key != channel.HeartbeatResponseHeader {
			next.Headers[key] = value
		}
	}
	sender := e.other.messageSender
	if message.ContentType == acknowledgement {
		sender = e.other.ackSender
	}
	// Fails only when that end has closed: its link is made anew.
	_ = sender.Send(next)
}

func (e *linkEnd) HeartbeatTx(int64)     {}
func (e *linkEnd) HeartbeatRx(int64)     {}
func (e *linkEnd) HeartbeatRespTx(int64) {}
func (e *linkEnd) HeartbeatRespRx(int64) {}
func (e *linkEnd) CheckHeartBeat()       {}

func (e *linkEnd) ChannelCreated(channel.MultiChannel) {}

func (e *linkEnd) Start(ch channel.MultiChannel) { e.refill(ch) }

func (e *linkEnd) refill(ch channel.MultiChannel) {
	if e.dialer == nil {
		e.constraints.CheckStateValid(ch, true)
	} else {
		e.constraints.Apply(ch, e)
	}
}

func (e *linkEnd) GetMessageSource(underlay channel.Underlay) channel.MessageSourceF {
	messages := e.messages
	if channel.GetUnderlayType(underlay) == ackUnderlay {
		messages = nil
	}
	return func(notifier *channel.CloseNotifier) (channel.Sendable, error) {
		select {
		case next := <-messages:
			return next, nil
		case next := <-e.acks:
			return next, nil
		case next := <-e.retries:
			return next, nil
		case <-e.GetCloseNotify():
		case <-notifier.GetCloseNotify():
		}
		return nil, io.EOF
	}
}

func (e *linkEnd) HandleTxFailed(_ channel.Underlay, sendable channel.Sendable) bool {
	select {
	case e.retries <- sendable:
		return true
	case e.messages <- sendable:
		return true
	default:
		return false
	}
}

func (e *linkEnd) HandleUnderlayAccepted(channel.MultiChannel, channel.Underlay) {
	go e.pair.relay.print(e.pair)
}

func (e *linkEnd) HandleUnderlayClose(ch channel.MultiChannel, _ channel.Underlay) {
	go e.pair.relay.print(e.pair)
	e.refill(ch)
}

func (e *linkEnd) GetDefaultSender() channel.Sender { return e.messageSender }

func (e *linkEnd) CreateGroupedUnderlay(id string, secret []byte, kind string, timeout time.Duration) (channel.Underlay, error) {
	return e.dialer.CreateWithHeaders(timeout, map[int32][]byte{
		channel.TypeHeader:         []byte(kind),
		channel.ConnectionIdHeader: []byte(id),
		channel.GroupSecretHeader:  secret,
		channel.IsGroupedHeader:    {1},
	})
}

func (e *linkEnd) DialFailed(_ channel.MultiChannel, _ string, attempt int) {
	time.Sleep(time.Duration(min(attempt, 10)) * 100 * time.Millisecond)
}
