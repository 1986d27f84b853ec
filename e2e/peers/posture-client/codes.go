package main

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"github.com/openziti/edge-api/rest_model"
	"github.com/openziti/sdk-golang/ziti"
)

const codeStep = 30

// An authenticator app with this secret (RFC 6238). Controllers take a code once, and those of the steps beside the present one:
// each question is answered with the oldest code that was not used yet.
type authenticator struct {
	key  []byte
	lock sync.Mutex
	next uint64
}

func newAuthenticator(secret string) *authenticator {
	key, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(secret)
	fail(err)
	return &authenticator{key: key}
}

func (a *authenticator) code() string {
	a.lock.Lock()
	defer a.lock.Unlock()
	step := max(uint64(time.Now().Unix())/codeStep-1, a.next)
	a.next = step + 1
	mac := hmac.New(sha1.New, a.key)
	_ = binary.Write(mac, binary.BigEndian, step)
	sum := mac.Sum(nil)
	at := sum[len(sum)-1] & 15
	return fmt.Sprintf("%06d", (binary.BigEndian.Uint32(sum[at:])&0x7fffffff)%1_000_000)
}

// answer gives the SDK a code for a login, and for a posture check.
func (a *authenticator) answer(context ziti.Context) {
	context.Events().AddMfaTotpCodeListener(func(_ ziti.Context, _ *rest_model.AuthQueryDetail, respond ziti.MfaCodeResponse) {
		// The SDK takes the answer after it has asked everybody.
		go func() {
			if err := respond(a.code()); err != nil {
				fmt.Printf("code refused: %v\n", err)
			}
		}()
	})
}
