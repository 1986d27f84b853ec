import { describe, expect, it } from "vitest";
import { base, problems, read } from "./testing/smallest-file.ts";

/** Nine lists, each of ten references to the one before: a billion values in 400 bytes. */
function bomb(): string {
  const lists = Array.from({ length: 9 }, (_, i) => `x${i + 1}: &l${i + 1} [${Array(10).fill(`*l${i}`).join(", ")}]`);
  return `${base}x0: &l0 [a]\n${lists.join("\n")}\n`;
}

describe("errors", () => {
  it("are all told at once, with path, line and column", () => {
    expect(
      problems(`v: 4
identity: { cert: r1.cert, key: [] }
ctrl:
  endpoint: ctrl.example:6262
  defaultRequestTimeout: 30
link:
  dialers:
    - binding: nope
listeners:
  - binding: egde
  - binding: edge
    address: tls:0.0.0.0:1
`),
    ).toEqual([
      "router.yml:1:1: v: expected 3, the only version of this file, found 4",
      "router.yml:2:1: identity.ca: expected a file or inline PEM with the trusted certificates, found nothing",
      "router.yml:2:28: identity.key: expected a file or inline PEM with the private key, found a list",
      expect.stringMatching(/^router\.yml:4:3: ctrl\.endpoint: expected an address .*, found "ctrl.example:6262"$/),
      expect.stringMatching(
        /^router\.yml:5:3: ctrl\.defaultRequestTimeout: expected a duration with a unit, .* found 30$/,
      ),
      'router.yml:8:7: link.dialers[0].binding: expected one of transport, found "nope"',
      expect.stringMatching(/^router\.yml:10:5: listeners\[0\]\.binding: expected a binding: edge, .* found "egde"$/),
      "router.yml:11:5: listeners[1].options.advertise: expected <host>:<port> that SDKs can reach, found nothing",
    ]);
  });

  const forwarderBounds: [string, number, number][] = [
    ["linkDialQueueLength", 1, 10_000],
    ["linkDialWorkerCount", 1, 10_000],
    ["rateLimitedQueueLength", 1, 50_000],
    ["rateLimitedWorkerCount", 1, 10_000],
    ["xgressDialQueueLength", 1, 10_000],
    ["xgressDialWorkerCount", 1, 10_000],
    ["circuitMemory", 4_194_304, 4_294_967_296],
  ];
  it.each(forwarderBounds)("forwarder.%s is bounded", (key, min, max) => {
    const at = (value: number) => problems(`${base}forwarder: { ${key}: ${value} }`);
    expect([at(min), at(max)]).toEqual([[], []]);
    expect([at(min - 1).length, at(max + 1).length]).toEqual([1, 1]);
  });

  it.each([
    ["minRetryInterval", "10ms", "9ms"],
    ["maxRetryInterval", "24h", "25h"],
    ["retryBackoffFactor", "100", "0.5"],
    ["retryBackoffFactor", "1", "101"],
  ])("backoff %s: %s is accepted, %s is not", (key, good, bad) => {
    const at = (value: string) =>
      problems(`${base}link: { dialers: [{ binding: transport, healthyDialBackoff: { ${key}: ${value} } }] }`);
    expect(at(good)).toEqual([]);
    expect(at(bad)).toHaveLength(1);
  });

  it.each([
    ["an empty file", "", "an empty file"],
    ["a list", "- 1", "a list"],
    ["broken YAML", "v: [1\nb: 2", "Flow sequence"],
    ["a text version", 'v: "3"\nidentity: {cert: a, key: b, ca: c}\nctrl: {}', 'found "3"'],
    [
      "an interval above its maximum",
      `${base}link: {dialers: [{binding: transport, healthyDialBackoff: {minRetryInterval: 10m}}]}`,
      "at most maxRetryInterval",
    ],
    ["a list that holds itself", `${base}link: &a [*a]`, "levels deep"],
    ["a mapping that merges itself", `${base}link: &a { <<: *a }`, "merges"],
    ["aliases that multiply", bomb(), "at most 100000 values"],
    [
      "a factor that never shrinks",
      base.replace('6262" }', '6262", rateLimiter: {decreaseFactor: 1} }'),
      "between 0 and 1",
    ],
    ["an unknown proxy", `${base}proxy: {type: socks}`, "one of http, none"],
    ["a proxy without an address", `${base}proxy: {type: http}`, "of the proxy"],
    ["an unknown web API", `${base}web: [{name: a, apis: [{binding: x}], bindPoints: []}]`, "one of health-checks"],
    ["an old westworld", `${base}transport: {westworld3: {profile_version: 2}}`, "an integer from 1 to 1"],
    ["a fraction", `${base}forwarder: {linkDialWorkerCount: 1.5}`, "an integer"],
    ["a wrong SAN", `${base}csr: {sans: {ip: [nowhere]}}`, "an IP address"],
    ["a mapping that is text", `${base}forwarder: fast`, "a mapping"],
  ])("names what is wrong with %s", (_what, text, part) => {
    expect(problems(text).join("\n")).toContain(part);
  });

  it("never show secrets", () => {
    const key = "-----BEGIN EC PRIVATE KEY-----\\nSECRET";
    const text = problems(`v: 3\nidentity: { cert: [], key: { x: "${key}" }, ca: a }\nctrl: { endpoint: "${key}" }`);
    expect(text.length).toBeGreaterThan(1);
    expect(text.join("\n")).not.toContain("SECRET");
  });
});

describe("unknown keys", () => {
  it("warn with the nearest known name and change nothing else", () => {
    const { config, warnings } = read("forwarder: { linkDialQueueLenght: 5, whatever: 1 }\nlisteneres: []\n");
    expect(warnings.map((w) => [w.path, w.line, w.expected])).toEqual([
      ["forwarder.linkDialQueueLenght", 4, "a known key, perhaps linkDialQueueLength"],
      ["forwarder.whatever", 4, expect.stringMatching(/^one of faultTxInterval, /)],
      ["listeneres", 5, "a known key, perhaps listeners"],
    ]);
    expect(config.forwarder.linkDialQueueLength).toBe(1000);
  });
});
