import { readControllerConfig } from "@sallyport/controller-config";
import { describe, expect, test } from "vitest";
import { managedNetwork } from "../testing/managed.ts";
import { type ControllerFile, renderControllerFile } from "./controller-file.ts";

const address = { host: "ctrl.example", port: 443 };
const render = (changes: object = {}, hasCertificate = false): ControllerFile =>
  renderControllerFile(managedNetwork(changes as Readonly<Record<string, unknown>>).managed, {
    address,
    serviceHost: "ctrl.example",
    hasCertificate,
  });
const textOf = (file: ControllerFile): string => {
  if ("problem" in file) throw new Error(file.problem.message);
  return file.text;
};
const withOverrides = (overrides: object) => render({ config: { overrides } });

describe("the controller's file", () => {
  test("is what the controller reads, for the embedded database", () => {
    expect(textOf(render())).toBe(
      [
        "api:",
        "  advertise: ctrl.example:443",
        "  bind: 0.0.0.0:1280",
        "ctrl:",
        "  advertise: ctrl.example:443",
        "  bind: 0.0.0.0:1280",
        "database:",
        "  dir: /var/lib/sallyport/database",
        "  snapshots: /var/lib/sallyport/snapshots",
        "log:",
        "  format: json",
        "secretKeyFile: /etc/sallyport/key/secret.key",
        "v: 1",
        "",
      ].join("\n"),
    );
    expect(readControllerConfig(textOf(render())).warnings).toEqual([]);
  });

  test("names a file for the URL of a database, never the URL", () => {
    const text = textOf(render({ database: { urlSecretRef: { name: "db", key: "uri" } } }));
    expect(text).toContain("urlFile: /etc/sallyport/database/url");
    expect(text).not.toContain("dir:");
  });

  test("says which of several controllers it is for, and where that is reached", () => {
    const { managed } = managedNetwork({ database: { urlSecretRef: { name: "db", key: "uri" } }, replicas: 2 });
    const parts = { address, serviceHost: "ctrl.example", hasCertificate: false };
    const own = (replica: Parameters<typeof renderControllerFile>[1]["replica"]) =>
      readControllerConfig(
        textOf(renderControllerFile(managed, replica === undefined ? parts : { ...parts, replica })),
      );
    const place = { advertise: { host: "c-1.example", port: 443 } };
    const { config, warnings } = own({ id: "controller-1", address: place.advertise });
    expect(warnings).toEqual([]);
    expect(config.replica).toMatchObject({ id: "controller-1", api: place, ctrl: place });
    expect(config.api).toMatchObject({ advertise: address, drain: 5_000 });
    const alone = own({ id: "controller" }).config;
    expect(alone.replica).toMatchObject({ id: "controller", api: {}, ctrl: {} });
    expect(alone.api.drain).toBe(5_000);
    expect(readControllerConfig(textOf(render())).config.api.drain).toBe(0);
    expect(withOverrides({ replica: { id: "mine" } })).toEqual({
      problem: { reason: "InvalidConfig", message: expect.stringContaining("overrides.replica") },
    });
  });

  test("lets routers have certificates for the host that node ports are reached at, and for no other", () => {
    const shared = (exposure: object) => readControllerConfig(textOf(render({ exposure }))).config.edge.enrollment;
    expect(shared({ type: "NodePort", hostname: "nodes.example" }).sharedHosts).toEqual(["ctrl.example"]);
    expect(shared({ type: "LoadBalancer" }).sharedHosts).toEqual([]);
  });

  test("has the origins whose pages may call the APIs, and says where one is wrong", () => {
    const origins = (file: ControllerFile) => readControllerConfig(textOf(file)).config.api.web.allowedOrigins;
    expect(origins(render())).toEqual([]);
    expect(origins(render({ allowedOrigins: ["https://a.example", "https://b.example:8443"] }))).toEqual([
      "https://a.example",
      "https://b.example:8443",
    ]);
    // Browsers leave the usual port out.
    expect(render({ allowedOrigins: ["https://a.example:443"] })).toMatchObject({
      problem: { message: expect.stringMatching(/^spec\.managed\.allowedOrigins\[0\]: expected an origin/) },
    });
    expect(withOverrides({ api: { web: { allowedOrigins: ["*"] } } })).toMatchObject({
      problem: { message: expect.stringMatching(/^spec\.managed\.config\.overrides\.api\.web\.allowedOrigins\[0\]: /) },
    });
  });

  test("has the settings of logins by OIDC, and says where one is wrong", () => {
    const settings = (file: ControllerFile) => readControllerConfig(textOf(file)).config.edge.oidc;
    const oidc = {
      ...{ enabled: false, accessToken: "10m", idToken: "5m", refreshToken: "12h", keyLife: "24h" },
      ...{ hosts: ["*.example.org"], redirectUris: ["https://a.example/back"], postLogoutUris: ["app://x:*/out"] },
    };
    expect(settings(render({ oidc }))).toEqual({
      ...oidc,
      ...{ accessToken: 600_000, idToken: 300_000, refreshToken: 43_200_000, keyLife: 86_400_000 },
    });
    const defaults = settings(render());
    expect(settings(render({ oidc: { accessToken: "10m" } }))).toEqual({ ...defaults, accessToken: 600_000 });
    const overrides = { edge: { oidc: { accessToken: "20m" } } };
    expect(settings(render({ oidc, config: { overrides } })).accessToken).toBe(1_200_000);
    expect(render({ oidc: { accessToken: "24h" } })).toMatchObject({
      problem: {
        message: expect.stringMatching(/^spec\.managed\.oidc\.refreshToken: expected a duration that is longer/),
      },
    });
    expect(withOverrides({ edge: { oidc: { hosts: ["a b"] } } })).toMatchObject({
      problem: { message: expect.stringMatching(/^spec\.managed\.config\.overrides\.edge\.oidc\.hosts\[0\]: /) },
    });
  });

  test("lets the operator log in under the Service's name, whatever is advertised and overridden", () => {
    const serviceHost = "main-controller.edge.svc";
    const hosts = (changes: Readonly<Record<string, unknown>>, host = "ctrl.example") => {
      const o = { address: { host, port: 443 }, serviceHost, hasCertificate: false };
      return readControllerConfig(textOf(renderControllerFile(managedNetwork(changes).managed, o))).config.edge.oidc
        .hosts;
    };
    expect(hosts({})).toEqual([serviceHost]);
    expect(hosts({ oidc: { hosts: ["b.example"] } })).toEqual(["b.example", serviceHost]);
    expect(hosts({ config: { overrides: { edge: { oidc: { hosts: ["c.example"] } } } } })).toEqual([
      "c.example",
      serviceHost,
    ]);
    expect(hosts({ oidc: { hosts: [serviceHost] } })).toEqual([serviceHost]);
    expect(hosts({}, serviceHost)).toEqual([]);
  });

  test("serves the certificate of an issuer once there is one", () => {
    expect(textOf(render({}, true))).toContain("- cert: /etc/sallyport/certificate/tls.crt");
  });

  test("has the overrides: objects merge, lists are replaced, null deletes", () => {
    const text = textOf(withOverrides({ log: { format: null, level: "debug" }, network: { cycleSeconds: 30 } }));
    const { config } = readControllerConfig(text);
    expect(config.log).toEqual({ level: "debug", format: "auto" });
    expect(config.network.cycleSeconds).toBe(30);
  });

  test("says for how long its controller serves on", () => {
    const drainOf = (file: ControllerFile) => ("drainMs" in file ? file.drainMs : undefined);
    expect(drainOf(render())).toBe(0);
    expect(drainOf(withOverrides({ api: { drain: "2m" } }))).toBe(120_000);
  });

  test("is the same for the same inputs, whatever their order", () => {
    const one = withOverrides({ network: { cycleSeconds: 30, minRouterCost: 1 }, log: { level: "warn" } });
    const other = withOverrides({ log: { level: "warn" }, network: { minRouterCost: 1, cycleSeconds: 30 } });
    expect(one).toEqual(other);
    expect("hash" in one && one.hash).toMatch(/^[0-9a-f]{16}$/);
    expect(one).not.toEqual(render());
  });

  // biome-ignore format: a table
  test.each<[object, string]>([
    [{ api: { bind: ":1" } }, "overrides.api.bind: the operator decides"],
    [{ api: null }, "overrides.api.bind: the operator decides"],
    [{ ctrl: { advertise: "x:1" } }, "overrides.ctrl: the operator decides"],
    [{ database: { dir: "/tmp" } }, "overrides.database.dir: the operator decides"],
    [{ database: { url: "postgres://u:geheim@h/d" } }, "overrides.database.url: the operator decides"],
    [{ secretKeyFile: null }, "overrides.secretKeyFile: the operator decides"],
    [{ network: { cycleSeconds: "often" } }, "overrides.network.cycleSeconds: expected a whole number"],
    [{ network: { cycleSecond: 3 } }, "overrides.network.cycleSecond: expected a known key, perhaps cycleSeconds, found the unknown key cycleSecond"],
    [{ edge: { apiSessionTimeout: "1s" } }, "overrides.edge.apiSessionTimeout: expected a duration"],
    [{ nonsense: 1 }, "overrides.nonsense"],
  ])("refuses %j with its path", (overrides, message) => {
    const file = withOverrides(overrides);
    const problem = "problem" in file ? file.problem : undefined;
    expect(problem?.reason).toBe("InvalidConfig");
    expect(problem?.message).toContain(message);
    expect(problem?.message).not.toContain("geheim");
  });
});
