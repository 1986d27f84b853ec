// Command health runs a health check of Argo CD: health SCRIPT reads resources as JSON lines, and prints as many lines with what the script answers.
//
// The interpreter is the one that Argo CD has, and the libraries are those that it opens for a script of a user.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	lua "github.com/yuin/gopher-lua"
)

type answer struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: health SCRIPT <RESOURCES")
	}
	script, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var resource map[string]any
		if err := in.Decode(&resource); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		health, err := healthOf(string(script), resource)
		if err != nil {
			return err
		}
		if err := out.Encode(health); err != nil {
			return err
		}
	}
}

func healthOf(script string, resource map[string]any) (answer, error) {
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for name, open := range map[string]lua.LGFunction{
		lua.LoadLibName: lua.OpenPackage,
		lua.BaseLibName: lua.OpenBase,
		lua.TabLibName:  lua.OpenTable,
	} {
		if err := state.CallByParam(lua.P{Fn: state.NewFunction(open), Protect: true}, lua.LString(name)); err != nil {
			return answer{}, err
		}
	}
	state.SetGlobal("obj", valueOf(state, resource))
	if err := state.DoString(script); err != nil {
		return answer{}, err
	}
	table, isTable := state.Get(-1).(*lua.LTable)
	if !isTable {
		return answer{}, fmt.Errorf("the script answered %s, not a table", state.Get(-1).Type())
	}
	return answer{Status: lua.LVAsString(table.RawGetString("status")), Message: lua.LVAsString(table.RawGetString("message"))}, nil
}

func valueOf(state *lua.LState, value any) lua.LValue {
	switch given := value.(type) {
	case bool:
		return lua.LBool(given)
	case float64:
		return lua.LNumber(given)
	case string:
		return lua.LString(given)
	case []any:
		list := state.NewTable()
		for _, item := range given {
			list.Append(valueOf(state, item))
		}
		return list
	case map[string]any:
		object := state.NewTable()
		for key, item := range given {
			object.RawSetString(key, valueOf(state, item))
		}
		return object
	}
	return lua.LNil
}
