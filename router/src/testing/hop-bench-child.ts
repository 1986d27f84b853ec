/** The child processes of hop-bench.ts: a router whose controller is the parent, or a bare pipe. */
import { once } from "node:events";
import { connect, createServer } from "node:tls";
import {
  acceptChannels,
  dialChannel,
  type Identity,
  identityFromPem,
  silentLogger,
  TlsPort,
  tlsParameters,
} from "@sallyport/wire";
import type { CircuitCreated, ControlPlane, TerminatorOutcome } from "../control/control-plane.ts";
import { startEdge } from "../edge/edge-listener.ts";
import { Forwarder } from "../forwarder/forwarder.ts";

/** A route that another router executes. */
export interface RemoteRoute {
  readonly router: string;
  readonly circuitId: string;
  readonly forwards: { srcAddress: string; dstAddress: string; dstType: number }[];
  readonly egress?: { binding: string; address: string; destination: string };
}

interface Job {
  readonly id: number;
  readonly name: string;
  readonly path: string[];
  readonly pem: { certPem: string; keyPem: string; caPem: string };
  readonly target: number;
}

type Ask = (request: Record<string, unknown>) => Promise<unknown>;

export async function servePipe(identity: Identity, target: number): Promise<number> {
  const server = createServer(
    { cert: identity.certPem, key: identity.keyPem, ...tlsParameters, noDelay: true },
    (from) => {
      const to = connect({ port: target, host: "127.0.0.1", secureContext: identity.clientContext() });
      to.setNoDelay(true);
      from.pipe(to);
      from.on("error", () => to.destroy());
      to.on("error", () => from.destroy());
      to.resume();
    },
  );
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  return typeof address === "object" && address !== null ? address.port : 0;
}

export async function serveRouter(
  job: Job,
  ask: Ask,
): Promise<Record<string, (request: Record<string, unknown>) => Promise<unknown>>> {
  const identity = identityFromPem(job.pem);
  const port = await TlsPort.listen({ host: "127.0.0.1", port: 0, identity });
  const forwarder = new Forwarder({ routerId: job.name, log: silentLogger });
  const sessions = new Map<string, string>();
  let count = 0;
  const linkTo = (index: number): string => `link-${job.path[index]}-${job.path[index + 1]}`;
  const nothing = (): (() => void) => () => {};
  const control: ControlPlane = {
    routerId: job.name,
    isConnected: () => true,
    findApiSession: async (token) => ({
      id: token,
      token,
      identityId: token,
      fingerprints: [sessions.get(token) ?? ""],
    }),
    onApiSessionRemoved: nothing,
    onApiSessionUpdated: nothing,
    onSessionRemoved: nothing,
    onTerminatorLost: nothing,
    onValidateTerminators: nothing,
    wasSessionRemoved: () => false,
    setTokenSource: () => {},
    createTerminator: async (request): Promise<TerminatorOutcome> => ({
      terminatorId: request.address,
      result: 0,
      message: "",
    }),
    removeTerminators: () => {},
    updateTerminator: async () => {},
    healthEvent: () => {},
    identityConnected: () => {},
    identityDisconnected: () => {},
    sendFault: () => {},
    createCircuit: async (): Promise<CircuitCreated> => {
      const circuitId = `circuit-${String(count++).padStart(14, "0")}`;
      const ingress = `${circuitId}-in`;
      const egress = `${circuitId}-out`;
      for (let i = job.path.length - 1; i >= 0; i--) {
        const isLast = i === job.path.length - 1;
        const before = i === 0 ? ingress : linkTo(i - 1);
        const after = isLast ? egress : linkTo(i);
        const route: RemoteRoute = {
          router: job.path[i] as string,
          circuitId,
          forwards: [
            { srcAddress: before, dstAddress: after, dstType: isLast ? 1 : 2 },
            { srcAddress: after, dstAddress: before, dstType: i === 0 ? 0 : 2 },
          ],
          ...(isLast ? { egress: { binding: "edge", address: egress, destination: "bind-session" } } : {}),
        };
        if (i === 0) await execute(route);
        else await ask({ route });
      }
      return { circuitId, address: ingress, peerData: new Map(), tags: new Map(), controllerId: "ctrl" };
    },
  };
  const execute = async (route: RemoteRoute): Promise<unknown> => {
    const egress = route.egress === undefined ? undefined : { ...route.egress, peerData: {} };
    return (await forwarder.route({ ...route, egress, attempt: 0, timeout: 10_000_000_000n, tags: {} }, "ctrl")).ok;
  };
  startEdge({ port, control, forwarder, caPem: job.pem.caPem, log: silentLogger });
  acceptChannels(port, {
    name: "link",
    protocols: ["ziti-link"],
    acceptsNoAlpn: false,
    id: job.name,
    log: silentLogger,
    onChannel: (channel) => forwarder.addLink({ id: channel.remoteId, channel, iteration: 1, peerId: "" }),
  });
  return {
    port: async () => port.port,
    sessions: async (request) => {
      for (const s of request.sessions as { token: string; fingerprint: string }[])
        sessions.set(s.token, s.fingerprint);
    },
    link: async (request) => {
      const id = request.link as string;
      const channel = await dialChannel({
        address: `tls:127.0.0.1:${request.port as number}`,
        identity,
        alpn: "ziti-link",
        hello: { idToken: id },
      });
      forwarder.addLink({ id, channel, iteration: 1, peerId: "" });
    },
    execute: async (request) => execute(request.execute as RemoteRoute),
    counters: async () => ({ ...forwarder.counters, heldTransit: forwarder.budget.dropped }),
  };
}

let before = process.cpuUsage();
let actions: Awaited<ReturnType<typeof serveRouter>> = {};
const asked = new Map<number, (answer: unknown) => void>();
let nextId = 1;

async function answerTo(request: Record<string, unknown>): Promise<Record<string, unknown>> {
  if (request.usage === true) {
    const used = process.cpuUsage(before);
    before = process.cpuUsage();
    return { cpu: (used.user + used.system) / 1e6, rss: process.memoryUsage.rss() / 1e6 };
  }
  if (request.role === "pipe") {
    const job = request as unknown as Job;
    return { port: await servePipe(identityFromPem(job.pem), job.target) };
  }
  if (request.role === "router") {
    actions = await serveRouter(request as unknown as Job, (out) => {
      const id = nextId++;
      const { promise, resolve } = Promise.withResolvers<unknown>();
      asked.set(id, resolve);
      process.send?.({ id, ...out });
      return promise;
    });
    return { port: await actions.port?.({}) };
  }
  for (const [name, act] of Object.entries(actions)) {
    if (request[name] !== undefined && name !== "port") return { answer: await act(request) };
  }
  throw new Error(`unknown request ${Object.keys(request).join(" ")}`);
}

if (process.send !== undefined) {
  process.on("SIGINT", () => process.exit(0));
  process.on("message", (message: Record<string, unknown>) => {
    if (message.answerTo !== undefined) {
      asked.get(message.answerTo as number)?.(message.answer);
      return;
    }
    answerTo(message).then((answer) => process.send?.({ answerTo: message.id, ...answer }));
  });
}
