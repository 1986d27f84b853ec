import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startTestController, type TestController } from "../testing/test-controller.ts";

let c: TestController;
beforeAll(async () => {
  c = await startTestController();
});
afterAll(() => c.close());

/** What each type has besides the common fields, as it is sent and as it is shown. */
const TYPES = {
  OS: {
    definition: "OperatingSystem",
    body: { operatingSystems: [{ type: "Linux", versions: [">=5.4.0 <7.0.0"] }, { type: "Windows" }] },
    shown: {
      operatingSystems: [
        { type: "Linux", versions: [">=5.4.0 <7.0.0"] },
        { type: "Windows", versions: null },
      ],
    },
    changed: { operatingSystems: [{ type: "macOS", versions: null }] },
    required: ["operatingSystems"],
  },
  PROCESS: {
    definition: "Process",
    body: { process: { osType: "Windows", path: "C:\\av\\av.exe", hashes: null, signerFingerprint: "" } },
    shown: { process: { osType: "Windows", path: "C:\\av\\av.exe", hashes: null, signerFingerprint: "" } },
    changed: { process: { osType: "Linux", path: "/usr/bin/av", hashes: ["00ff"] } },
    required: ["process"],
  },
  PROCESS_MULTI: {
    definition: "ProcessMulti",
    body: { semantic: "AnyOf", processes: [{ osType: "macOS", path: "/usr/bin/agent" }] },
    shown: {
      semantic: "AnyOf",
      processes: [{ osType: "macOS", path: "/usr/bin/agent", hashes: [], signerFingerprints: [] }],
    },
    changed: {
      semantic: "AllOf",
      processes: [{ osType: "Linux", path: "/a", hashes: ["aa"], signerFingerprints: ["bb"] }],
    },
    required: ["processes", "semantic"],
  },
  DOMAIN: {
    definition: "Domain",
    body: { domains: ["corp.example"] },
    shown: { domains: ["corp.example"] },
    changed: { domains: ["a.example", "b.example"] },
    required: ["domains"],
  },
  MAC: {
    definition: "MacAddress",
    body: { macAddresses: ["0123456789ab"] },
    shown: { macAddresses: ["0123456789ab"] },
    changed: { macAddresses: ["00:00:00:00:00:01"] },
    required: ["macAddresses"],
  },
  MFA: {
    definition: "Mfa",
    body: { timeoutSeconds: 3600, promptOnWake: true },
    shown: { timeoutSeconds: 3600, promptOnWake: true, promptOnUnlock: false, ignoreLegacyEndpoints: false },
    changed: { timeoutSeconds: -1, promptOnWake: false, promptOnUnlock: true, ignoreLegacyEndpoints: true },
    required: [],
  },
} as const;
type Type = keyof typeof TYPES;
const EACH = Object.keys(TYPES) as Type[];

const detail = async (id: string) => (await c.admin("GET", `/posture-checks/${id}`)).json.data;

