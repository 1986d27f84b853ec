import { spawn } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Carrier } from "../../../cli/src/declared/carry-out.ts";
import { documentsOf } from "../../../cli/src/declared/documents.ts";
import { readManifests } from "../../../cli/src/declared/manifests.ts";
import { NetworkState } from "../../../cli/src/declared/network-state.ts";
import { kindsFor, planAll } from "../../../cli/src/declared/plan.ts";
import { ownerOf } from "../../../packages/resources/src/entity/ownership.ts";
import { EntitySync } from "../../../packages/resources/src/entity/sync.ts";
import { overlayService, services } from "../../../packages/resources/src/kinds/overlay-service/entity.ts";
import {
  type OverlayServiceSpec,
  overlayServiceDefinition,
} from "../../../packages/resources/src/kinds/overlay-service/schema.ts";
import { sample } from "../../../packages/resources/src/kinds/testing/samples.ts";
import { admit } from "../../../packages/resources/src/testing/admit.ts";
import { Cli } from "../../network/cli.ts";
import { type Network, startNetwork } from "../../network/network.ts";
import { makeScratch, removeScratch } from "../../network/scratch.ts";

const folder = makeScratch("cli-apply");
let cli: Cli;
let network: Network;

beforeAll(async () => {
  cli = await Cli.packed(folder);
  network = await startNetwork(join(folder, "network"));
  await cli.login(network);
}, 120_000);

afterAll(async () => {
  await network?.stop();
  removeScratch(folder);
});

interface Metadata {
  readonly namespace?: string;
  readonly labels?: Readonly<Record<string, string>>;
}

/** A document, in flow style: JSON is YAML. */
const declare = (kind: string, name: string, spec: object, metadata: Metadata = {}): string =>
  `${JSON.stringify({ apiVersion: "sallyport.dev/v1alpha1", kind, metadata: { name, ...metadata }, spec }, undefined, 1)}\n---\n`;

const given = (input: string, ...args: string[]) => cli.runWith({ input }, ...args, "-f", "-");
const apply = (input: string, ...args: string[]) => given(input, "apply", ...args);
const entity = async (kind: string, name: string) => JSON.parse(await cli.done("get", kind, name, "-o", "json"));

/** One of each kind, named so that a test has them for itself. */
const network1 = (prefix: string, labels: Metadata["labels"] = {}, port = 8080): string => {
  const ref = (name: string) => ({ name: `${prefix}-${name}` });
  const of = (kind: string, name: string, spec: object) => declare(kind, `${prefix}-${name}`, spec, { labels });
  return [
    // What refers to others may come before them.
    of("ServicePolicy", "dial", {
      ...{ type: "Dial", semantic: "AnyOf", serviceRefs: [ref("web")], postureCheckRefs: [ref("linux")] },
      ...{ identityRoles: ["#clients"], identityRefs: [ref("laptop")], edgeRouterRefs: [ref("eu")] },
    }),
    of("EdgeRouterPolicy", "all", { semantic: "AnyOf", edgeRouterRefs: [ref("eu")], identityRoles: ["#all"] }),
    of("ServiceEdgeRouterPolicy", "all", { semantic: "AnyOf", edgeRouterRoles: ["#all"], serviceRefs: [ref("web")] }),
    of("Identity", "laptop", {
      roleAttributes: ["clients"],
      authPolicyRef: ref("certs"),
      serviceHosting: [{ serviceRef: ref("web"), cost: 5 }],
      serviceConfigs: [{ serviceRef: ref("web"), configRef: ref("host") }],
      disabled: true,
    }),
    of("OverlayService", "web", { configRefs: [ref("host")], roleAttributes: ["b", "a"] }),
    of("EdgeRouter", "eu", { replicas: 2, roleAttributes: ["eu"], tunneler: { enabled: true } }),
    of("ServiceConfig", "host", { type: "host.v1", data: { protocol: "tcp", address: "localhost", port } }),
    of("PostureCheck", "linux", { operatingSystem: { operatingSystems: [{ type: "Linux" }] } }),
    of("AuthPolicy", "certs", { primary: { cert: { allowExpiredCerts: true } } }),
  ].join("");
};

