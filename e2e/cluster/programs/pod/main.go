// Command pod is what the pods of the tests of the cluster run; the image of every pod's sandbox is made of it, too.
//
//	pod pause                      buries orphans until it is told to stop
//	pod serve ADDRESS FOLDER       serves FOLDER over HTTP, and tells the pod's name at /name
//	pod fetch SECONDS URL          prints what URL answers, trying again until it answers or the time is over
//	pod write FILE TEXT            writes a file
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 1 && args[0] == "pause":
		pause()
		return nil
	case len(args) == 3 && args[0] == "serve":
		go pause()
		return serve(args[1], args[2])
	case len(args) == 3 && args[0] == "fetch":
		return fetch(args[1], args[2])
	case len(args) == 3 && args[0] == "write":
		return os.WriteFile(args[1], []byte(args[2]), 0o644)
	}
	return fmt.Errorf("usage: pod pause | serve ADDRESS FOLDER | fetch SECONDS URL | write FILE TEXT, not %q", args)
}

// pause is the whole life of a sandbox. The first process of a process namespace must handle signals itself: the
// kernel drops those that have no handler.
func pause() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for received := range signals {
		if received != syscall.SIGCHLD {
			os.Exit(0)
		}
		for {
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
				break
			}
		}
	}
}

func serve(address, folder string) error {
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	http.HandleFunc("/name", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, name) })
	http.Handle("/", http.FileServer(http.Dir(folder)))
	return http.ListenAndServe(address, nil)
}

func fetch(seconds, url string) error {
	limit, err := strconv.Atoi(seconds)
	if err != nil {
		return fmt.Errorf("seconds to try for: %w", err)
	}
	client := http.Client{Timeout: 2 * time.Second}
	end := time.Now().Add(time.Duration(limit) * time.Second)
	for {
		text, err := get(&client, url)
		if err == nil {
			fmt.Print(text)
			return nil
		}
		if time.Now().After(end) {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func get(client *http.Client, url string) (string, error) {
	answer, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, answer.Status)
	}
	return string(body), err
}