describe.each(EACH)("a posture check of type %s", (type) => {
  const { definition, body, shown, changed, required } = TYPES[type];

  it("is created, shown and listed", async () => {
    const roleAttributes = [`a-${type}`, "shared"];
    const id = await c.make("posture-checks", { name: `new ${type}`, typeId: type, roleAttributes, ...body });
    const made = await detail(id);
    expect(made).toMatchObject({
      id,
      name: `new ${type}`,
      typeId: type,
      roleAttributes,
      tags: {},
      version: 1,
      _links: { self: { href: `./posture-checks/${id}` } },
      ...shown,
    });
    const listed = (await c.admin("GET", `/posture-checks?filter=typeId="${type}"`)).json.data;
    expect(listed).toContainEqual(made);
  });

  it("takes the definition name that fits the operation as typeId, and answers the short one", async () => {
    const typeId = (operation: string) => `postureCheck${definition}${operation}`;
    const id = await c.make("posture-checks", { name: `named ${type}`, typeId: typeId("Create"), ...body });
    expect((await detail(id)).typeId).toBe(type);
    const put = { name: `named ${type}`, typeId: typeId("Update"), ...body };
    expect((await c.admin("PUT", `/posture-checks/${id}`, put)).status).toBe(200);
    expect((await c.admin("PATCH", `/posture-checks/${id}`, { typeId: typeId("Patch"), name: "p" })).status).toBe(200);
    expect((await detail(id)).typeId).toBe(type);
    for (const wrong of [typeId("Update"), typeId("Patch"), "postureCheckCreate"]) {
      expect((await c.admin("POST", "/posture-checks", { name: "x", typeId: wrong, ...body })).status).toBe(400);
    }
    await c.admin("DELETE", `/posture-checks/${id}`);
  });

  it("is replaced as a whole, with or without its type, and counts its versions", async () => {
    const id = await c.make("posture-checks", {
      name: `old ${type}`,
      typeId: type,
      roleAttributes: ["x"],
      tags: { a: "b" },
      ...body,
    });
    const put = (given: object) => c.admin("PUT", `/posture-checks/${id}`, given);
    expect((await put({ name: `other ${type}`, typeId: type, ...changed })).status).toBe(200);
    expect(await detail(id)).toMatchObject({
      name: `other ${type}`,
      roleAttributes: [],
      tags: {},
      version: 2,
      ...changed,
    });
    expect((await put({ name: `other ${type}`, ...body })).status).toBe(200);
    expect(await detail(id)).toMatchObject({ version: 3, typeId: type, ...shown });
    for (const field of required) {
      const { [field as string]: _, ...rest } = { ...body } as Record<string, unknown>;
      for (const typeId of [{ typeId: type }, {}]) {
        const answer = await put({ name: "n", ...typeId, ...rest });
        expect([answer.status, answer.json.error.cause?.field]).toEqual([400, field]);
      }
    }
    const other = type === "MAC" ? "DOMAIN" : "MAC";
    const answer = await put({ name: "n", typeId: other, ...TYPES[other].body });
    expect([answer.status, answer.json.error.cause?.field]).toEqual([400, "typeId"]);
    expect((await put({ typeId: type, ...body })).json.error.cause.field).toBe("name");
  });

  it("is patched in the fields that are given", async () => {
    const id = await c.make("posture-checks", {
      name: `patched ${type}`,
      typeId: type,
      roleAttributes: ["x"],
      ...body,
    });
    const patch = (given: object) => c.admin("PATCH", `/posture-checks/${id}`, given);
    expect((await patch({ typeId: type, tags: { a: "b" }, name: null })).status).toBe(200);
    expect(await detail(id)).toMatchObject({
      name: `patched ${type}`,
      tags: { a: "b" },
      roleAttributes: ["x"],
      ...shown,
    });
    const [[field, value]] = Object.entries(changed) as [[string, unknown]];
    expect((await patch({ typeId: type, [field]: value })).status).toBe(200);
    expect(await detail(id)).toMatchObject({ ...shown, [field]: value });
    expect((await patch({ name: "without type" })).status).toBe(400);
    expect((await patch({ typeId: type === "MAC" ? "DOMAIN" : "MAC" })).json.error.cause.field).toBe("typeId");
  });

  it("is deleted, and then not found", async () => {
    const id = await c.make("posture-checks", { name: `gone ${type}`, typeId: type, ...body });
    const policy = await c.make("service-policies", {
      name: `asks for ${type}`,
      type: "Dial",
      semantic: "AnyOf",
      postureCheckRoles: [`@${id}`],
    });
    expect((await c.admin("DELETE", `/posture-checks/${id}`)).status).toBe(200);
    expect((await c.admin("GET", `/service-policies/${policy}`)).json.data.postureCheckRoles).toBe(null);
    for (const [method, given] of [
      ["GET", undefined],
      ["DELETE", undefined],
      ["PUT", { name: "n", typeId: type, ...body }],
      ["PATCH", { typeId: type }],
    ] as const) {
      const answer = await c.admin(method, `/posture-checks/${id}`, given);
      expect([method, answer.status, answer.json.error?.code]).toEqual([method, 404, "NOT_FOUND"]);
    }
  });
});

it("keys of a body may be written in any case, as OpenZiti's CLI does", async () => {
  const id = await c.make("posture-checks", {
    Name: "any case",
    typeId: "OS",
    operatingSystems: [{ Type: "Linux", Versions: [">=5.4.0"] }],
  });
  const system = { type: "Linux", versions: [">=5.4.0"] };
  expect(await detail(id)).toMatchObject({ name: "any case", operatingSystems: [system] });
});

