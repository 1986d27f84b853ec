/** A service in a pod, and a pod that calls it through the network all the time and counts what fails. */
import { eventually } from "../network/eventually.ts";
import { RESTRICTED_CONTAINER, RESTRICTED_POD } from "./restricted.ts";
import { imageOf, type Stage } from "./stage.ts";

const PORT = 9000;
/** The image's own Node, which has no shell. */
const NODE = "/usr/local/bin/node";

const SERVER = `
const server = require("http").createServer((_, answer) => answer.end("ok"));
server.keepAliveTimeout = 0;
server.listen(8080, "127.0.0.1");
process.on("SIGTERM", () => process.exit());`;

/** Two callers with a connection for each call, and one that keeps its connection for as long as that lasts. */
const CALLER = `
const http = require("http");
const count = () => ({ answered: 0, failed: [] });
let counts = { fresh: count(), kept: count(), connections: 0 };
const call = (agent, known) => new Promise((done) => {
  const asked = http.get({ host: "127.0.0.1", port: 8080, agent, timeout: 60000 }, (answer) => {
    let text = "";
    answer.on("data", (part) => (text += part)).on("error", (error) => done(error.message));
    answer.on("end", () => done(text === "ok" ? undefined : "answered " + answer.statusCode + " " + text));
  });
  asked.on("timeout", () => asked.destroy(new Error("no answer for a minute")));
  asked.on("socket", known ?? (() => {}));
  asked.on("error", (error) => done(error.message));
});
const forever = async (kind, agent, known) => {
  for (;;) {
    // A call counts where it began: what counting begins for comes after it.
    const mine = counts[kind];
    const failed = await call(agent, known);
    if (failed === undefined) mine.answered++;
    else mine.failed.push(new Date().toISOString() + " " + failed);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
};
const sockets = new WeakSet();
const known = (socket) => {
  if (!sockets.has(socket)) counts.connections++;
  sockets.add(socket);
};
for (let n = 0; n < 2; n++) void forever("fresh", false);
void forever("kept", new http.Agent({ keepAlive: true, maxSockets: 1 }), known);
http.createServer((asked, answer) => {
  answer.end(JSON.stringify(counts));
  if (asked.url === "/restart") counts = { fresh: count(), kept: count(), connections: 0 };
}).listen(${PORT});
process.on("SIGTERM", () => process.exit());`;

export interface Calls {
  readonly answered: number;
  /** Time and error of each. */
  readonly failed: readonly string[];
}

export interface Counts {
  /** With a connection of its own for each call. */
  readonly fresh: Calls;
  /** On one connection, and on the next when that ended. */
  readonly kept: Calls;
  /** How many connections the latter has opened. */
  readonly connections: number;
}

export class Traffic {
  readonly #stage: Stage;
  /** Name of the pod that calls. */
  readonly #caller: string;

  private constructor(stage: Stage, caller: string) {
    this.#stage = stage;
    this.#caller = caller;
  }

  /**
   * Declares service, identities, policies and pods in the network `main`, whose routers are `#public`; resolves when calls are answered.
   *
   * @param dialSeconds how long a call may wait for its connection; the tunneler's own 5 when absent
   */
  static async start(stage: Stage, dialSeconds?: number): Promise<Traffic> {
    await stage.apply([...resources(dialSeconds), host(), caller()]);
    await stage.wait("condition=Available", "deployment/caller", 600);
    const [pod = ""] = await stage.pods("app.kubernetes.io/name=caller");
    const traffic = new Traffic(stage, pod);
    await stage.explain(
      eventually("calls are answered", async () => (await traffic.counts()).fresh.answered > 0, 600_000),
    );
    return traffic;
  }

  async counts(): Promise<Counts> {
    return await this.#ask("/");
  }

  /** Begins to count from nothing; resolves with what was counted until now. */
  async restartCounts(): Promise<Counts> {
    return await this.#ask("/restart");
  }

  /** Until so many more calls of each kind were answered. */
  async answered(more: number): Promise<void> {
    const { fresh, kept } = await this.counts();
    await this.#stage.explain(
      eventually(
        `${more} more calls are answered`,
        async () => {
          const now = await this.counts();
          return now.fresh.answered >= fresh.answered + more && now.kept.answered >= kept.answered + more;
        },
        300_000,
      ),
    );
  }

  async #ask(path: string): Promise<Counts> {
    return JSON.parse(await this.#stage.fetchFrom(this.#caller, PORT, path)) as Counts;
  }
}

const resource = (kind: string, name: string, spec: object) => ({
  apiVersion: "sallyport.dev/v1alpha1",
  kind,
  metadata: { name },
  spec: { networkRef: { name: "main" }, ...spec },
});

function resources(dialSeconds: number | undefined): object[] {
  const identity = (name: string) => resource("Identity", name, { enrollment: { output: "IdentitySecret" } });
  const allOf = (kind: string, roles: string) =>
    resource(kind, "all", { semantic: "AnyOf", edgeRouterRoles: ["#public"], [roles]: ["#all"] });
  const policy = (type: string, identityName: string) =>
    resource("ServicePolicy", `web-${type.toLowerCase()}`, {
      type,
      semantic: "AnyOf",
      identityRefs: [{ name: identityName }],
      serviceRefs: [{ name: "web" }],
    });
  return [
    identity("host"),
    identity("caller"),
    resource("ServiceConfig", "web", {
      type: "host.v1",
      data: { protocol: "tcp", address: "127.0.0.1", port: 8080 },
    }),
    ...(dialSeconds === undefined ? [] : [patience(dialSeconds)]),
    resource("OverlayService", "web", {
      configRefs: ["web", ...(dialSeconds === undefined ? [] : ["patience"])].map((name) => ({ name })),
    }),
    policy("Bind", "host"),
    policy("Dial", "caller"),
    allOf("EdgeRouterPolicy", "identityRoles"),
    allOf("ServiceEdgeRouterPolicy", "serviceRoles"),
  ];
}

const patience = (connectTimeoutSeconds: number) =>
  resource("ServiceConfig", "patience", {
    type: "intercept.v1",
    data: {
      protocols: ["tcp"],
      addresses: ["web.example"],
      portRanges: [{ low: 80, high: 80 }],
      dialOptions: { connectTimeoutSeconds },
    },
  });

const host = () => workload("host", SERVER, ["host"], []);
const caller = () => workload("caller", CALLER, ["proxy"], ["web:8080"]);

/** A program in a pod beside the tunneler, which has the identity of the same name. */
function workload(name: string, script: string, [mode]: readonly string[], services: readonly string[]): object {
  const labels = { "app.kubernetes.io/name": name };
  const program = { imagePullPolicy: "IfNotPresent", image: imageOf("tunnel"), securityContext: RESTRICTED_CONTAINER };
  const volumeMounts = [{ name: "identity", mountPath: "/identity", readOnly: true }];
  const args = [mode, "-i", "/identity/identity.json", ...services];
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name },
    spec: {
      selector: { matchLabels: labels },
      template: {
        metadata: { labels },
        spec: {
          automountServiceAccountToken: false,
          securityContext: RESTRICTED_POD,
          containers: [
            { name, command: [NODE, "-e", script], ...program },
            { name: "tunnel", args, volumeMounts, ...program },
          ],
          volumes: [{ name: "identity", secret: { secretName: `${name}-identity`, defaultMode: 0o440 } }],
        },
      },
    },
  };
}
