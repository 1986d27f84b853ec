/**
 * A TCP relay that passes on everything after a delay, in order, with back-pressure and half close; a reset of one side resets the other.
 * Run inside a namespace by `Host.delayProxy` with its options as JSON; prints `listening`.
 */
import { connect, createServer, type Socket } from "node:net";
import type { DelayProxyOptions } from "./network-namespace.ts";

/** Bytes on their way, per direction, before the sender has to wait. */
const IN_FLIGHT = 16 * 1024 * 1024;

const options = JSON.parse(process.argv[2] ?? "{}") as DelayProxyOptions;

const server = createServer({ allowHalfOpen: true }, (client) => {
  const target = connect({ host: options.targetHost, port: options.targetPort, allowHalfOpen: true });
  pass(client, target);
  pass(target, client);
});
server.listen(options.port, options.host, () => console.log("listening"));

function pass(from: Socket, to: Socket): void {
  from.setNoDelay(true);
  let inFlight = 0;
  from.on("data", (chunk) => {
    inFlight += chunk.length;
    if (inFlight >= IN_FLIGHT) from.pause();
    setTimeout(() => {
      to.write(chunk, () => {
        inFlight -= chunk.length;
        if (inFlight < IN_FLIGHT) from.resume();
      });
    }, options.delayMs);
  });
  from.on("end", () => setTimeout(() => to.end(), options.delayMs));
  from.on("error", () => setTimeout(() => to.resetAndDestroy(), options.delayMs));
}
