import { Agent, request } from "node:https";
import { join } from "node:path";
import { type ApiClient, createClient } from "@sallyport/api";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { freePorts, Program } from "../network/program.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";
import { peer } from "./peer.ts";

const ROOT = join(import.meta.dirname, "..", "..");
const MANAGEMENT = "/edge/management/v1";

interface Side {
  readonly name: string;
  readonly port: number;
  readonly client: ApiClient<"management">;
  readonly token: string;
}

/** The same requests to the peer's controller and to ours, and what both answer. */
describe.skipIf(peer.isMissing)("our Management API answers as the peer's does", () => {
  let folder = "";
  const programs: Program[] = [];
  const agent = new Agent({ keepAlive: true, rejectUnauthorized: false });
  let sides: readonly Side[] = [];

  const start = (name: string, command: string, args: readonly string[], env: Record<string, string> = {}): Program => {
    const program = new Program({ name, command, args, env, cwd: folder, logFile: join(folder, `${name}.log`) });
    programs.push(program);
    return program;
  };

  const login = async (name: string, port: number, program: Program, password: string): Promise<Side> => {
    const client = createClient("management", {
      baseUrl: `https://localhost:${port}`,
      tls: { rejectUnauthorized: false },
    });
    let token = "";
    await program.ready("the first login", async () => {
      const { data } = await client.authenticate({
        query: { method: "password" },
        body: { username: "admin", password },
      });
      token = data.token;
      return true;
    });
    client.setToken(token);
    return { name, port, client, token };
  };

  beforeAll(async () => {
    folder = makeScratch("api");
    const [theirs = 0, unused = 0, ours = 0] = await freePorts(3);
    const peerController = start(
      "peer-controller",
      peer.path,
      [
        ...["edge", "quickstart", "--home", join(folder, "qs"), "--no-router", "--ctrl-address", "localhost"],
        ...["--ctrl-port", String(theirs), "--router-address", "localhost", "--router-port", String(unused)],
      ],
      { ZITI_HOME: folder },
    );
    const main = join(ROOT, "controller", "src", "main.ts");
    const password = "correct-horse-battery";
    const env = { SALLYPORT_ADMIN_USERNAME: "admin", SALLYPORT_ADMIN_PASSWORD: password };
    const dir = join(folder, "controller");
    const ports = ["--api-port", String(ours), "--ctrl-port", String(ours)];
    const init = start("init", process.execPath, [main, "init", "--dir", dir, "--host", "localhost", ...ports], env);
    expect(await init.exited).toBe(0);
    const controller = start("controller", process.execPath, [main, "run", join(dir, "controller.yml")]);
    sides = [await login("peer", theirs, peerController, "admin"), await login("ours", ours, controller, password)];
    for (const { client } of sides) {
      for (const body of ROUTERS) await client.createEdgeRouter({ body });
    }
  });

  afterAll(async () => {
    agent.destroy();
    for (const { client } of sides) client.close();
    for (const program of programs.toReversed()) await program.stop();
    removeScratch(folder);
  });

  /** Asks both sides; names of lists are sorted unless the question orders them. */
  const ask = async (method: string, path: string, o: { body?: string; type?: string; anonymous?: boolean } = {}) => {
    const [theirs, ours] = await Promise.all(sides.map((side) => send(agent, side, method, MANAGEMENT + path, o)));
    return { theirs, ours };
  };

  it.each(FILTERS)("selects by %s", async (filter) => {
    const { theirs, ours } = await ask("GET", `/edge-routers?filter=${encodeURIComponent(filter)}`);
    const isOrdered = filter.includes("sort by");
    const names = (answer: Answer | undefined) => (isOrdered ? answer?.names : answer?.names?.toSorted());
    expect({ status: ours?.status, code: ours?.code, names: names(ours), total: ours?.total }).toEqual({
      status: theirs?.status,
      code: theirs?.code,
      names: names(theirs),
      total: theirs?.total,
    });
  });

  it.each(REFUSALS)("refuses %s %s %s", async (method, path, body, more = {}) => {
    const { theirs, ours } = await ask(method, path, { ...(body === undefined ? {} : { body }), ...more });
    const { value: _theirValue, message: _theirText, ...theirCause } = theirs?.cause ?? {};
    const { value: _ourValue, message: _ourText, ...ourCause } = ours?.cause ?? {};
    expect({ status: ours?.status, code: ours?.code, cause: ourCause, type: ours?.type }).toEqual({
      status: theirs?.status,
      code: theirs?.code,
      cause: theirCause,
      type: theirs?.type,
    });
  });
});

const ROUTERS = [
  { name: "Alpha_1", roleAttributes: ["x", "y"], cost: 1, disabled: true, tags: { k: "v" } },
  { name: "beta%20", roleAttributes: ["y"], cost: 2, tags: { k: "w" } },
  { name: "GAMMA \\ Ü", roleAttributes: [], cost: 3, disabled: true, tags: { k: null } },
  { name: "delta", roleAttributes: ["x-long"], cost: 4 },
  { name: "5", roleAttributes: ["x", "y", "z"], cost: 55, disabled: true, tags: { k: "v" } },
];

