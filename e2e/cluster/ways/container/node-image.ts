/** The image of a machine that a whole cluster runs in: its programs, with the libraries that these need, and nothing else. */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { isElf } from "../../../../images/elf/elf.ts";
import { librariesOf } from "../../../../images/elf/libraries.ts";
import { writeImage } from "../../archive.ts";
import type { Tools } from "../../box/box-plan.ts";
import { NoClusterError } from "../../tools.ts";
import { programOnPath } from "../program-on-path.ts";
import { INSIDE, type NodeImage } from "./engine-plan.ts";

const KUBERNETES = ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet"];
const CONTAINERD = ["usr/bin/containerd", "usr/bin/containerd-shim-runc-v2", "usr/bin/ctr", "usr/sbin/runc"];
const NETWORKS = ["bridge", "host-local", "loopback"].map((name) => `usr/lib/cni/${name}`);
/** Of the machine's own. */
const SYSTEM = ["bash", "ip", "mount", "umount"];
const NODE = "/usr/bin/node";

/**
 * Its archive, beside the programs that it is made of; written the first time. What the repository brings is not in it but
 * comes with the cluster's folder: the image stays the same while that is worked on.
 *
 * @throws NoClusterError when this machine lacks a program
 */
export function nodeImage(tools: Tools): NodeImage {
  const made = createHash("sha256")
    .update(JSON.stringify([tools, process.version]))
    .digest("hex")
    .slice(0, 16);
  const folder = join(dirname(tools.pod), "images");
  const archive = join(folder, `node-${made}.tar`);
  const name = `localhost/sallyport-node:${made}`;
  if (!existsSync(archive)) {
    mkdirSync(folder, { recursive: true });
    const start = `${NODE} ${INSIDE.program} & wait $!`;
    // The first process is a shell, as it buries those whose parents have ended.
    writeImage(archive, { name, entrypoint: ["/usr/bin/bash", "-c", start], files: programs(tools) });
  }
  return { name, archive };
}

/** Path in the image -> file of this machine. */
function programs(tools: Tools): Record<string, string> {
  const nft = realNft(tools.nft);
  const linked: Record<string, string> = { [NODE]: process.execPath, "/usr/bin/nft": nft.program };
  for (const path of [...CONTAINERD, ...NETWORKS])
    linked[join(INSIDE.tools.containerd, path)] = join(tools.containerd, path);
  for (const name of SYSTEM) linked[`/usr/bin/${name}`] = systemProgram(name);
  const files: Record<string, string> = { ...linked, [`${INSIDE.tools.etcd}/server`]: join(tools.etcd, "server") };
  for (const name of KUBERNETES) files[`${INSIDE.tools.kubernetes}/${name}`] = join(tools.kubernetes, name);
  for (const { path, source } of librariesOf(Object.values(linked), nft.libraries)) files[path] = source;
  return files;
}

function systemProgram(name: string): string {
  const path = programOnPath(name);
  if (path === undefined)
    throw new NoClusterError(`the image of a node needs the program ${name}, which is not installed`);
  return path;
}

/** Where nft is unpacked, a script of its name tells it where its libraries are. */
function realNft(folder: string): { readonly program: string; readonly libraries: readonly string[] } {
  const program = join(folder, "nft");
  if (isElf(readFileSync(program))) return { program, libraries: [] };
  const root = join(folder, "..", "root");
  const libraries = readdirSync(join(root, "usr/lib")).map((name) => join(root, "usr/lib", name));
  return { program: join(root, "usr/sbin/nft"), libraries };
}