describe("sallyport apply", () => {
  it("makes what a file declares, in the order of the references, and changes nothing the second time", async () => {
    const file = network1("one");
    const first = await apply(file);
    expect(first).toMatchObject({ code: 0, errors: "10 created\n" });
    expect(first.output).toMatch(/^ServicePolicy\/one-dial created$/m);
    const [policy, laptop, web, router, check] = [
      await entity("sp", "one-dial"),
      await entity("identity", "one-laptop"),
      await entity("service", "one-web"),
      await entity("edge-router", "one-eu-1"),
      await entity("posture-check", "one-linux"),
    ];
    expect(policy.serviceRoles).toEqual([`@${web.id}`]);
    expect(policy.postureCheckRoles).toEqual([`@${check.id}`]);
    expect(policy.identityRoles.toSorted()).toEqual(
      ["#clients", `@${laptop.id}`, `@${router.id}`, `@${(await entity("edge-router", "one-eu-0")).id}`].toSorted(),
    );
    expect(laptop).toMatchObject({ disabled: true, serviceHostingCosts: { [web.id]: 5 } });
    expect(laptop.enrollment.ott.jwt.split(".")).toHaveLength(3);
    const configs = JSON.parse(await cli.done("api", "GET", `/identities/${laptop.id}/service-configs`));
    expect(configs.data).toMatchObject([{ serviceId: web.id, configId: web.configs[0] }]);
    expect(await apply(file)).toMatchObject({ code: 0, output: "", errors: "10 unchanged\n" });
    expect(await given(file, "diff")).toEqual({ code: 0, output: "", errors: "" });
    expect(await apply(file, "--dry-run")).toEqual({ code: 0, output: "", errors: "nothing to do\n" });
    expect((await entity("sp", "one-dial")).updatedAt).toBe(policy.updatedAt);
  });

  it("shows changes as diff and --dry-run, and makes them", async () => {
    await apply(network1("two"));
    const changed = network1("two", {}, 9090)
      .replace('"disabled": true', '"disabled": false')
      .replace('"replicas": 2', '"replicas": 1')
      .replace(/"serviceConfigs": \[[^\]]*\]/, '"serviceConfigs": []');
    const shown = await given(changed, "diff");
    expect(shown.code).toBe(1);
    expect(shown.output).toBe(
      [
        "~ ServiceConfig/two-host",
        "    data.port: 8080 -> 9090",
        "~ Identity/two-laptop",
        "    disabled: true -> false",
        '    serviceConfigs: [{"service":"two-web","config":"two-host"}] -> (none)',
        "~ ServicePolicy/two-dial",
        '    identityRoles: ["#clients","@two-eu-0","@two-eu-1","@two-laptop"] -> ["#clients","@two-eu-0","@two-laptop"]',
        "~ EdgeRouterPolicy/two-all",
        '    edgeRouterRoles: ["@two-eu-0","@two-eu-1"] -> ["@two-eu-0"]',
        "- EdgeRouter/two-eu-1",
        "",
      ].join("\n"),
    );
    expect(await apply(changed, "--dry-run")).toMatchObject({ code: 0, output: shown.output });
    expect((await entity("identity", "two-laptop")).disabled).toBe(true);
    expect((await apply(changed)).errors).toMatch(/would be deleted, and there is no terminal to ask: add --yes/);
    const done = await apply(changed, "--yes");
    expect(done.output).toContain("EdgeRouter/two-eu-1 deleted\n");
    const laptop = await entity("identity", "two-laptop");
    expect(laptop.disabled).toBe(false);
    expect(JSON.parse(await cli.done("api", "GET", `/identities/${laptop.id}/service-configs`)).data).toEqual([]);
    expect(await given(changed, "diff")).toMatchObject({ code: 0, output: "" });
  });

  it("leaves what others made alone unless it is told to take it over", async () => {
    await cli.done("create", "service", "hand", "--role-attributes", "a");
    const same = declare("OverlayService", "hand", { roleAttributes: ["a"] });
    const other = declare("OverlayService", "hand", { roleAttributes: ["b"] });
    expect(await apply(same)).toMatchObject({
      code: 0,
      errors: expect.stringContaining("1 as declared, but of another owner"),
    });
    const refused = await apply(other);
    expect(refused).toMatchObject({ code: 1, output: "" });
    expect(refused.errors).toMatch(
      /^standard input:1:1: OverlayService\/hand: a service called hand .* add --adopt to take it over/,
    );
    expect(await given(other, "diff")).toMatchObject({ code: 2, output: "" });
    expect((await given(other, "diff", "--adopt")).output).toBe(
      '~ OverlayService/hand (taken over)\n    roleAttributes: ["a"] -> ["b"]\n',
    );
    expect((await apply(other, "--adopt")).output).toBe("OverlayService/hand taken over\n");
    expect((await apply(same)).output).toBe("OverlayService/hand changed\n");
  });

  it("never touches what an operator has", async () => {
    const owner = { "sallyport-cluster": "c-1", "sallyport-kind": "OverlayService", "sallyport-namespace": "edge" };
    const tags = Object.entries({ ...owner, "sallyport-name": "op", "sallyport-uid": "u-1" });
    await cli.done("create", "service", "op", ...tags.flatMap(([key, value]) => ["--tags", `${key}=${value}`]));
    const refused = await apply(declare("OverlayService", "op", { roleAttributes: ["x"] }), "--adopt");
    expect(refused.code).toBe(1);
    expect(refused.errors).toContain("belongs to OverlayService edge/op of cluster c-1");
  });

  it("leaves an entity to the operator that adopts it", async () => {
    const document = (cost: object) => declare("OverlayService", "handed-over", { roleAttributes: ["a"], ...cost });
    await apply(document({}));
    const { id } = await entity("service", "handed-over");
    const resource = {
      kind: "OverlayService",
      metadata: { namespace: "edge", name: "handed-over", uid: "u-7" },
      spec: admit(
        overlayServiceDefinition,
        sample("OverlayService", { managementPolicy: "Adopt", roleAttributes: ["a"] }),
      ).object.spec as OverlayServiceSpec,
    };
    const around = {
      owner: ownerOf(resource, "c-1"),
      scope: { roleScope: "Global", namespace: "edge" },
      references: new Map(),
    } as const;
    const { signal } = new AbortController();
    const known = { id: undefined, wasObserved: false };
    const o = { signal, onIdentified: async () => {} };
    const result = await new EntitySync(overlayService, services).sync(network.management, resource, known, around, o);
    expect(result).toMatchObject({ state: "synced", id, notes: [{ reason: "Adopted" }] });
    expect(await apply(document({}))).toMatchObject({ code: 0, output: "" });
    const refused = await apply(document({ maxIdleTimeMillis: 5 }), "--adopt");
    expect(refused.errors).toContain("belongs to OverlayService edge/handed-over of cluster c-1");
  });

  it("finds entities by name that no file declares, and names those that are nowhere", async () => {
    await cli.done("create", "identity", "somebody");
    const policy = (identity: string) =>
      declare("ServicePolicy", "loose", { type: "Dial", semantic: "AnyOf", identityRefs: [{ name: identity }] });
    expect((await apply(policy("somebody"))).code).toBe(0);
    expect((await entity("sp", "loose")).identityRoles).toEqual([`@${(await entity("identity", "somebody")).id}`]);
    const refused = await apply(policy("nobody") + declare("ServiceConfig", "typed", { type: "hosst.v1", data: {} }));
    expect(refused.code).toBe(1);
    expect(refused.errors).toContain("ServicePolicy/loose: Identity nobody does not exist");
    expect(refused.errors).toContain("the network has no config type 'hosst.v1': did you mean 'host.v1'?");
    expect(refused.errors).toContain("2 resources cannot be applied: nothing was changed");
  });

  it("goes on behind what the controller refuses, and says that it failed", async () => {
    const bad = declare("ServiceConfig", "bad", {
      type: "host.v1",
      data: { protocol: "smoke", address: "a", port: 1 },
    });
    const user = declare("OverlayService", "user-of-bad", { configRefs: [{ name: "bad" }] });
    const good = declare("OverlayService", "good", {});
    const result = await apply(bad + user + good);
    expect(result).toMatchObject({ code: 1, output: "OverlayService/good created\n" });
    expect(result.errors).toMatch(/^sallyport: ServiceConfig\/bad: .*refused/m);
    expect(result.errors).toMatch(
      /^sallyport: OverlayService\/user-of-bad: it refers to ServiceConfig bad, which is not there$/m,
    );
  });

  it("goes on where it was when it is killed", async () => {
    const names = Array.from({ length: 300 }, (_, at) => `killed-${at}`);
    const file = join(folder, "killed.yml");
    writeFileSync(file, names.map((name) => declare("OverlayService", name, { roleAttributes: ["killed"] })).join(""));
    const child = spawn(process.execPath, [cli.main, "apply", "-f", file], { env: cli.env });
    let lines = 0;
    for await (const chunk of child.stdout) {
      lines += String(chunk).split("\n").length - 1;
      if (lines >= 20) child.kill("SIGKILL");
    }
    const result = await cli.run("apply", "-f", file);
    const [, created, unchanged] = /^(\d+) created, (\d+) unchanged$/m.exec(result.errors) ?? [];
    expect(Number(created)).toBeGreaterThan(0);
    expect(Number(unchanged)).toBeGreaterThanOrEqual(20);
    expect(Number(created) + Number(unchanged)).toBe(300);
    expect((await cli.run("apply", "-f", file)).errors).toBe("300 unchanged\n");
  });

  it("takes part with another run of the same file", async () => {
    const names = Array.from({ length: 150 }, (_, at) => `shared-${at}`);
    const file = names.map((name) => declare("OverlayService", name, { roleAttributes: ["shared"] })).join("");
    const results = await Promise.all([apply(file), apply(file)]);
    expect(results.map(({ code, errors }) => [code, errors.match(/^sallyport: .*/m)])).toEqual([
      [0, null],
      [0, null],
    ]);
    expect((await apply(file)).errors).toBe("150 unchanged\n");
  });

  it("reads folders, and says what is wrong in them before it changes anything", async () => {
    const sources = join(folder, "sources");
    mkdirSync(join(sources, "below"), { recursive: true });
    writeFileSync(join(sources, "a.yml"), declare("OverlayService", "in-folder", {}));
    writeFileSync(join(sources, "below", "b.yml"), "apiVersion: v1\nkind: Secret\nmetadata: { name: s }\n");
    const all = ["apply", "-f", sources, "-R"];
    const refused = await cli.run(...all);
    expect(refused.code).toBe(1);
    expect(refused.errors).toMatch(
      /below\/b\.yml:1:1: Secret of v1 is an object of a cluster; --skip-cluster-only leaves it out\n/,
    );
    const done = await cli.run(...all, "--skip-cluster-only");
    expect(done).toMatchObject({ code: 0, output: "OverlayService/in-folder created\n" });
    expect((await cli.run("apply")).errors).toContain("no files: name them with -f FILE");
  });

  it("makes attributes those of the namespace where the Network keeps namespaces apart", async () => {
    const file = declare("OverlayService", "apart", { roleAttributes: ["web"] }, { namespace: "edge" });
    expect((await apply(file, "--role-scope", "Namespaced")).output).toBe("OverlayService/edge/apart created\n");
    expect((await entity("service", "apart")).roleAttributes.toSorted()).toEqual(["edge.all", "edge.web"]);
  });

  it("begins a new session for all requests that met the end of the old one", async () => {
    const identity = join(folder, "admin.json");
    const admin = await cli.done("create", "identity", "second-admin", "--is-admin", "--enrollment-ott", "-o", "json");
    const { enroll } = await import("@sallyport/sdk");
    writeFileSync(identity, JSON.stringify(await enroll(JSON.parse(admin).enrollment.ott.jwt)));
    await cli.done("login", "--identity", identity, "-n", "second");
    const saved = join(folder, "settings", "networks", "second.json");
    const content = JSON.parse(readFileSync(saved, "utf8"));
    writeFileSync(saved, JSON.stringify({ ...content, session: { ...content.session, token: "ended" } }));
    expect(await apply(network1("one"), "-n", "second")).toMatchObject({ code: 0, errors: "10 unchanged\n" });
  });
});

