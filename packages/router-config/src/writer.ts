import { Document, isMap, isScalar, type Pair, type Scalar } from "yaml";
import { resolvePlain } from "./document.ts";
import type { RouterConfigFile } from "./schema.ts";
import { validateRouterConfig } from "./validate.ts";

/** Sections in the order of a written file, each with the comment above it. */
const SECTIONS: readonly (readonly [keyof RouterConfigFile, string])[] = [
  ["v", "Version of this file; 3 is the only one."],
  ["identity", "Certificates and keys: a file, or inline PEM. `enroll` writes cert, server_cert and ca."],
  ["ctrl", "Where the controllers are. The addresses they announce later are kept in the endpoints file."],
  ["csr", "Subject and names of the certificates this router asks for. SDKs and routers need a SAN that they dial."],
  ["edge", "Present, even empty: SDK clients are served."],
  ["link", "Links to other routers: listeners for those who dial this router, dialers for those it dials."],
  ["listeners", "Interfaces for clients."],
  ["dialers", "Ways to reach the targets of services that this router terminates."],
  ["forwarder", "Forwarding, queues and workers."],
  ["metrics", "Reports to the controllers; the latency of links, and so the choice of paths, comes from them."],
  ["healthChecks", "Checks that the health-checks API shows."],
  ["web", "HTTP servers of the router."],
  ["connectEvents", "Reports of which identities are connected."],
  ["interfaceDiscovery", "Reports of the network interfaces."],
  ["tls", "TLS of the listeners."],
  ["proxy", "HTTP proxy for the control channel and for links."],
  ["shutdown", "How long circuits may go on when the router is told to stop."],
  ["transport", "Tuning of transports."],
  ["trace", "File that receives decoded control messages. For debugging."],
  ["profile", "CPU and memory profiles. For debugging."],
  ["plugins", "Not supported."],
  ["enableDebugOps", "Debugging commands of the agent."],
  ["ha", "Without meaning."],
];

/**
 * The text of a configuration file, the same for the same input: sections in a fixed order, keys in the order given, each
 * section with a comment. Texts that a YAML 1.1 reader would take for booleans, numbers or nothing are quoted. A `$`
 * in a value stays and is replaced from the environment when the file is read; there is no escape for it.
 *
 * @param o.header comment at the top of the file; may have several lines
 * @throws ConfigError when the configuration itself is not valid
 */
export function writeRouterConfig(file: RouterConfigFile, o: { readonly header?: string } = {}): string {
  validateRouterConfig(file);
  const ordered = Object.fromEntries(
    SECTIONS.map(([name]) => [name, file[name]] as const).filter(([, value]) => value !== undefined),
  );
  const document = new Document(ordered, { aliasDuplicateObjects: false });
  if (o.header !== undefined) document.commentBefore = comment(o.header);
  quoteAmbiguous(document.contents);
  if (isMap(document.contents)) {
    for (const [i, pair] of document.contents.items.entries()) annotate(pair as Pair, i > 0);
  }
  return document.toString({ lineWidth: 0 });
}

const comment = (lines: string) =>
  lines
    .split("\n")
    .map((line) => ` ${line}`)
    .join("\n");

function annotate(pair: Pair, blankBefore: boolean): void {
  if (!isScalar(pair.key)) return;
  const name = pair.key.value;
  const text = SECTIONS.find(([section]) => section === name)?.[1];
  pair.key.spaceBefore = blankBefore;
  if (text !== undefined) pair.key.commentBefore = comment(text);
}

function quoteAmbiguous(node: unknown): void {
  if (isScalar(node)) {
    const scalar = node as Scalar;
    if (typeof scalar.value === "string" && resolvePlain(scalar.value) !== scalar.value) scalar.type = "QUOTE_DOUBLE";
  } else if (typeof node === "object" && node !== null && "items" in node) {
    for (const item of node.items as unknown[]) {
      quoteAmbiguous(
        typeof item === "object" && item !== null && "value" in item && !isScalar(item) ? item.value : item,
      );
    }
  }
}
