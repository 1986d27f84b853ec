/**
 * What an untrusted chain costs: the CPU time from the certificates of a handshake to the answer that no authority vouches for them.
 * Prints one line of JSON for the worst of all chains, and one for each figure of the handshakes before it (docs/benchmarks.md).
 *
 *     npm run bench:trust -- [runs = 15] [--check]
 */
import { X509Certificate } from "node:crypto";
import { peerOf, spiffeId, verifyLeaf } from "@sallyport/wire";
import { TestAuthority } from "@sallyport/wire/testing";
import { type HostileChain, hostileChains } from "@sallyport/wire/testing/hostile-chains";
import { handshakeRows } from "./handshakes.ts";

type Handshake = Parameters<typeof peerOf>[0];
type Presented = ReturnType<Handshake["getPeerX509Certificate"]>;

const TARGET_MS = 5;

/** All that is done on the event loop after a handshake. The search gets every certificate, also those that `peerOf` leaves out. */
function cost({ certificates }: HostileChain, anchors: readonly X509Certificate[]): number {
  // Node has read them in the handshake.
  const [leaf, ...intermediates] = certificates.map((der) => new X509Certificate(der));
  if (leaf === undefined) throw new Error("a chain has no leaf");
  const presented = [leaf, ...intermediates].reduceRight<Presented>(
    (issuerCertificate, { raw }) => ({ raw, issuerCertificate }),
    undefined,
  );
  const socket = { getPeerX509Certificate: () => presented } as Handshake;
  const before = process.cpuUsage();
  for (const certificate of peerOf(socket).certificates.slice(0, 1)) spiffeId(certificate);
  let isTrusted = true;
  try {
    verifyLeaf({ leaf, intermediates, anchors });
  } catch {
    isTrusted = false;
  }
  if (isTrusted) throw new Error("an untrusted chain is trusted");
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

const runs = Number(process.argv.slice(2).find((word) => /^\d+$/.test(word)) ?? 15);
const root = await TestAuthority.create("Bench root");
const issuing = await TestAuthority.create("Bench issuing", root);
const anchors = [root, issuing].map(({ certPem }) => new X509Certificate(certPem));
const costs = new Map<string, number>();
for (const chain of hostileChains(root)) {
  const all = Array.from({ length: runs }, () => cost(chain, anchors));
  costs.set(chain.name, Number(median(all).toFixed(2)));
}
const [[worst, value] = ["none", Number.NaN]] = [...costs].toSorted(([, a], [, b]) => b - a);
const isMet = value <= TARGET_MS;
console.log(
  JSON.stringify({
    figure: "an untrusted chain of 64 KiB",
    ...{ value, unit: "CPU ms", chain: worst, target: TARGET_MS, isMet, runs, all: Object.fromEntries(costs) },
  }),
);
let areMet = isMet;
for await (const row of handshakeRows(runs)) {
  console.log(JSON.stringify(row));
  areMet &&= row.isMet ?? true;
}
if (process.argv.includes("--check") && !areMet) process.exitCode = 1;