it("sallyport apply keeps what another administrator has set since everything was listed", async () => {
  const file = (attribute: string) =>
    declare("OverlayService", "raced", { encryptionRequired: true, roleAttributes: [attribute] });
  await apply(file("before"));
  const { id, tags } = await entity("service", "raced");
  const { declared } = readManifests((await documentsOf(file("after"), "f.yml")).documents);
  const state = new NetworkState(network.management, AbortSignal.timeout(60_000));
  await state.load(kindsFor(declared));
  const options = { roleScope: "Global", adopts: false } as const;
  const { steps } = await planAll(declared, state, options);
  await network.management.patchService({ params: { id }, body: { tags: { ...tags, note: "kept" } } });
  const failed: string[] = [];
  await new Carrier(steps, state, options, { done: () => {}, failed: (_, why) => failed.push(why) }).apply();
  expect(failed).toEqual([]);
  expect(await entity("service", "raced")).toMatchObject({
    roleAttributes: ["after"],
    tags: { ...tags, note: "kept" },
  });
});

describe("sallyport apply --prune", () => {
  it("deletes what was applied with the labels and is gone from the files, and nothing else", async () => {
    const red = { team: "red" };
    await apply(network1("red", red));
    const kept = declare(
      "OverlayService",
      "red-kept",
      { deletionPolicy: "Orphan", roleAttributes: ["x"] },
      { labels: red },
    );
    await apply(kept + declare("OverlayService", "blue", {}, { labels: { team: "blue" } }));
    const left = declare(
      "AuthPolicy",
      "red-certs",
      { primary: { cert: { allowExpiredCerts: true } } },
      { labels: red },
    );
    expect((await apply(left, "--prune")).errors).toContain("--prune needs -l KEY=VALUE");
    const prune = ["--prune", "-l", "team=red"];
    const shown = await given(left, "diff", ...prune);
    expect(shown.code).toBe(1);
    expect(shown.output.match(/^- /gm)).toHaveLength(10);
    expect(shown.output).toContain("- OverlayService/red-kept (stays in the network, let go)\n");
    expect(await apply(left, ...prune)).toMatchObject({ code: 2, output: "" });
    const done = await apply(left, ...prune, "--yes");
    expect(done).toMatchObject({ code: 0 });
    expect(done.errors).toBe("9 deleted, 1 let go (deletionPolicy Orphan), 1 unchanged\n");
    expect((await entity("service", "red-kept")).tags).toEqual({});
    expect((await cli.run("get", "sp", "red-dial")).code).toBe(3);
    expect((await entity("service", "blue")).name).toBe("blue");
    expect((await entity("auth-policy", "red-certs")).name).toBe("red-certs");
  });

  it("leaves what the files declare without the labels", async () => {
    const labels = { team: "moved" };
    await apply(declare("OverlayService", "moved", {}, { labels }) + declare("OverlayService", "gone", {}, { labels }));
    const now = declare("OverlayService", "moved", { roleAttributes: ["not-applied"] });
    const result = await apply(now, "--prune", "-l", "team=moved", "--yes");
    expect(result).toMatchObject({ code: 0, output: "OverlayService/gone deleted\n" });
    expect(result.errors).toBe("1 without the labels of -l: left as they are\n1 deleted\n");
    expect((await entity("service", "moved")).roleAttributes).toBeNull();
  });

  it("leaves what something else still uses, and says so", async () => {
    const labels = { team: "used" };
    await apply(declare("AuthPolicy", "used", {}, { labels }));
    await cli.done("create", "identity", "user-of-policy", "--auth-policy-id", "used");
    const result = await apply(
      declare("OverlayService", "used-rest", {}, { labels }),
      "--prune",
      "-l",
      "team=used",
      "-y",
    );
    expect(result.code).toBe(1);
    expect(result.errors).toMatch(/^sallyport: AuthPolicy\/used: the network keeps it: /m);
  });
});