describe("posture checks are refused", () => {
  it.each([
    ["an empty list of domains", { typeId: "DOMAIN", domains: [] }, "domains"],
    ["an empty list of addresses", { typeId: "MAC", macAddresses: [] }, "macAddresses"],
    ["an empty list of systems", { typeId: "OS", operatingSystems: [] }, "operatingSystems"],
    ["an empty list of processes", { typeId: "PROCESS_MULTI", semantic: "AllOf", processes: [] }, "processes"],
    ["no domains", { typeId: "DOMAIN" }, "domains"],
    ["an unknown system", { typeId: "OS", operatingSystems: [{ type: "Plan9" }] }, "operatingSystems.0.type"],
    [
      "a range that is none",
      { typeId: "OS", operatingSystems: [{ type: "Linux", versions: ["1.0.0", ">> 5"] }] },
      "operatingSystems[0].versions[1]",
    ],
    ["a process without path", { typeId: "PROCESS", process: { osType: "Linux" } }, "process.path"],
    ["an attribute with a mark", { typeId: "DOMAIN", domains: ["a"], roleAttributes: ["#x"] }, "roleAttributes"],
    ["an empty name", { name: "", typeId: "DOMAIN", domains: ["a"] }, "name"],
    ["a timeout with a fraction", { typeId: "MFA", timeoutSeconds: 1.5 }, "timeoutSeconds"],
  ])("with %s", async (_name, body, field) => {
    const answer = await c.admin("POST", "/posture-checks", { name: "bad", ...body });
    expect([answer.status, answer.json.error.cause?.field ?? answer.json.error.cause?.message]).toEqual([
      400,
      expect.stringContaining(field),
    ]);
  });

  it.each([{}, { typeId: "" }, { typeId: "NEW" }, { typeId: 7 }, { typeId: null }])(
    "with the type %j",
    async (body) => {
      expect((await c.admin("POST", "/posture-checks", { name: "bad", ...body })).status).toBe(400);
    },
  );

  it("with a name that is taken", async () => {
    await c.make("posture-checks", { name: "taken", typeId: "DOMAIN", domains: ["a"] });
    const answer = await c.admin("POST", "/posture-checks", { name: "taken", typeId: "MAC", macAddresses: ["a"] });
    expect([answer.status, answer.json.error.cause.field]).toEqual([400, "name"]);
  });

  it("for who is not an administrator", async () => {
    expect((await c.call("GET", "/edge/management/v1/posture-checks")).status).toBe(401);
  });
});

describe("lists", () => {
  it("find checks by role, by their symbols, and the attributes in use", async () => {
    const make = (name: string, roleAttributes: string[], more: object) =>
      c.make("posture-checks", { name, roleAttributes, ...more });
    const a = await make("list a", ["list-one", "list-two"], { typeId: "MFA", promptOnWake: true });
    const b = await make("list b", ["list-one"], { typeId: "MFA", promptOnUnlock: true });
    const d = await make("list c", [], { typeId: "DOMAIN", domains: ["x"] });
    const ids = async (query: string) =>
      (await c.admin("GET", `/posture-checks?${query}`)).json.data.map((each: { id: string }) => each.id).sort();
    const one = encodeURIComponent("#list-one");
    const two = encodeURIComponent("#list-two");
    expect(await ids(`roleFilter=${one}&roleFilter=${two}`)).toEqual([a]);
    expect(await ids(`roleFilter=${one}&roleFilter=${two}&roleSemantic=AnyOf`)).toEqual([a, b].sort());
    expect(await ids(`roleFilter=${two}&roleFilter=${encodeURIComponent(`@${d}`)}`)).toEqual([a, d].sort());
    const named = encodeURIComponent('name contains "list " and promptOnWake=true');
    expect(await ids(`filter=${named}`)).toEqual([a]);
    expect((await c.admin("GET", "/posture-checks?filter=roleAttributes=1")).json.error.code).toBe("INVALID_FILTER");
    const attributes = await c.admin(
      "GET",
      `/posture-check-role-attributes?filter=${encodeURIComponent('id contains "list-"')}`,
    );
    expect(attributes.json.data).toEqual(["list-one", "list-two"]);
    const policy = await c.make("service-policies", {
      name: "list policy",
      type: "Dial",
      semantic: "AllOf",
      postureCheckRoles: ["#list-one", "#list-two", `@${d}`],
    });
    const selected = await c.admin("GET", `/service-policies/${policy}/posture-checks`);
    expect(selected.json.data.map((each: { id: string }) => each.id).sort()).toEqual([a, d].sort());
    expect((await c.admin("GET", "/service-policies/none/posture-checks")).json.data).toEqual([]);
  });

  it("name the types", async () => {
    const types = (await c.admin("GET", "/posture-check-types?sort=id")).json.data;
    // Consoles add MFA themselves.
    expect(types.map((each: { id: string }) => each.id)).toEqual(["DOMAIN", "MAC", "OS", "PROCESS", "PROCESS_MULTI"]);
    expect((await c.admin("GET", "/posture-check-types/OS")).json.data).toMatchObject({
      name: "Operating System Check",
      _links: { self: { href: "./posture-check-types/OS" } },
    });
    expect((await c.admin("GET", "/posture-check-types/NONE")).status).toBe(404);
  });
});
