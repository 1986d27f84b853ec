/**
 * `make demo`: a whole network on free ports of this machine, in a folder of its own, that carries real bytes.
 *
 *     npm run demo              stays up and says what to try; Ctrl-C removes everything
 *     npm run demo -- --check   ends after the check, exit code 0 or 1
 */
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { Context } from "@sallyport/sdk";
import { loginsOf } from "../network/login/logins.ts";
import { declareService, startNetwork } from "../network/network.ts";
import { Program } from "../network/program.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";
import { fetchPage, moveAndCompare } from "./client.ts";

const SERVICE = "demo-web";
const TRANSFER_BYTES = 100 * 1024 * 1024;

const { values: options } = parseArgs({ options: { check: { type: "boolean", default: false } } });
const folder = makeScratch("demo");
const started = performance.now();
const cleanup: (() => Promise<unknown>)[] = [async () => removeScratch(folder)];
let lastStep = started;
let stopping: Promise<void> | undefined;

/** Prints what was reached, with the time since the step before. */
function step(what: string): void {
  const now = performance.now();
  console.log(`${((now - lastStep) / 1000).toFixed(1).padStart(6)} s  ${what}`);
  lastStep = now;
}

function stop(): Promise<void> {
  stopping ??= (async () => {
    for (const undo of cleanup.toReversed()) await undo().catch((error: unknown) => console.error(error));
  })();
  return stopping;
}

async function demo(): Promise<void> {
  const network = await startNetwork(join(folder, "network"), { onStep: step });
  cleanup.push(() => network.stop());

  const { hostFile, clientFile } = await declareService(network, { name: SERVICE });
  step(`service "${SERVICE}" with policies: its host may use only router r2, its client only r1`);

  const host = new Program({
    name: "web-server",
    command: process.execPath,
    args: [join(import.meta.dirname, "web-server.ts"), hostFile, SERVICE],
    logFile: join(folder, "web-server.log"),
  });
  cleanup.push(() => host.stop());
  await host.line(/^hosting/);
  step("a web server hosts the service; it listens on no port");

  const context = await Context.load(clientFile);
  cleanup.push(() => context.close());
  const agent = context.httpAgent();
  cleanup.push(async () => agent.destroy());
  const page = await fetchPage(agent, SERVICE);
  step(`a client fetched its page over r1 and r2: ${JSON.stringify(page.trim())}`);
  const sides = ["host", "client"].map((side) => loginsOf(network.management, `${SERVICE}-${side}`));
  const logins = (await Promise.all(sides)).flat();
  const isByOidc = logins.every((login) => login === "oidc");
  step(`web server and client are logged in by ${isByOidc ? "OpenID Connect" : "POST /authenticate"}`);

  const transfer = await moveAndCompare(agent, SERVICE, TRANSFER_BYTES);
  step(`100 MiB there and back, checksums equal (${transfer.megabytesPerSecond.toFixed(0)} MB/s both ways together)`);
  console.log(
    JSON.stringify({
      demo: "ok",
      seconds: Number(((performance.now() - started) / 1000).toFixed(1)),
      transferBytes: transfer.bytes,
      transferSeconds: Number(transfer.seconds.toFixed(2)),
      megabytesPerSecond: Number(transfer.megabytesPerSecond.toFixed(1)),
      sha256: transfer.sha256,
      isEncryptedEndToEnd: true,
      logins,
      routers: network.routers.length,
    }),
  );
  if (options.check) return;

  const entrance = createServer({ allowHalfOpen: true }, async (socket) => {
    try {
      const stream = await context.dial(SERVICE);
      socket.pipe(stream).pipe(socket);
      stream.on("error", () => socket.destroy());
      socket.on("error", () => stream.destroy());
    } catch (error) {
      console.error(`the service could not be dialled: ${error}`);
      socket.destroy();
    }
  });
  await new Promise<void>((resolve) => entrance.listen(0, "127.0.0.1", resolve));
  cleanup.push(async () => entrance.close());

  console.log(`
The network stays up. Try, in another terminal:

  curl http://127.0.0.1:${(entrance.address() as AddressInfo).port}/
  npx sallyport login localhost:${network.port} -u admin     (the password is ${network.adminPassword})
  npx sallyport get edge-routers
  npx sallyport why ${SERVICE}-client ${SERVICE}

Logs and files are in ${folder}. Ctrl-C stops everything and removes them.`);
  await new Promise<void>((resolve) => cleanup.push(async () => resolve()));
}

for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => void stop());

try {
  await demo();
} catch (error) {
  if (stopping === undefined) {
    console.error(error);
    process.exitCode = 1;
  }
}
await stop();
