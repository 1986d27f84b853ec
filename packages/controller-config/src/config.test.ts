import { ConfigError } from "@sallyport/config-file";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { readControllerConfig, writeControllerConfig, yamlText } from "./index.ts";

const MINIMAL = `
api: { bind: "0.0.0.0:1280", advertise: "ctrl.example:1280" }
ctrl: { bind: "0.0.0.0:1280", advertise: "ctrl.example:1280" }
database: { dir: database }
`;

function problems(text: string, env: NodeJS.ProcessEnv = {}) {
  try {
    readControllerConfig(text, "c.yml", env);
  } catch (error) {
    if (error instanceof ConfigError) return error.message.split("\n");
    throw error;
  }
  return [];
}

describe("controller.yml", () => {
  it("has a default for everything but addresses and database", () => {
    const { config, warnings } = readControllerConfig(MINIMAL, "c.yml", {});
    expect(warnings).toEqual([]);
    expect(config).toEqual({
      v: 1,
      api: {
        bind: { host: "0.0.0.0", port: 1280 },
        advertise: { host: "ctrl.example", port: 1280 },
        drain: 0,
        serverCertificates: [],
        web: { allowedOrigins: [] },
      },
      ctrl: { bind: { host: "0.0.0.0", port: 1280 }, advertise: { host: "ctrl.example", port: 1280 } },
      replica: { api: {}, ctrl: {}, metrics: {}, workers: 1 },
      database: { dir: "database", poolSize: 16, snapshots: "snapshots" },
      edge: {
        apiSessionTimeout: 1_800_000,
        enrollment: { identity: 10_800_000, router: 10_800_000, sharedHosts: [] },
        totp: { issuer: "Sallyport" },
        oidc: {
          enabled: true,
          accessToken: 1_800_000,
          idToken: 1_800_000,
          refreshToken: 86_400_000,
          keyLife: 7_776_000_000,
          hosts: [],
          redirectUris: [],
          postLogoutUris: [],
        },
      },
      auth: {
        rateLimits: {
          enabled: true,
          address: { burst: 2_000, perMinute: 12_000 },
          failures: { burst: 50, perMinute: 60 },
        },
        maxApiSessions: 1_000,
        jwks: { allowedNetworks: [], allowPlainHttp: false },
      },
      certificates: {
        controller: 31_536_000_000,
        router: 31_536_000_000,
        identity: 31_536_000_000,
        session: 43_200_000,
      },
      network: {
        createCircuitRetries: 2,
        routeTimeoutSeconds: 10,
        cycleSeconds: 60,
        minRouterCost: 10,
        initialLinkLatency: 65_000,
        routerConnectChurnLimit: 60_000,
        smart: { rerouteFraction: 0.02, rerouteCap: 4, minCostDelta: 15 },
      },
      events: {},
      metrics: {},
      upkeep: { changeLog: 3_600_000, expiredEnrollments: 2_592_000_000, interval: 60_000 },
      log: { level: "info", format: "auto" },
    });
  });

  it("names every mistake at once with its place", () => {
    const text = `v: 2
api:
  bind: 1280
  advertise: ":1280"
database:
  url: mysql://me:secret@host/db
edge:
  apiSessionTimeout: soon
network:
  cycleSeconds: 0
  smart: 5
log: { level: loud }
`;
    expect(problems(text)).toEqual([
      "c.yml:1:1: ctrl: expected keys and values, found nothing",
      "c.yml:1:4: v: expected 1, the version of this file's format, found 2",
      "c.yml:3:9: api.bind: expected text, found 1280",
      'c.yml:4:14: api.advertise: expected an address that others can reach, host:port, for example ctrl.example.org:1280, found ":1280"',
      "c.yml:6:8: database.url: expected a PostgreSQL URL, postgres://user:password@host/database, found another text (not shown, as it may hold a password)",
      'c.yml:8:22: edge.apiSessionTimeout: expected a duration of at least 1m, for example 30m, found "soon"',
      "c.yml:10:17: network.cycleSeconds: expected at least 1, found 0",
      "c.yml:11:10: network.smart: expected keys and values, found 5",
      'c.yml:12:15: log.level: expected one of debug, info, warn, error, found "loud"',
    ]);
  });

  it("wants one database, not two and not none", () => {
    const both = MINIMAL.replace("{ dir: database }", "{ dir: d, url: postgres://u:geheim@h/d }");
    expect(problems(both)).toEqual([
      "c.yml:4:1: database: expected exactly one of url, urlFile (your own PostgreSQL, and a file with its URL) and dir (the folder of the embedded one), found the keys dir, url",
    ]);
    expect(problems(MINIMAL.replace("{ dir: database }", "{}"))).toHaveLength(1);
  });

  it.each([
    ["an unclosed bracket", "api: [1, 2\nctrl: 3\n", /^c\.yml:2:\d+: expected valid YAML, found /],
    ["a key twice", `${MINIMAL}log: {}\nlog: {}\n`, /^c\.yml:6:1: expected valid YAML, found Map keys must be unique/],
    ["a tab for indentation", "api:\n\tbind: x\n", /^c\.yml:2:\d+: expected valid YAML, found /],
    ["a list", "- a\n", /^c\.yml: expected keys and values, found a list/],
    ["an alias of nothing", "api: *nowhere\n", /^c\.yml:1:6: api: expected an alias .* found \*nowhere/],
    [
      "aliases that multiply",
      `a: &a [x, x, x, x, x, x, x, x, x, x]\nb: &b [${"*a, ".repeat(20)}]\nc: &c [${"*b, ".repeat(20)}]\nd: [${"*c, ".repeat(40)}]\n`,
      /expected at most 100000 values/,
    ],
    ["nothing", "", /^c\.yml: expected keys and values, found an empty file/],
    ["two documents", "v: 1\n---\nv: 1\n", /^c\.yml: expected one document, found several/],
  ])("says where YAML is broken: %s", (_what, text, message) => {
    expect(problems(text)[0]).toMatch(message);
  });

  it("warns of unknown keys and names what was probably meant", () => {
    const { warnings } = readControllerConfig(
      `${MINIMAL}edge:\n  apiSessionTimeOut: 1m\nnetwork:\n  smrt: {}\n  zzz: 1\n`,
      "c.yml",
      {},
    );
    expect(warnings).toMatchObject([
      { path: "edge.apiSessionTimeOut", line: 6, column: 3, expected: "a known key, perhaps apiSessionTimeout" },
      { path: "network.smrt", line: 8, column: 3, expected: "a known key, perhaps smart" },
      { path: "network.zzz", line: 9, column: 3, expected: expect.stringContaining("one of createCircuitRetries, ") },
    ]);
  });

  it("takes certificates of the operator's own, and knows where each of them stands", () => {
    const text = `api:
  bind: ":1280"
  advertise: "ctrl.example:1280"
  serverCertificates:
    - { cert: a.pem, key: a.key }
    - cert: $DIR/b.pem
      key: b.key
      kay: c.key
ctrl: { bind: ":1280", advertise: "ctrl.example:1280" }
database: { dir: database }
`;
    const { config, warnings, placeOf } = readControllerConfig(text, "c.yml", { DIR: "/etc/tls" });
    expect(config.api.serverCertificates).toEqual([
      { cert: "a.pem", key: "a.key" },
      { cert: "/etc/tls/b.pem", key: "b.key" },
    ]);
    expect(warnings).toMatchObject([
      { path: "api.serverCertificates[1].kay", line: 8, column: 7, expected: "a known key, perhaps key" },
    ]);
    expect(placeOf(["api", "serverCertificates", 0, "key"])).toEqual({ line: 5, column: 27 });
    expect(placeOf(["api", "serverCertificates", 1, "cert"])).toEqual({ line: 6, column: 13 });
    expect(problems(text.replace("cert: $DIR/b.pem", "cert: ").replace("key: a.key", 'key: ""'))).toEqual([
      'c.yml:5:27: api.serverCertificates[0].key: expected at least 1 characters, found ""',
      "c.yml:6:13: api.serverCertificates[1].cert: expected a file, found nothing",
      "c.yml:8:7: api.serverCertificates[1].kay: expected a known key, perhaps key, found the unknown key kay, which is ignored",
    ]);
    expect(problems(text.replace(/serverCertificates:\n(?: {4}.*\n)+/, "serverCertificates: a.pem\n"))).toEqual([
      'c.yml:4:23: api.serverCertificates: expected a list of certificates, each with cert and key, found "a.pem"',
    ]);
  });

  it("takes origins as browsers write them, and no others", () => {
    const text = (origin: string) => `api:
  bind: ":1280"
  advertise: "ctrl.example:1280"
  web: { allowedOrigins: [${JSON.stringify(origin)}] }
ctrl: { bind: ":1280", advertise: "ctrl.example:1280" }
database: { dir: database }
`;
    for (const origin of ["https://browzer.example.org", "http://localhost:8080", "https://[::1]:4443"]) {
      const { config, warnings } = readControllerConfig(text(origin), "c.yml", {});
      expect([config.api.web.allowedOrigins, warnings]).toEqual([[origin], []]);
    }
    for (const origin of [
      "*",
      "browzer.example.org",
      "https://a.example/",
      "https://a.example:443",
      "file:///a",
      "null",
    ]) {
      expect(problems(text(origin))).toEqual([
        expect.stringContaining("c.yml:4:27: api.web.allowedOrigins[0]: expected an origin, https://host"),
      ]);
    }
  });

  it("takes addresses to come back to and host names of OIDC, and names what is none", () => {
    const text = (key: string, value: string) => `${MINIMAL}edge: { oidc: { ${key}: [${JSON.stringify(value)}] } }\n`;
    const good: [string, string[]][] = [
      [
        "redirectUris",
        [
          "https://console.example.org/auth/callback",
          "http://127.0.0.1:*/",
          "app.example:/back",
          "https://[::1]:*/x?y",
        ],
      ],
      ["postLogoutUris", ["openziti://auth/logout"]],
      ["hosts", ["ctrl.example.org", "*.example.org", "10.0.0.1", "::1"]],
    ];
    for (const [key, values] of good) {
      for (const value of values) expect([value, problems(text(key, value))]).toEqual([value, []]);
    }
    const bad: [string, string[]][] = [
      [
        "redirectUris",
        ["/callback", "https://u:p@h/", "https://h/#a", "https://*/", `https://h/${"a".repeat(1_024)}`, "https://h/ b"],
      ],
      ["hosts", ["ctrl:1280", "*", "a.*.b", "https://h", "a/b"]],
    ];
    for (const [key, values] of bad) {
      for (const value of values) {
        expect([value, problems(text(key, value))]).toEqual([
          value,
          [expect.stringContaining(`edge.oidc.${key}[0]: expected a`)],
        ]);
      }
    }
  });

  it("wants refresh tokens of OIDC that outlive access tokens", () => {
    const oidc = (keys: string) => problems(`${MINIMAL}edge: { oidc: { ${keys} } }\n`);
    expect(oidc("accessToken: 2m, refreshToken: 3m")).toEqual([]);
    expect(oidc("accessToken: 30m, refreshToken: 30m")).toEqual([
      'c.yml:5:49: edge.oidc.refreshToken: expected a duration that is longer than that of accessToken by at least 1m, found "30m"',
    ]);
    expect(oidc("accessToken: 59s")).toEqual([expect.stringContaining("expected a duration from 1m to 24h")]);
    expect(oidc("keyLife: 1h")).toEqual([expect.stringContaining("expected a duration from 1d to 3650d")]);
  });

  it("puts environment variables in, and says which are missing", () => {
    const text = `
api: { bind: "\${HOST}:$PORT", advertise: "\${HOST}:1280" }
ctrl: { bind: "h:1", advertise: "h:1" }
database: { url: $DATABASE_URL }
network:
  cycleSeconds: \${CYCLE}
secretKeyFile: key\${NO_SUCH}
`;
    const env = { HOST: "h.example", PORT: "2222", DATABASE_URL: "postgres://u:p@h/d", CYCLE: "7" };
    const { config, warnings } = readControllerConfig(text, "c.yml", env);
    expect(config.api.bind).toEqual({ host: "h.example", port: 2222 });
    expect(config.database.url).toBe("postgres://u:p@h/d");
    expect(config.network.cycleSeconds).toBe(7);
    expect(config.secretKeyFile).toBe("key");
    expect(warnings).toMatchObject([{ line: 7, expected: "the environment variable NO_SUCH" }]);
  });

  it("reads back what it writes, and shows every key", () => {
    const place = { host: "::1", port: 1280 };
    const text = writeControllerConfig({
      api: { bind: { host: "", port: 1280 }, advertise: place },
      ctrl: { bind: { host: "0.0.0.0", port: 6262 }, advertise: { host: "on", port: 6262 } },
      database: { dir: "yes" },
      secretKeyFile: "secret.key",
    });
    const { config, warnings } = readControllerConfig(text, "c.yml", {});
    expect(warnings).toEqual([]);
    expect(config.api).toEqual({
      bind: { host: "", port: 1280 },
      advertise: place,
      drain: 0,
      serverCertificates: [],
      web: { allowedOrigins: [] },
    });
    expect(config.database.dir).toBe("yes");
    const active = readControllerConfig(
      text.replace(/^( *)# (?=[a-zA-Z]+: )(?!url: |urlFile: |dir: )/gm, "$1"),
      "c.yml",
      {},
    );
    const jwks = { ...config.auth.jwks, caFile: "idp-ca.pem" };
    const metrics = { bind: { host: "127.0.0.1", port: 9464 }, scrapeCertificate: "prometheus.pem" };
    const auth = { ...config.auth, jwks };
    expect({ ...active.config, database: {} }).toEqual({ ...config, database: {}, auth, metrics });
    expect(active.warnings).toEqual([]);
    expect(active.config.database).toEqual({
      dir: "yes",
      binaries: "/usr/lib/postgresql/17/bin",
      snapshots: "snapshots",
      user: "postgres",
      poolSize: 16,
    });
  });

  it.each([
    "yes",
    "no",
    "on",
    "off",
    "y",
    "n",
    "true",
    "null",
    "~",
    "1280",
    "0x10",
    "1e3",
    "2001-01-01",
    "12:30:45",
    "a: b",
    "# x",
    "",
    " x",
  ])("writes the text %j so that no version of YAML reads it as something else", (text) => {
    for (const version of ["1.1", "1.2"] as const)
      expect(parse(`k: ${yamlText(text)}`, { version })).toEqual({ k: text });
  });
});