const FILTERS = [
  ...["true", "false", "disabled", "not disabled", "disabled = false", "isSystem = false", "connected = false"],
  ...['name = "Alpha_1"', 'name != "Alpha_1"', 'name < "a"', "name = 5", "name < 6", "name in [5]"],
  ...["disabled and cost = 2 or cost = 4", "not disabled and cost = 1", "cost=1 or cost=2 and cost=3", "((cost = 1))"],
  ...["cost = 2.0", "cost > 1.5 and cost < 4", "cost between 2 and 4", "cost not between 2 and 4", "cost in [1,4]"],
  ...["cost not in [1,4]", 'cost in ["55"]', "cost contains 5", 'name contains "_1"', 'name contains "ALPHA"'],
  ...['name icontains "ALPHA"', 'name not contains "ta"', 'name icontains "ü"', "name contains 20"],
  ...["createdAt > datetime(2020-01-01T00:00:00Z)", "fingerprint = null", "fingerprint != null", 'fingerprint != "x"'],
  ...['fingerprint not in ["x"]', 'fingerprint not contains "x"', 'not (fingerprint = "x")', 'not name != "delta"'],
  ...['anyOf(roleAttributes) = "y"', 'anyOf(roleAttributes) contains "long"', 'anyOf(roleAttributes) not in ["x"]'],
  ...['allOf(roleAttributes) = "y"', 'allOf(roleAttributes) != "y"', 'allOf(roleAttributes) not in ["x"]'],
  ...["isEmpty(roleAttributes)", "count(roleAttributes) = 2", "count(roleAttributes) between 1 and 3"],
  ...['tags.k = "v"', 'tags.k != "v"', "tags.k = null", "tags.k != null", 'tags.k in ["v","w"]'],
  ...["sort by name", "sort by name desc", "sort by cost desc limit 2", "sort by disabled, cost desc"],
  ...["true sort by name skip 1 limit 2", "cost >= 2 sort by cost desc skip 1 limit 2", "TRUE"],
  // refused by both
  ...['roleAttributes = "x"', 'anyOf(name) = "x"', "bogus = 1", 'cost = "1"', "name", "name = true", "a2=1", "a='x'"],
  ...['name contains"x"', 'name="x"and disabled', "cost in []", "limit 5 skip 1", "count = 1", " ", "true and"],
  ...['cost not  in ["x"]', "name between 1 and 9", "name > null", 'name in ["delta", 5]', "sort by roleAttributes"],
];

const JSON_TYPE = "application/json";
type Refusal = [method: string, path: string, body?: string, more?: { type?: string; anonymous?: boolean }];
const REFUSALS: Refusal[] = [
  ["GET", "/nothing"],
  ["POST", "/summary", "{}"],
  ["PUT", "/services", "{}"],
  ["GET", "/services/none"],
  ["PATCH", "/services/none", '{"name":"x"}'],
  ["DELETE", "/services/none"],
  ["POST", "/services", "{"],
  ["POST", "/services", "[]"],
  ["POST", "/services", "null"],
  ["POST", "/services", '{"name":1,"encryptionRequired":true}'],
  ["POST", "/services", '{"name":"a"}'],
  ["POST", "/services", '{"name":"","encryptionRequired":true}'],
  ["POST", "/services", '{"name":"a","encryptionRequired":true,"terminatorStrategy":"x"}'],
  ["POST", "/services", '{"name":"a","encryptionRequired":true}', { type: "text/html" }],
  ["POST", "/edge-routers", '{"name":"delta"}'],
  ["POST", "/edge-routers", '{"name":"r","cost":65536}'],
  ["POST", "/service-policies", '{"name":"p","semantic":"Some","type":"Dial"}'],
  ["POST", "/service-policies", '{"name":"p","semantic":"AllOf","type":"Dial","serviceRoles":["x"]}'],
  ["POST", "/service-policies", '{"name":"p","semantic":"AllOf","type":"Dial","serviceRoles":["@x"]}'],
  ["POST", "/service-policies", '{"name":"p","semantic":"AllOf","type":"Dial","serviceRoles":["#all","#b"]}'],
  ["POST", "/terminators", '{"service":"x","router":"y","binding":"z","address":"a"}'],
  ["POST", "/configs", '{"name":"c","configTypeId":"zz","data":{}}'],
  ["POST", "/authenticators", '{"identityId":"x","method":"magic"}'],
  ["POST", "/authenticate?method=password", '{"username":"nobody","password":"wrong-pass"}', { anonymous: true }],
  ["POST", "/authenticate?method=cert", "{}", { anonymous: true }],
];

interface Answer {
  readonly status: number;
  readonly type: string | undefined;
  readonly names?: readonly string[];
  readonly total?: number;
  readonly code?: string;
  readonly cause?: Readonly<Record<string, unknown>>;
}

function send(
  agent: Agent,
  side: Side,
  method: string,
  path: string,
  o: { body?: string; type?: string; anonymous?: boolean },
): Promise<Answer> {
  const headers = {
    ...(o.anonymous ? {} : { "zt-session": side.token }),
    ...(o.body === undefined
      ? {}
      : { "content-type": o.type ?? JSON_TYPE, "content-length": Buffer.byteLength(o.body) }),
  };
  return new Promise((resolve, reject) => {
    const outgoing = request({ agent, host: "localhost", port: side.port, method, path, headers }, (message) => {
      const chunks: Buffer[] = [];
      message.on("error", reject);
      message.on("data", (chunk: Buffer) => chunks.push(chunk));
      message.on("end", () => {
        const status = message.statusCode ?? 0;
        const type = message.headers["content-type"];
        const { data, meta, error } = JSON.parse(Buffer.concat(chunks).toString());
        if (error !== undefined) resolve({ status, type, code: error.code, cause: error.cause });
        else
          resolve({
            status,
            type,
            names: data.map((each: { name: string }) => each.name),
            total: meta.pagination.totalCount,
          });
      });
    });
    outgoing.on("error", reject);
    outgoing.end(o.body);
  });
}
