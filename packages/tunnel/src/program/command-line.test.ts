import { describe, expect, it } from "vitest";
import { parseCommand, USAGE } from "./command-line.ts";

const common = { udpIdleTimeoutMs: 300_000, refreshIntervalMs: 15_000, drainMs: 5_000, verbose: false };

describe("the command line", () => {
  it.each<[string[], object]>([
    [["host", "-i", "a.json"], { name: "tunnel", mode: { name: "host" }, identities: ["a.json"], ...common }],
    [
      ["proxy", "-i", "a.json", "--identity", "more", "web:80", "dns:53:udp", "-v", "--drain", "0s"],
      {
        mode: { name: "proxy", services: ["web:80", "dns:53:udp"], bindAddress: "127.0.0.1" },
        identities: ["a.json", "more"],
        verbose: true,
        drainMs: 0,
      },
    ],
    [["proxy", "-i", "a", "--bind", "0.0.0.0", "web:80"], { mode: { bindAddress: "0.0.0.0" } }],
    [
      ["run", "-i", "a"],
      { mode: { name: "run", resolver: "udp://127.0.0.1:53", dnsRange: "100.64.0.1/10", lanInterface: undefined } },
    ],
    [
      ["run", "-i", "a", "--resolver", "udp://10.0.0.1:53", "--dns-range", "10.9.0.1/16", "--lan-if", "eth1"],
      { mode: { resolver: "udp://10.0.0.1:53", dnsRange: "10.9.0.1/16", lanInterface: "eth1" } },
    ],
    [
      ["host", "-i", "a", "--refresh", "1m", "--udp-idle", "10s"],
      { refreshIntervalMs: 60_000, udpIdleTimeoutMs: 10_000 },
    ],
    [["host", "-i", "a", "--health-address", "0.0.0.0:8090"], { health: { host: "0.0.0.0", port: 8090 } }],
    [["run", "-i", "a", "--health-address", "[::1]:80"], { health: { host: "::1", port: 80 } }],
    [["enroll", "--jwt", "me.jwt"], { name: "enroll", jwtFile: "me.jwt", output: "me.json", verbose: false }],
    [["enroll", "--jwt", "token", "-o", "x"], { output: "x", ifNeeded: false }],
    [["enroll", "--jwt", "token", "--if-needed"], { output: "token.json", ifNeeded: true }],
    [
      ["join", "--controller", "https://c:1280/", "--ca", "ca.pem", "-o", "me.json"],
      {
        ...{ name: "join", controller: "https://c:1280", caFile: "ca.pem", output: "me.json", isDevice: false },
        ...{ toCertificate: false, ifNeeded: false, signer: undefined, tokenFile: undefined },
      },
    ],
    [
      ["join", "--controller", "https://c", "--ca", "a", "-o", "b", "--signer", "idp", "--device", "--enroll-to-cert"],
      { signer: "idp", isDevice: true, toCertificate: true },
    ],
    [
      ["join", "--controller", "https://c", "--ca", "a", "-o", "b", "--token-file", "t", "--if-needed"],
      { tokenFile: "t", ifNeeded: true },
    ],
    [["--version"], { name: "version" }],
    [["help"], { name: "help" }],
    [[], { name: "help" }],
  ])("%j", (args, command) => {
    expect(parseCommand(args)).toMatchObject(command);
  });

  it.each([
    [["dance"], "there is no command dance"],
    [["host"], "host needs -i <identity>"],
    [["host", "-i", "a", "web:80"], "host takes no argument, found web:80"],
    [["host", "-i", "a", "--bind", "x"], "host takes no --bind"],
    [["proxy", "-i", "a"], "proxy needs at least one <service>:<port>[:tcp|udp]"],
    [["enroll"], "enroll needs --jwt <file>"],
    [["enroll", "--jwt", "a", "-i", "b"], "enroll takes no --identity"],
    [["host", "-i", "a", "--drain", "soon"], "--drain expects a duration such as 30s or 5m, found soon"],
    [["host", "-i", "a", "--refresh", "10ms"], "--refresh expects a duration of at least 1s"],
    [["run", "-i", "a", "--udp-idle", "4s"], "--udp-idle expects a duration of at least 5s"],
    [["host", "-i", "a", "--health-address", "8090"], "--health-address expects an IP address and a port"],
    [["host", "-i", "a", "--health-address", "localhost:8090"], "such as 0.0.0.0:8090, found localhost:8090"],
    [["host", "-i", "a", "--health-address", "0.0.0.0:70000"], "--health-address expects an IP address and a port"],
    [["enroll", "--jwt", "a", "--health-address", "0.0.0.0:1"], "enroll takes no --health-address"],
    [["join", "--ca", "a", "-o", "b"], "join needs --controller <url>"],
    [
      ["join", "--controller", "http://c", "--ca", "a", "-o", "b"],
      "--controller expects https://host:port, found http",
    ],
    [
      ["join", "--controller", "c:1280", "--ca", "a", "-o", "b"],
      "--controller expects https://host:port, found c:1280",
    ],
    [["join", "--controller", "https://c", "-o", "b"], "join needs --ca <file>"],
    [["join", "--controller", "https://c", "--ca", "a"], "join needs -o <file>"],
    [
      ["join", "--controller", "https://c", "--ca", "a", "-o", "b", "--device", "--token-file", "t"],
      "--device and --token-file exclude each other",
    ],
    [["run", "-i", "a", "--device"], "run takes no --device"],
    [["host", "--colour"], "Unknown option '--colour'"],
  ])("%j is told what is wrong", (args, problem) => {
    expect(parseCommand(args)).toEqual({ name: "help", problem: expect.stringContaining(problem) });
  });

  it("help names every option", () => {
    for (const option of [
      "--identity",
      "--resolver",
      "--dns-range",
      "--lan-if",
      "--bind",
      "--refresh",
      "--udp-idle",
      "--health-address",
      "--controller",
      "--ca",
      "--signer",
      "--token-file",
      "--device",
      "--enroll-to-cert",
    ]) {
      expect(USAGE).toContain(option);
    }
  });
});
